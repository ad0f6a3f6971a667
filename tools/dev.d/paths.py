"""Where things are: everything tools/dev makes lies under build/, .venv/ or the user's cache."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LOGS = BUILD / "logs"
VENV = ROOT / ".venv"
PARTS = ROOT / "tools" / "dev.d"


def cache_dir() -> pathlib.Path:
    """What is worth keeping between checkouts: the demo's model."""
    given = os.environ.get("KVSTRATA_CACHE")
    return pathlib.Path(given) if given else pathlib.Path.home() / ".cache" / "kvstrata"


def venv_python() -> pathlib.Path:
    return VENV / "bin" / "python"


def daemon_binary(build: str = "release") -> pathlib.Path:
    return BUILD / build / "daemon" / "server" / "kvstratad"


def cli_binary(build: str = "release") -> pathlib.Path:
    return BUILD / build / "tools" / "kvstrata" / "kvstrata"
