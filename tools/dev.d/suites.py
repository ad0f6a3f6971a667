"""Runs the test suites of one build, or the Python tests, and says what came of them."""

import builds
from counts import Counts, Outcome, of_junit, of_meson_log
from paths import LOGS, ROOT, VENV, cli_binary, daemon_binary, venv_python
from steps import StepFailed, run, say

OUTPUT_LINES = 60
PYTEST_FOUND_NONE = 5
# Checks of the source text give the same answer in every build: they run in release only.
SOURCE_SUITES = ["headers", "tidy"]


def show(outcome: Outcome) -> None:
    print(f"---- {outcome.name}: {outcome.counts}")
    for line in outcome.output.splitlines()[-OUTPUT_LINES:]:
        print("    " + line)
    print("----", flush=True)


def left_out(build: builds.Build) -> list[str]:
    if not build.sanitizer:
        return ["slow"]
    # Headers must compile alone with both compilers; once with each is enough.
    return ["slow", *(s for s in SOURCE_SUITES if s != "headers" or build.name != "asan-clang")]


def run_meson(build: builds.Build) -> list[Outcome]:
    """Builds, then runs the build's fast suites. A build that fails is one failed test."""
    try:
        builds.compile(build, keep_going=True)
    except StepFailed:
        return [Outcome(f"{build.name}: build", Counts(failed=1), output="see above")]
    log = build.directory / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    without = [part for suite in left_out(build) for part in ("--no-suite", suite)]
    command = [*builds.run_prefix(build), VENV / "bin" / "meson", "test", "-C", build.directory,
               "--no-rebuild", "--num-processes", builds.jobs(), *without,
               "--timeout-multiplier", "10" if build.sanitizer else "3"]
    environment = {**builds.compile_environment(build), **builds.sanitizer_environment(build)}
    code = run(f"tests {build.name}", command, env=environment, may_fail=True, explain=False)
    outcomes = of_meson_log(log) if log.exists() else []
    for outcome in outcomes:
        outcome.name = f"{build.name}: {outcome.name}"
    if code != 0 and not any(outcome.counts.failed for outcome in outcomes):
        outcomes.append(Outcome(f"{build.name}: meson test", Counts(failed=1),
                                output=(LOGS / f"tests-{build.name}.log").read_text()))
    return report(f"tests {build.name}", outcomes)


def run_pytest(build: builds.Build) -> list[Outcome]:
    """The Python package's tests against the daemon of `build`."""
    tests = ROOT / "python" / "tests"
    if not tests.is_dir():
        return []
    junit = LOGS / "pytest.xml"
    junit.unlink(missing_ok=True)
    command = [venv_python(), "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={junit}",
               tests]
    environment = {"KVSTRATAD": str(daemon_binary(build.name)),
                   "KVSTRATA": str(cli_binary(build.name))}
    code = run("tests python", command, env=environment, may_fail=True, explain=False)
    if code == PYTEST_FOUND_NONE:
        return []
    counts = of_junit(junit) if junit.exists() else Counts()
    if code != 0 and counts.failed == 0:
        counts.failed = 1
    outcome = Outcome("python: pytest", counts, output=(LOGS / "tests-python.log").read_text())
    return report("tests python", [outcome])


def report(name: str, outcomes: list[Outcome]) -> list[Outcome]:
    for outcome in outcomes:
        if outcome.counts.failed:
            show(outcome)
    say(f"{name}: {sum((outcome.counts for outcome in outcomes), Counts())}")
    return outcomes
