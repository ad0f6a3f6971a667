"""tools/dev fuzz: runs the fuzz targets under libFuzzer with the address sanitizer.

Each parser of bytes from outside is a target: what comes over sockets (wire_*), from disk
(segment_*, frame, linear, index_value), through shared memory (chunk_view) and from people
(config, codec_file, safetensors, hub_config, package). With --keep the inputs that reached
something new are boiled down and kept in tests/fuzz/corpus, where each run and each test begins.
With --cases each target gets so many inputs made from those found before, without coverage and so
several times as fast. FILE gets one flat object: fuzz_targets, fuzz_seconds or fuzz_cases,
fuzz_findings, TARGET_inputs of each target and, with coverage, TARGET_edges.
"""

import json
import pathlib
import re
import shutil

import arguments
import builds
from paths import BUILD, LOGS, ROOT
from steps import StepFailed, run as run_step, say

HELP = "run the fuzz targets of tests/fuzz for a while each"
CORPORA = BUILD / "fuzz"
KEPT = ROOT / "tests" / "fuzz" / "corpus"
KEPT_BYTES_MAX = 10_000  # of each target; the repository has room for 100 KB


def add_arguments(parser) -> None:
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all unless named")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default 60)")
    parser.add_argument("--cases", type=int, default=0, metavar="N",
                        help="N inputs for each target, without coverage, in place of --seconds")
    parser.add_argument("--keep", action="store_true",
                        help="keep inputs that reach something new in tests/fuzz/corpus")
    arguments.add_json(parser)


def targets_of(build: builds.Build) -> dict[str, pathlib.Path]:
    """Fuzz target programs of a configured build, by name."""
    known = json.loads((build.directory / "meson-info" / "intro-targets.json").read_text())
    return {target["name"].removesuffix("_fuzz"): pathlib.Path(target["filename"][0])
            for target in known
            if target["type"] == "executable" and target["name"].endswith("_fuzz")}


def known_inputs(name: str) -> list[pathlib.Path]:
    """Folders of inputs that are kept, and that were found since."""
    return [folder for folder in (KEPT / name, CORPORA / name / "corpus") if folder.is_dir()]


def number_in(log: str, pattern: str) -> int:
    """What the last match of a pattern names; 0 without one."""
    found = re.findall(pattern, log)
    return int(found[-1]) if found else 0


def run_target(name: str, verb: str, command: list, environment: dict, patterns: dict,
               findings: str) -> dict:
    """Runs a target and reads its figures, by pattern, from what it printed."""
    step = f"{verb} {name}"
    code = run_step(step, command, env=environment, may_fail=True)
    log = (LOGS / f"{step.replace(' ', '-')}.log").read_text(errors="replace")
    figures = {what: number_in(log, pattern) for what, pattern in patterns.items()}
    say(f"{step}: " + ", ".join(f"{number} {what}" for what, number in figures.items())
        + ("" if code == 0 else f", FAILED: the input is in {findings}"))
    return {"target": name, "ok": code == 0, **figures}


def fuzz_one(name: str, program: pathlib.Path, build: builds.Build, seconds: int) -> dict:
    """Under libFuzzer, which looks for inputs that reach something new."""
    corpus = CORPORA / name / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = KEPT / name
    command = [program, f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=20",
               f"-artifact_prefix={CORPORA / name}/", corpus, *([seeds] if seeds.is_dir() else [])]
    patterns = {"inputs": r"stat::number_of_executed_units:\s*(\d+)", "edges": r"\bcov: (\d+)"}
    return run_target(name, "fuzz", command, builds.sanitizer_environment(build), patterns,
                      f"build/fuzz/{name}/")


def feed_one(name: str, program: pathlib.Path, build: builds.Build, cases: int) -> dict:
    """`cases` inputs by tests/fuzz/driver.cpp, from what coverage found and what is kept."""
    CORPORA.mkdir(parents=True, exist_ok=True)
    environment = {**builds.sanitizer_environment(build), "KVSTRATA_FUZZ_CASES": str(cases),
                   "TMPDIR": str(CORPORA)}
    return run_target(name, "feed", [program, *known_inputs(name)], environment,
                      {"inputs": r"(\d+) executions"}, f"build/fuzz/{name}_fuzz-crash-*")


def keep(name: str, program: pathlib.Path, build: builds.Build) -> None:
    """Replaces the target's kept corpus by the smallest inputs that reach what is known."""
    merged = CORPORA / name / "merged"
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    run_step(f"merge {name}", [program, "-set_cover_merge=1", "-use_counters=0", merged,
                               *known_inputs(name)],
             env=builds.sanitizer_environment(build))
    shutil.rmtree(KEPT / name, ignore_errors=True)
    (KEPT / name).mkdir(parents=True)
    room = KEPT_BYTES_MAX
    for path in sorted(merged.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
        room -= path.stat().st_size
        if room < 0:
            break
        shutil.copy(path, KEPT / name / path.name[:16])  # named by its hash


def flat(results: list[dict], options) -> dict[str, int]:
    effort = {"fuzz_cases": options.cases} if options.cases else {"fuzz_seconds": options.seconds}
    figures = {"fuzz_targets": len(results), **effort,
               "fuzz_findings": sum(not result["ok"] for result in results)}
    for result in results:
        figures[f"{result['target']}_inputs"] = result["inputs"]
        if "edges" in result:
            figures[f"{result['target']}_edges"] = result["edges"]
    return figures


def run(options) -> int:
    build = builds.named("asan-clang" if options.cases else "clang")
    builds.prepare(build)
    builds.compile(build, ["build.ninja"])  # knows the targets that were added since
    known = targets_of(build)
    if options.cases and options.keep:
        raise StepFailed("--keep needs coverage, which --cases goes without")
    unknown = [name for name in options.targets if name not in known]
    if unknown:
        raise StepFailed(f"there is no target {unknown[0]}; there are: {', '.join(known)}")
    chosen = options.targets or list(known)
    builds.compile(build, [known[name].relative_to(build.directory) for name in chosen])
    if options.cases:
        results = [feed_one(name, known[name], build, options.cases) for name in chosen]
    else:
        results = [fuzz_one(name, known[name], build, options.seconds) for name in chosen]
    if options.keep:
        for name in chosen:
            keep(name, known[name], build)
    if options.json:
        options.json.write_text(json.dumps(flat(results, options), indent=1) + "\n")
    failed = sum(not result["ok"] for result in results)
    print(f"fuzz: {len(results) - failed} targets clean, {failed} failed", flush=True)
    return 1 if failed else 0
