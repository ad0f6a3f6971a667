"""A small real model, and its KV cache on real text, kept in the user's cache."""

import pathlib
import shutil
import tempfile

import environment
from paths import ROOT, cache_dir, venv_python
from steps import run, say

# Prose to measure on where it is at hand; else Python's own reference pages.
TEXT = ROOT.parent / "shared" / "data" / "wikitext2-valid.txt"


def ensure() -> pathlib.Path:
    """SmolLM2-135M as a Hugging Face folder in the user's cache; whole or not at all."""
    model = cache_dir() / "smollm2"
    if (model / "config.json").exists():
        say(f"model: {model}")
        return model
    say("model: SmolLM2-135M, about 90 MB to download, 270 MB in the cache")
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
        made = pathlib.Path(scratch) / "smollm2"
        run("fetch model", [venv_python(), "-m", "kvstrata.models", "smollm2", made])
        if model.exists():
            shutil.rmtree(model)
        made.rename(model)
    say(f"model: {model}")
    return model


def ensure_kv(fit_tokens: int, test_tokens: int, code: bool = False) -> pathlib.Path:
    """fit.safetensors and test.safetensors of `bench/codec/dump_kv.py`; whole or not at all."""
    text = TEXT if TEXT.exists() and not code else None
    source = "python-sources" if code else text.stem if text else "python-reference"
    kv = cache_dir() / f"smollm2-kv-{source}-{fit_tokens}-{test_tokens}"
    if (kv / "test.safetensors").exists():
        say(f"KV cache: {kv}")
        return kv
    environment.ensure_demo()
    folder = ensure()
    say(f"KV cache: {fit_tokens + test_tokens} tokens, 23 KB each, run through the model")
    kv.mkdir(parents=True, exist_ok=True)
    run("make KV cache", [venv_python(), ROOT / "bench" / "codec" / "dump_kv.py", folder, kv,
                          "--fit-tokens", fit_tokens, "--test-tokens", test_tokens,
                          *(["--code"] if code else ["--text", text] if text else [])])
    return kv
