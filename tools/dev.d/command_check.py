"""tools/dev check: what a change must pass before it is committed."""

import concurrent.futures
import pathlib
import subprocess

import builds
import environment
import packages
import suites
from paths import ROOT
from steps import StepFailed, output_of, say

HELP = "format, lint, warnings as errors and fast tests for what changed"
SOURCES = (".cpp", ".h")


def add_arguments(parser) -> None:
    parser.add_argument("--since", default="HEAD", metavar="REV",
                        help="look at what changed since REV (default HEAD), and untracked files")
    parser.add_argument("--all", action="store_true", help="look at every file")
    parser.add_argument("--fix", action="store_true", help="format in place instead of complaining")


def files_to_check(options) -> list[pathlib.Path]:
    if options.all:
        names = output_of(["git", "ls-files", "-co", "--exclude-standard"])
    else:
        names = output_of(["git", "diff", "--name-only", "--diff-filter=d", options.since])
        names += output_of(["git", "ls-files", "-o", "--exclude-standard"])
    paths = {ROOT / name for name in names.splitlines() if name.endswith(SOURCES)}
    return sorted(path for path in paths if path.exists())


def check_format(files: list[pathlib.Path], fix: bool) -> bool:
    if not files:
        return True
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    done = subprocess.run(["clang-format-19", *mode, *files], cwd=ROOT, capture_output=True,
                          text=True)
    print(done.stderr, end="")
    say(f"format: {len(files)} files, {'clean' if done.returncode == 0 else 'NOT clean'}"
        + ("" if done.returncode == 0 else " (tools/dev check --fix)"))
    return done.returncode == 0


def units_of(files: list[pathlib.Path]) -> list[pathlib.Path]:
    """The .cpp files, and those beside a changed header."""
    beside = {file.with_suffix(".cpp") for file in files}
    return sorted(path for path in beside if path.exists())


def lint_one(unit: pathlib.Path, build: builds.Build) -> tuple[pathlib.Path, str]:
    done = subprocess.run(["clang-tidy-19", "--quiet", "-p", build.directory, unit], cwd=ROOT,
                          capture_output=True, text=True)
    return unit, done.stdout if done.returncode != 0 else ""


def lint(units: list[pathlib.Path], build: builds.Build) -> bool:
    """clang-tidy on each unit the build knows; the checks are those of .clang-tidy."""
    commands = (build.directory / "compile_commands.json").read_text()
    known = [unit for unit in units if str(unit.relative_to(ROOT)) in commands]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(builds.jobs()) as pool:
        for done, (unit, findings) in enumerate(
                pool.map(lambda unit: lint_one(unit, build), known), 1):
            say(f"clang-tidy {done}/{len(known)} {unit.relative_to(ROOT)}"
                + (": findings" if findings else ""))
            if findings:
                print(findings, flush=True)
                bad += 1
    say(f"clang-tidy: {len(known)} files, {bad} with findings")
    return bad == 0


def run(options) -> int:
    packages.install(packages.BASE + packages.CHECK)
    environment.ensure_base()
    files = files_to_check(options)
    release, linted = builds.named("release"), builds.named("asan-clang")
    builds.compile(linted, ["build.ninja"])  # knows the files that were added since
    verdicts = {"format": check_format(files, options.fix), "lint": lint(units_of(files), linted)}
    outcomes = suites.run_meson(release)
    verdicts["tests"] = not any(outcome.counts.failed for outcome in outcomes)
    bad = [name for name, good in verdicts.items() if not good]
    if bad:
        raise StepFailed("check: not clean: " + ", ".join(bad))
    say("check: clean")
    return 0
