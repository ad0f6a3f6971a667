"""Runs a model on real text and writes its KV cache as blocks, for `tools/dev bench codec`.

usage: python dump_kv.py MODEL OUT_DIR [--fit-tokens N] [--test-tokens N] [--text FILE | --code]

Sequences of 512 tokens, each cut into blocks of 256. OUT_DIR gets fit.safetensors and
test.safetensors with a tensor a block, named `SEQUENCE.BLOCK`: bf16 [layers, 2, kv_heads, 256,
head_dim], K after RoPE as the engine stores it. Fit and test never share a sequence. Written whole
or not at all.
"""

import argparse
import pathlib
import pydoc_data.topics
import sysconfig
import time

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

SEQUENCE, BLOCK = 512, 256


def prose(path: pathlib.Path | None) -> str:
    """A file's text, or Python's own reference pages, which every machine has."""
    if path:
        return path.read_text(errors="replace")
    return "\n".join(pydoc_data.topics.topics.values())


def code() -> str:
    """Sources of Python's standard library, the larger modules, in the order of their names."""
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    sources = [path for path in sorted(folder.glob("*.py")) if path.stat().st_size > 40_000]
    return "\n".join(path.read_text(errors="replace") for path in sources)


def blocks_of(model, ids: torch.Tensor) -> list[torch.Tensor]:
    """The cache of one sequence, a tensor a block."""
    layers = model(ids[None], use_cache=True, logits_to_keep=1).past_key_values.layers
    whole = torch.stack([torch.stack([layer.keys[0], layer.values[0]]) for layer in layers])
    return [part.contiguous() for part in whole.split(BLOCK, dim=3)]


def dump(model, ids: torch.Tensor, path: pathlib.Path) -> None:
    began, blocks, count = time.monotonic(), {}, len(ids) // SEQUENCE
    for sequence, part in enumerate(ids.split(SEQUENCE)):
        for number, block in enumerate(blocks_of(model, part)):
            blocks[f"{sequence}.{number}"] = block
        if sequence % 8 == 7 or sequence + 1 == count:
            spent = time.monotonic() - began
            print(f"{path.name}: {sequence + 1} of {count} sequences, {spent:.0f} s", flush=True)
    part = path.with_suffix(".part")
    save_file(blocks, part)
    part.rename(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--fit-tokens", type=int, default=24_576)
    parser.add_argument("--test-tokens", type=int, default=2_048)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--text", type=pathlib.Path)
    source.add_argument("--code", action="store_true", help="Python's standard library as text")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    text = code() if options.code else prose(options.text)
    ids = tokenizer(text, return_tensors="pt").input_ids[0]
    if len(ids) < options.fit_tokens + options.test_tokens:
        raise SystemExit(f"the text has {len(ids)} tokens, {options.fit_tokens} to fit and "
                         f"{options.test_tokens} to test are wanted")
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.bfloat16).eval()
    options.out.mkdir(parents=True, exist_ok=True)
    dump(model, ids[:options.fit_tokens], options.out / "fit.safetensors")
    dump(model, ids[len(ids) - options.test_tokens:], options.out / "test.safetensors")


if __name__ == "__main__":
    main()
