"""tools/dev fuzz: runs the fuzz targets under libFuzzer with the address sanitizer."""

import json
import pathlib
import re

import arguments
import builds
from paths import BUILD, LOGS, ROOT
from steps import StepFailed, run as run_step, say

HELP = "run the fuzz targets of tests/fuzz for a while each"
CORPORA = BUILD / "fuzz"


def add_arguments(parser) -> None:
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all unless named")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default 60)")
    arguments.add_json(parser)


def targets_of(build: builds.Build) -> dict[str, pathlib.Path]:
    """Fuzz target programs of a configured build, by name."""
    known = json.loads((build.directory / "meson-info" / "intro-targets.json").read_text())
    return {target["name"].removesuffix("_fuzz"): pathlib.Path(target["filename"][0])
            for target in known
            if target["type"] == "executable" and target["name"].endswith("_fuzz")}


def figures(log: str) -> dict:
    """libFuzzer's own statistics: inputs tried, edges covered."""
    executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", log)
    edges = re.findall(r"\bcov: (\d+)", log)
    return {"inputs": int(executed.group(1)) if executed else 0,
            "edges": int(edges[-1]) if edges else 0}


def fuzz_one(name: str, program: pathlib.Path, build: builds.Build, seconds: int) -> dict:
    corpus = CORPORA / name / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = ROOT / "tests" / "fuzz" / "corpus" / name
    command = [program, f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=20",
               f"-artifact_prefix={CORPORA / name}/", corpus, *([seeds] if seeds.is_dir() else [])]
    step = f"fuzz {name}"
    code = run_step(step, command, env=builds.sanitizer_environment(build), may_fail=True)
    log = (LOGS / f"{step.replace(' ', '-')}.log").read_text(errors="replace")
    result = {"target": name, "seconds": seconds, "ok": code == 0, **figures(log)}
    say(f"{step}: {result['inputs']} inputs, {result['edges']} edges"
        + ("" if code == 0 else f", FAILED: the input is in build/fuzz/{name}/"))
    return result


def run(options) -> int:
    build = builds.named("clang")
    builds.prepare(build)
    builds.configure(build)
    known = targets_of(build)
    unknown = [name for name in options.targets if name not in known]
    if unknown:
        raise StepFailed(f"there is no target {unknown[0]}; there are: {', '.join(known)}")
    chosen = options.targets or list(known)
    builds.compile(build, [known[name].relative_to(build.directory) for name in chosen])
    results = [fuzz_one(name, known[name], build, options.seconds) for name in chosen]
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    failed = sum(not result["ok"] for result in results)
    print(f"fuzz: {len(results) - failed} targets clean, {failed} failed", flush=True)
    return 1 if failed else 0
