"""tools/dev build: compiles one or more build directories."""

import builds
from steps import say

HELP = "compile a build directory (release unless named)"


def add_arguments(parser) -> None:
    rows = "".join(f"\n  {build.name:12} {build.what}" for build in builds.ALL.values())
    parser.epilog = "builds:" + rows
    parser.add_argument("names", nargs="*", default=["release"], metavar="NAME")


def run(options) -> int:
    chosen = [builds.named(name) for name in options.names]
    builds.prepare(*chosen)
    for build in chosen:
        builds.compile(build)
        say(f"{build.name}: build/{build.name}")
    return 0
