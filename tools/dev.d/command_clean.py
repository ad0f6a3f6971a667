"""tools/dev clean: removes what tools/dev made in this checkout."""

import shutil

from paths import BUILD, VENV
from steps import say

HELP = "remove build/ (and with --all the virtual environment)"


def add_arguments(parser) -> None:
    parser.add_argument("--all", action="store_true", help="also .venv")


def run(options) -> int:
    for path in [BUILD, *([VENV] if options.all else [])]:
        if path.exists():
            shutil.rmtree(path)
            say(f"removed {path}")
    return 0
