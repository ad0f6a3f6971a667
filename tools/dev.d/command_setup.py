"""tools/dev setup: what the machine needs, and nothing else; quick when it is all there."""

import environment
import packages

HELP = "install missing Debian packages and make the virtual environment .venv"


def add_arguments(parser) -> None:
    parser.add_argument("--demo", action="store_true",
                        help="also torch and transformers (about 250 MB), for the demo")
    parser.add_argument("--bench", action="store_true",
                        help="also redis-server, to measure beside")


def run(options) -> int:
    packages.install(packages.BASE + packages.CHECK +
                     (packages.BENCH if options.bench else []))
    environment.ensure_base()
    if options.demo:
        environment.ensure_demo()
    return 0
