"""The virtual environment .venv: meson, what the Python tests need, and what the demo needs."""

import hashlib
import subprocess
import sys

from paths import ROOT, VENV, venv_python
from steps import StepFailed, run, say

BASE = ["meson==1.12.1", "numpy", "msgpack", "pytest"]
TORCH = "2.13.0"
DEMO = ["transformers", "gguf", "accelerate", "safetensors"]
PYTHON_PROJECT = ROOT / "python" / "pyproject.toml"


def stamp_is(name: str, content: str) -> bool:
    stamp = VENV / f"stamp-{name}"
    return stamp.exists() and stamp.read_text() == content


def set_stamp(name: str, content: str) -> None:
    (VENV / f"stamp-{name}").write_text(content)


def pip(name: str, arguments: list[str], may_fail: bool = False) -> int:
    code = run(name, [venv_python(), "-m", "pip", "--disable-pip-version-check", "install",
                      *arguments], may_fail=True)
    if code != 0 and not may_fail:
        raise StepFailed(f"{name} failed. Offline? pip needs a package index or PIP_FIND_LINKS.")
    return code


def works() -> bool:
    """False also for a .venv whose interpreter was removed or that was moved here."""
    if not venv_python().exists():
        return False
    probe = [venv_python(), "-c", "import pip, sys; print(sys.prefix)"]
    done = subprocess.run(probe, capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.strip() == str(VENV)


def ensure_base() -> None:
    if not works():
        run("venv", [sys.executable, "-m", "venv", "--clear", VENV])
    wanted = "\n".join(BASE)
    if not stamp_is("base", wanted):
        pip("pip base", BASE)
        set_stamp("base", wanted)
    ensure_python_package()
    say("venv: ready")


def ensure_python_package() -> None:
    """Installs python/ in editable form, again whenever its pyproject.toml changed."""
    if not PYTHON_PROJECT.exists():
        return
    wanted = hashlib.sha256(PYTHON_PROJECT.read_bytes()).hexdigest()
    if not stamp_is("kvstrata", wanted):
        pip("pip kvstrata", ["-e", str(ROOT / "python")])
        set_stamp("kvstrata", wanted)


def ensure_demo() -> None:
    """torch and transformers. The CPU build of torch is taken where an index offers it."""
    wanted = "\n".join([TORCH, *DEMO])
    if stamp_is("demo", wanted):
        say("venv: demo packages present")
        return
    say("demo packages: about 190 MB for torch's CPU build and 60 MB for transformers and others")
    if pip("pip torch", [f"torch=={TORCH}+cpu"], may_fail=True) != 0:
        say("torch: no CPU build on the configured indexes; the default build brings CUDA and is "
            "about 3 GB (doc/building.md says how to avoid that)")
        pip("pip torch", [f"torch=={TORCH}"])
    pip("pip transformers", DEMO)
    set_stamp("demo", wanted)
