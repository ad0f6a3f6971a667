"""tools/dev crash: kills a real daemon under traffic, again and again, and checks what it then has.

doc/crash-testing.md tells what is counted. Exit code 1 if anything was corrupt, found that must not
be, lost, or seen by another tenant.
"""

import seeded_program

HELP = "kill the daemon under traffic again and again, and check what it promised"


def add_arguments(parser) -> None:
    parser.add_argument("--loops", type=int, default=25, metavar="N", help="kills (default 25)")
    parser.add_argument("--life-mib", type=int, metavar="M",
                        help="most that is put before a kill (default 64)")
    seeded_program.add_arguments(parser)


def run(options) -> int:
    own = ["--loops", options.loops]
    if options.life_mib:
        own += ["--life-mib", options.life_mib]
    return seeded_program.run("crash", "tests/crash/crash_loop", options, own, "all promises kept")
