"""The main job, end to end: ``python -m kvstrata.demo --daemon PATH --model DIR --workdir DIR``.

A model prefills a long prompt and its KV cache is stored and flushed. Then the daemon is killed
with SIGKILL and started again, and a new process restores the cache from disk instead of computing
it. Shown are bytes and text compared with those of a hit in the first process's own cache, the
ratio on disk, and the time to the first token, cold and warm, side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kvstrata.errors import Error
from kvstrata.local_daemon import LocalDaemon

BLOCK_TOKENS = 256
DAEMON_ARGUMENTS = ("--host-memory", "1GiB", "--disk", "4GiB")


class DemoError(Exception):
    """The demo can't go on; the message names the step."""


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m kvstrata.demo", description=__doc__)
    parser.add_argument("--daemon", type=Path, required=True, help="the kvstratad to run")
    parser.add_argument("--model", type=Path, required=True, help="a Hugging Face folder")
    parser.add_argument("--workdir", type=Path, required=True, help="for data and results")
    parser.add_argument("--text", type=Path, help="the prompt; default: this repository's doc/")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--tokens", type=int, default=2049, help="at least so many in the prompt")
    parser.add_argument("--new-tokens", type=int, default=24, help="to generate")
    parser.add_argument("--repeats", type=int, default=3, help="of the warm measurement")
    return parser.parse_args(arguments)


def prompt_file(options: argparse.Namespace) -> Path:
    """The given text, or the repository's own documentation in one file."""
    if options.text:
        return Path(options.text)
    pages = sorted((Path(__file__).resolve().parents[2] / "doc").glob("*.md"))
    if not pages:
        raise DemoError("this is no checkout of the repository: give a text with --text")
    path = Path(options.workdir) / "prompt.txt"
    path.write_text("\n\n".join(page.read_text() for page in pages))
    return path


class Demo:
    """One run of the demo."""

    def __init__(self, options: argparse.Namespace) -> None:
        options.workdir.mkdir(parents=True, exist_ok=True)
        self.options = options
        self.text = prompt_file(options)
        blocks = max(1, -(-(options.tokens - 1) // BLOCK_TOKENS))
        self.tokens = blocks * BLOCK_TOKENS + 1
        self.daemon = LocalDaemon(options.daemon, options.workdir / "data", DAEMON_ARGUMENTS)
        if self.daemon.data.exists():
            raise DemoError(f"{self.daemon.data} exists already; give a fresh --workdir")
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """A line of progress."""
        print(f"[{time.monotonic() - self._began:6.1f} s] {text}", flush=True)

    def worker(self, role: str, name: str) -> dict[str, Any]:
        """Runs a worker process to its end; what it measured."""
        out = self.options.workdir / f"{name}.json"
        command = [
            sys.executable, "-m", "kvstrata.demo_worker", role, "--address", self.daemon.address,
            "--model", str(self.options.model), "--text", str(self.text), "--out", str(out),
            "--tokens", str(self.tokens), "--new-tokens", str(self.options.new_tokens),
        ]  # fmt: skip
        # Threads that wait by spinning stand still for seconds where other work has their cores.
        environment = {"GOMP_SPINCOUNT": "10000", **os.environ}
        if subprocess.run(command, env=environment, check=False).returncode != 0:
            raise DemoError(f"the {role} process failed; its output is above")
        result: dict[str, Any] = json.loads(out.read_text())
        return result

    def run(self) -> dict[str, Any]:
        """All steps; the figures, flat."""
        first_ready_s = self.daemon.start()
        try:
            self.say(f"daemon with an empty store ready after {first_ready_s:.3f} s")
            self.say(f"process 1: prefill of {self.tokens} tokens, store, flush")
            cold = self.worker("cold", "cold")
            ready_s, warm = [], []
            for repeat in range(self.options.repeats):
                self.daemon.kill()
                self.daemon.drop_page_cache()
                ready_s.append(self.daemon.start())
                self.say(f"daemon killed with SIGKILL, started again, ready in {ready_s[-1]:.3f} s")
                self.say(f"process {repeat + 2}: restore from disk, one token computed")
                warm.append(self.worker("warm", f"warm-{repeat}"))
        finally:
            self.daemon.stop()
        return self.figures(cold, warm, ready_s)

    def figures(
        self, cold: dict[str, Any], warm: list[dict[str, Any]], ready_s: list[float]
    ) -> dict[str, Any]:
        """What is shown and written. Times are medians, but ``ready_s`` the longest."""
        cold_times = [cold["cold_ttft_s"], *(each["cold_ttft_s"] for each in warm)]
        cold_ttft_s = statistics.median(cold_times)
        warm_ttft_s = statistics.median(each["warm_ttft_s"] for each in warm)
        # The whole index, logs included: it held nothing before, and grows when it is reopened.
        index_bytes = max(each["index_bytes"] for each in [cold, *warm])
        stored_bytes = cold["record_bytes"] + index_bytes
        return {
            "prompt_tokens": self.tokens,
            "restored_tokens": min(each["restored_tokens"] for each in warm),
            "blocks": cold["blocks"],
            "bytes_equal": all(each["hashes"] == cold["hashes"] for each in warm),
            "text_equal": all(each["text"] == cold["text"] for each in warm),
            "raw_bytes": cold["raw_bytes"],
            "record_bytes": cold["record_bytes"],
            "index_bytes": index_bytes,
            "ratio_on_disk": cold["raw_bytes"] / stored_bytes,
            "cold_ttft_s": cold_ttft_s,
            "warm_ttft_s": warm_ttft_s,
            "warm_vs_cold": cold_ttft_s / warm_ttft_s,  # how many times sooner
            "ready_s": max(ready_s),
            "restore_s": statistics.median(each["restore_s"] for each in warm),
            "store_s": cold["store_s"],
            "flush_s": cold["flush_s"],
            "cold_ttft_s_all": cold_times,
            "warm_ttft_s_all": [each["warm_ttft_s"] for each in warm],
            "ready_s_all": ready_s,
            "text": cold["text"],
        }


def table(figures: dict[str, Any]) -> str:
    """The figures for people."""

    def several(values: list[float], digits: int) -> str:
        return ", ".join(f"{value:.{digits}f}" for value in values)

    def equal(same: bool) -> str:
        return "equal" if same else "DIFFERENT"

    f = figures
    megabyte = 1e6
    rows = [
        ("prompt", f"{f['prompt_tokens']} tokens, {f['restored_tokens']} of them restored"),
        ("KV cache", f"{f['raw_bytes'] / megabyte:.2f} MB in {f['blocks']} blocks"),
        (
            "on disk",
            f"{f['record_bytes'] / megabyte:.2f} MB of records + "
            f"{f['index_bytes'] / megabyte:.2f} MB of index: {f['ratio_on_disk']:.2f}x smaller",
        ),
        ("visible after", f"{f['store_s']:.3f} s, durable after {f['flush_s']:.3f} s"),
        (
            "daemon ready",
            f"{f['ready_s']:.3f} s after SIGKILL and start ({several(f['ready_s_all'], 3)})",
        ),
        (
            "first token, cold",
            f"{f['cold_ttft_s']:.3f} s by prefill ({several(f['cold_ttft_s_all'], 2)})",
        ),
        (
            "first token, warm",
            f"{f['warm_ttft_s']:.3f} s from disk ({several(f['warm_ttft_s_all'], 3)}): "
            f"{f['warm_vs_cold']:.1f}x sooner",
        ),
        ("restored bytes", f"{equal(f['bytes_equal'])} to those that were stored"),
        ("generated text", f"{equal(f['text_equal'])} to that of a hit in the local cache"),
        ("", json.dumps(f["text"])),
    ]
    return "\n".join(f"  {name:<18} {value}" for name, value in rows)


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0 if everything came back as it was."""
    options = parse_arguments(arguments)
    try:
        figures = Demo(options).run()
    except (DemoError, Error, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"\n{table(figures)}\n")
    if options.json:
        flat = {key: value for key, value in figures.items() if not isinstance(value, list)}
        options.json.write_text(json.dumps(flat, indent=1) + "\n")
    good = (
        figures["bytes_equal"]
        and figures["text_equal"]
        and figures["restored_tokens"] == figures["prompt_tokens"] - 1
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
