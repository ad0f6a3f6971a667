"""Runs commands as named steps: progress while they run, their last lines when they fail."""

import os
import pathlib
import signal
import subprocess
import sys
import time

from paths import LOGS, ROOT

STARTED = time.monotonic()
HEARTBEAT_S = 30.0
TAIL_LINES = 60


class StepFailed(Exception):
    """A step ended with an error that has been shown already, or whose text says everything."""


def say(text: str) -> None:
    print(f"[{time.monotonic() - STARTED:7.1f}s] {text}", flush=True)


def last_line(log: pathlib.Path) -> str:
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - 4096))
        lines = file.read().decode(errors="replace").replace("\r", "\n").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def show_failure(log: pathlib.Path) -> None:
    """ninja's first failed command and what follows it; else the end of the log."""
    lines = log.read_text(errors="replace").splitlines()
    failed = [number for number, line in enumerate(lines) if line.startswith("FAILED: ")]
    shown = lines[failed[0]:][:TAIL_LINES] if failed else lines[-TAIL_LINES:]
    for line in shown:
        print("    " + line)
    if len(failed) > 1:
        print(f"    ({len(failed)} commands failed; the first is shown)")
    print(f"    (the whole output: {log.relative_to(ROOT)})", flush=True)


class Progress:
    """One overwritten line on a terminal, a line every HEARTBEAT_S elsewhere."""

    def __init__(self, name: str):
        self.name = name
        self.terminal = sys.stdout.isatty()
        self.next_beat = time.monotonic() + HEARTBEAT_S

    def tick(self, log: pathlib.Path) -> None:
        if self.terminal:
            text = f"[{time.monotonic() - STARTED:7.1f}s] {self.name}: {last_line(log)}"
            print("\r\033[K" + text[:110], end="", flush=True)
        elif time.monotonic() >= self.next_beat:
            self.next_beat += HEARTBEAT_S
            say(f"{self.name}: {last_line(log)[:150]}")

    def clear(self) -> None:
        if self.terminal:
            print("\r\033[K", end="", flush=True)


def wait(process: subprocess.Popen, progress: Progress, log: pathlib.Path) -> int:
    while True:
        try:
            return process.wait(timeout=0.3)
        except subprocess.TimeoutExpired:
            progress.tick(log)


def run(name: str, command: list, *, env: dict | None = None, cwd: pathlib.Path = ROOT,
        may_fail: bool = False, explain: bool = True) -> int:
    """Runs `command` with its output in build/logs/; raises StepFailed on failure unless allowed.

    `explain`: show the part of its output that matters when it failed.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / (name.replace(" ", "-").replace("/", "-") + ".log")
    began = time.monotonic()
    with log.open("wb") as out:
        try:
            process = subprocess.Popen([str(part) for part in command], stdout=out, cwd=cwd,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       env={**os.environ, **(env or {})})
        except OSError as error:
            raise StepFailed(f"{name}: {command[0]}: {error.strerror}") from error
        progress = Progress(name)
        try:
            code = wait(process, progress, log)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
        finally:
            progress.clear()
    verdict = "done" if code == 0 else f"FAILED (exit {code})"
    say(f"{name}: {verdict} in {time.monotonic() - began:.1f} s")
    if code != 0 and explain:
        show_failure(log)
    if code != 0 and not may_fail:
        raise StepFailed(f"{name} failed")
    return code


def output_of(command: list, **options) -> str:
    """The standard output of a quick command that must succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=ROOT,
                          **options)
    if done.returncode != 0:
        raise StepFailed(f"{command[0]} failed: {done.stderr.strip()}")
    return done.stdout
