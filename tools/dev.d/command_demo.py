"""tools/dev demo: a real model's KV cache stored, the daemon restarted, everything given back."""

import pathlib
import shutil
import subprocess
import tempfile

import arguments
import builds
import environment
from paths import BUILD, ROOT, cache_dir, daemon_binary, venv_python
from steps import run as run_step
from steps import say

HELP = "set up, build, and show the daemon at work with a real model"


def add_arguments(parser) -> None:
    arguments.add_json(parser)
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT",
                        help="passed on to python -m kvstrata.demo")


def ensure_model() -> pathlib.Path:
    """SmolLM2-135M as a Hugging Face folder in the user's cache; made whole or not at all."""
    model = cache_dir() / "smollm2"
    if (model / "config.json").exists():
        say(f"model: {model}")
        return model
    say("model: SmolLM2-135M, about 90 MB to download, 270 MB in the cache")
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
        made = pathlib.Path(scratch) / "smollm2"
        run_step("fetch model", [venv_python(), "-m", "kvstrata.models", "smollm2", made])
        if model.exists():
            shutil.rmtree(model)
        made.rename(model)
    say(f"model: {model}")
    return model


def run(options) -> int:
    release = builds.named("release")
    builds.prepare(release)
    environment.ensure_demo()
    builds.compile(release)
    model = ensure_model()
    work = BUILD / "demo"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    command = [venv_python(), "-m", "kvstrata.demo", "--daemon", daemon_binary(), "--model", model,
               "--workdir", work, *options.arguments]
    if options.json:
        command += ["--json", options.json.resolve()]
    say("demo: started")
    return subprocess.run([str(part) for part in command], cwd=ROOT).returncode
