"""tools/dev test: everything CI runs, counted in one line."""

import json
import pathlib
import time

import arguments
import builds
import suites
from counts import Counts, Outcome
from steps import say

HELP = "build and run all fast tests, plain and under the sanitizers"


def add_arguments(parser) -> None:
    parser.add_argument("--fast", action="store_true",
                        help="only the release build and the Python tests")
    parser.add_argument("--all", action="store_true",
                        help="each sanitizer with each compiler")
    parser.add_argument("--build", action="append", metavar="NAME", dest="names",
                        help="only this build (can be given again)")
    arguments.add_json(parser)


def chosen(options) -> list[builds.Build]:
    if options.names:
        return [builds.named(name) for name in options.names]
    return [builds.named(name)
            for name in ["release", *([] if options.fast else builds.SANITIZER_BUILDS),
                         *(builds.OTHER_SANITIZER_BUILDS if options.all else [])]]


def write_json(path: pathlib.Path, outcomes: list[Outcome], total: Counts, seconds: float) -> None:
    rows = [{"name": o.name, **vars(o.counts), "seconds": round(o.seconds, 3)} for o in outcomes]
    path.write_text(json.dumps({**vars(total), "seconds": round(seconds, 1), "tests": rows},
                               indent=1) + "\n")


def run(options) -> int:
    began = time.monotonic()
    builds_to_test = chosen(options)
    builds.prepare(*builds_to_test)
    outcomes = []
    for build in builds_to_test:
        outcomes += suites.run_meson(build)
        if build.name == "release":
            outcomes += suites.run_pytest(build)
    total = sum((outcome.counts for outcome in outcomes), Counts())
    failed = [outcome.name for outcome in outcomes if outcome.counts.failed]
    if options.json:
        write_json(options.json, outcomes, total, time.monotonic() - began)
    say(f"test: finished in {time.monotonic() - began:.0f} s")
    for name in failed:
        print(f"failed: {name}")
    print(total, flush=True)
    return 1 if failed or total.passed == 0 else 0
