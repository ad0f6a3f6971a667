"""tools/dev bench: runs one benchmark of bench/ on the release build."""

import os
import subprocess

import arguments
import builds
import environment
import model
import packages
from paths import BUILD, ROOT, VENV, cli_binary, daemon_binary, venv_python
from steps import StepFailed, say

HELP = "run a benchmark: build/release/bench/NAME_bench or bench/NAME.py"


def add_arguments(parser) -> None:
    parser.add_argument("name", nargs="?", help="without it: list what there is")
    arguments.add_json(parser)
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT",
                        help="passed on to the benchmark")


def programs() -> dict[str, list]:
    found = {path.name.removesuffix("_bench"): [path]
             for path in sorted((BUILD / "release" / "bench").glob("*_bench"))}
    scripts = {path.stem: [venv_python(), path] for path in sorted((ROOT / "bench").glob("*.py"))
               if not path.stem.startswith("_")}
    return {**found, **scripts}


def run(options) -> int:
    packages.install(packages.BASE + packages.BENCH)
    environment.ensure_base()
    builds.compile(builds.named("release"))
    known = programs()
    if options.name is None:
        print("\n".join(known) if known else "there are no benchmarks yet")
        return 0
    if options.name not in known:
        raise StepFailed(f"there is no benchmark '{options.name}'; there are: {', '.join(known)}")
    command = [*known[options.name], *options.arguments]
    if options.name == "codec" and "--kv" not in options.arguments:
        command += ["--kv", model.ensure_kv(fit_tokens=81_920, test_tokens=2_048),
                    "--code-kv", model.ensure_kv(fit_tokens=12_288, test_tokens=2_048, code=True)]
    if options.json:
        command += ["--json", options.json.resolve()]
    say(f"bench {options.name}: started")
    done = subprocess.run([str(part) for part in command], cwd=ROOT, env={
        **os.environ, "KVSTRATAD": str(daemon_binary()), "KVSTRATA": str(cli_binary()),
        "PATH": f"{VENV / 'bin'}:{os.environ['PATH']}"})
    say(f"bench {options.name}: exit {done.returncode}")
    return done.returncode
