"""tools/dev stress: clients do everything at once against a daemon, and every byte read is judged.

doc/crash-testing.md tells what is counted. Exit code 1 if a read was impossible.
"""

import os
import random
import subprocess

import arguments
import builds
from paths import ROOT
from steps import say

HELP = "run clients against a daemon at once and judge every byte they read"
PROGRAM = "tests/stress/stressor"


def add_arguments(parser) -> None:
    parser.add_argument("--minutes", type=float, default=1, metavar="M",
                        help="how long (default 1)")
    parser.add_argument("--seed", type=int, metavar="S", help="repeat the choices of another run")
    parser.add_argument("--build", default="release", metavar="NAME",
                        help="the build to test (default release)")
    arguments.add_json(parser)


def run(options) -> int:
    seed = random.getrandbits(32) if options.seed is None else options.seed
    say(f"stress: seed {seed}")
    build = builds.named(options.build)
    builds.prepare(build)
    builds.compile(build, [PROGRAM])
    command = [*builds.run_prefix(build), build.directory / PROGRAM, "--minutes", options.minutes,
               "--seed", seed]
    if options.json:
        command += ["--json", options.json.resolve()]
    environment = {**os.environ, **builds.sanitizer_environment(build)}
    code = subprocess.run([str(part) for part in command], cwd=ROOT, env=environment).returncode
    say(f"stress: {'no impossible read' if code == 0 else f'FAILED, seed {seed}'}")
    return 0 if code == 0 else 1
