"""Counts test cases, not programs: reads what the test runners say about themselves."""

import dataclasses
import json
import pathlib
import re
import xml.etree.ElementTree as ElementTree

DOCTEST = re.compile(r"\[doctest\] test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed")
UNITTEST = re.compile(r"^Ran (\d+) tests? in .*?^(?:OK|FAILED)(?: \(([^)]*)\))?$", re.M | re.S)
TAP_POINT = re.compile(r"^(ok|not ok)\b(.*)$", re.M)
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.passed + other.passed, self.failed + other.failed,
                      self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclasses.dataclass
class Outcome:
    """One test program (or pytest run): its counts, and its output for when it failed."""

    name: str
    counts: Counts
    seconds: float = 0.0
    output: str = ""


def said_by_unittest(text: str) -> Counts | None:
    found = UNITTEST.search(text)
    if not found:
        return None
    notes = dict(re.findall(r"(\w+)=(\d+)", found.group(2) or ""))
    failed = int(notes.get("failures", 0)) + int(notes.get("errors", 0))
    skipped = int(notes.get("skipped", 0))
    return Counts(max(0, int(found.group(1)) - failed - skipped), failed, skipped)


def said_by_program(text: str) -> Counts | None:
    """What the output of one program says about its test cases; None if it says nothing."""
    text = ANSI.sub("", text)
    runs = DOCTEST.findall(text)
    if runs:
        return Counts(sum(int(run[1]) for run in runs), sum(int(run[2]) for run in runs))
    points = TAP_POINT.findall(text)
    if points:
        skipped = sum("# SKIP" in rest.upper() for _, rest in points)
        failed = sum(verdict == "not ok" for verdict, _ in points)
        return Counts(len(points) - failed - skipped, failed, skipped)
    return said_by_unittest(text)


def of_meson_test(record: dict) -> Counts:
    """One line of meson's testlog.json. A program that fails counts at least one failure."""
    if record["result"] in ("SKIP", "IGNORED"):
        return Counts(skipped=1)
    good = record["result"] in ("OK", "EXPECTEDFAIL")
    text = (record.get("stdout") or "") + "\n" + (record.get("stderr") or "")
    counts = said_by_program(text) or Counts(passed=1 if good else 0)
    if not good and counts.failed == 0:
        counts.failed = 1  # a crash, a time-out, or a sanitizer's report at exit
    return counts


def of_meson_log(path: pathlib.Path) -> list[Outcome]:
    outcomes = []
    for line in path.read_text(errors="replace").splitlines():
        record = json.loads(line)
        output = "\n".join(filter(None, [record.get("stdout"), record.get("stderr"),
                                         f"result: {record['result']}"]))
        outcomes.append(Outcome(record["name"], of_meson_test(record),
                                float(record.get("duration") or 0), output))
    return outcomes


def of_junit(path: pathlib.Path) -> Counts:
    """pytest's junit file. Errors in collection or set-up count as failures."""
    counts = Counts()
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        tests, failures, errors, skipped = (
            int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped"))
        counts += Counts(max(0, tests - failures - errors - skipped), failures + errors, skipped)
    return counts
