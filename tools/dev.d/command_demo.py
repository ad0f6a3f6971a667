"""tools/dev demo: a real model's KV cache stored, the daemon restarted, everything given back."""

import shutil
import subprocess

import arguments
import builds
import environment
import model
from paths import BUILD, ROOT, daemon_binary, venv_python
from steps import say

HELP = "set up, build, and show the daemon at work with a real model"


def add_arguments(parser) -> None:
    arguments.add_json(parser)
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT",
                        help="passed on to python -m kvstrata.demo")


def run(options) -> int:
    release = builds.named("release")
    builds.prepare(release)
    environment.ensure_demo()
    builds.compile(release)
    folder = model.ensure()
    work = BUILD / "demo"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    command = [venv_python(), "-m", "kvstrata.demo", "--daemon", daemon_binary(), "--model", folder,
               "--workdir", work, *options.arguments]
    if options.json:
        command += ["--json", options.json.resolve()]
    say("demo: started")
    return subprocess.run([str(part) for part in command], cwd=ROOT).returncode
