"""Answers questions about one long text; from the second run on its KV cache comes from KVStrata.

usage: python transformers_prefix.py MODEL_DIR TEXT_FILE "question" ...
Needs a running kvstratad (KVSTRATA_SOCKET, or a default socket path). Without one it still answers.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import kvstrata
from kvstrata.transformers import PrefixCache, cache_argument

NEW_TOKENS = 32


def main(model_dir: str, text_file: str, questions: list[str]) -> None:
    """Prints each answer with what was restored and how long it took."""
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16).eval()
    cache = PrefixCache(kvstrata.Client(), model)
    text = Path(text_file).read_text()
    for question in questions:
        prompt = f"{text}\n\nQuestion: {question}\nAnswer:"
        input_ids = tokenizer(prompt, return_tensors="pt").input_ids
        began = time.monotonic()
        past, restored = cache.restore(input_ids)
        output = model.generate(
            input_ids,
            **cache_argument(model, past),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
        )
        took_s = time.monotonic() - began
        stored = cache.store(output[:, :-1], past)  # the last token has no KV yet
        answer = tokenizer.decode(output[0, input_ids.shape[1] :], skip_special_tokens=True)
        print(f"{question}\n  {answer.strip()}")
        print(
            f"  {restored} of {input_ids.shape[1]} tokens restored, {took_s:.2f} s; "
            f"{stored.blocks} blocks stored, {stored.already} were there"
            + (f"; {stored.error}" if stored.error else "")
        )


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    with torch.inference_mode():
        main(sys.argv[1], sys.argv[2], sys.argv[3:])
