"""tools/dev crash: kills a real daemon under traffic, again and again, and checks what it then has.

doc/crash-testing.md tells what is counted. Exit code 1 if anything was corrupt, found that must not
be, lost, or seen by another tenant.
"""

import os
import random
import subprocess

import arguments
import builds
from paths import ROOT, daemon_binary
from steps import say

HELP = "kill the daemon under traffic again and again, and check what it promised"
PROGRAM = "tests/crash/crash_loop"
DAEMON = "daemon/server/kvstratad"


def add_arguments(parser) -> None:
    parser.add_argument("--loops", type=int, default=25, metavar="N", help="kills (default 25)")
    parser.add_argument("--seed", type=int, metavar="S", help="repeat the choices of another run")
    parser.add_argument("--life-mib", type=int, metavar="M",
                        help="most that is put before a kill (default 64)")
    parser.add_argument("--build", default="release", metavar="NAME",
                        help="the build to test (default release)")
    arguments.add_json(parser)


def run(options) -> int:
    seed = random.getrandbits(32) if options.seed is None else options.seed
    say(f"crash: seed {seed}")
    build = builds.named(options.build)
    builds.prepare(build)
    builds.compile(build, [PROGRAM, DAEMON])
    command = [*builds.run_prefix(build), build.directory / PROGRAM, "--loops", options.loops,
               "--seed", seed]
    if options.life_mib:
        command += ["--life-mib", options.life_mib]
    if options.json:
        command += ["--json", options.json.resolve()]
    environment = {**os.environ, **builds.sanitizer_environment(build),
                   "KVSTRATAD": str(daemon_binary(build.name))}
    code = subprocess.run([str(part) for part in command], cwd=ROOT, env=environment).returncode
    say(f"crash: {'all promises kept' if code == 0 else f'FAILED, seed {seed}'}")
    return 0 if code == 0 else 1
