"""tools/dev stress: clients do everything at once against a daemon, and every byte read is judged.

doc/crash-testing.md tells what is counted. Exit code 1 if a read was impossible.
"""

import seeded_program

HELP = "run clients against a daemon at once and judge every byte they read"


def add_arguments(parser) -> None:
    parser.add_argument("--minutes", type=float, default=1, metavar="M",
                        help="how long (default 1)")
    seeded_program.add_arguments(parser)


def run(options) -> int:
    return seeded_program.run("stress", "tests/stress/stressor", options,
                              ["--minutes", options.minutes], "no impossible read")
