"""Arguments that several subcommands have."""

import pathlib


def add_json(parser) -> None:
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="write the figures to FILE")
