"""Runs a test program that draws its choices from a seed, on any build, for longer than CI does."""

import os
import random
import subprocess

import arguments
import builds
from paths import ROOT, daemon_binary
from steps import say

DAEMON = "daemon/server/kvstratad"


def add_arguments(parser) -> None:
    parser.add_argument("--seed", type=int, metavar="S", help="repeat the choices of another run")
    parser.add_argument("--build", default="release", metavar="NAME",
                        help="the build to test (default release)")
    arguments.add_json(parser)


def run(name: str, program: str, options, own_arguments: list, all_is_well: str) -> int:
    """`own_arguments` come beside those of add_arguments(); `all_is_well` is said at the end."""
    seed = random.getrandbits(32) if options.seed is None else options.seed
    say(f"{name}: seed {seed}")
    build = builds.named(options.build)
    builds.prepare(build)
    builds.compile(build, [program, DAEMON])
    command = [*builds.run_prefix(build), build.directory / program, *own_arguments,
               "--seed", seed]
    if options.json:
        command += ["--json", options.json.resolve()]
    environment = {**os.environ, **builds.sanitizer_environment(build),
                   "KVSTRATAD": str(daemon_binary(build.name))}
    code = subprocess.run([str(part) for part in command], cwd=ROOT, env=environment).returncode
    say(f"{name}: {all_is_well if code == 0 else f'FAILED, seed {seed}'}")
    return 0 if code == 0 else 1
