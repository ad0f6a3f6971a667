"""The demo and the example with a real model (KVSTRATA_MODEL names its folder): -m model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kvstrata
from kvstrata import demo
from kvstrata.local_daemon import LocalDaemon

BINARY, MODEL = os.environ.get("KVSTRATAD"), os.environ.get("KVSTRATA_MODEL")
pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not (BINARY and MODEL), reason="KVSTRATAD and KVSTRATA_MODEL are needed"),
]
EXAMPLE = Path(__file__).parents[1] / "examples" / "transformers_prefix.py"


def test_the_demo_gives_everything_back(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    arguments = [
        "--daemon",
        BINARY,
        "--model",
        MODEL,
        "--workdir",
        str(tmp_path / "work"),
        "--json",
        str(figures),
        "--tokens",
        "500",
        "--new-tokens",
        "4",
        "--repeats",
        "1",
    ]
    assert demo.main(arguments) == 0
    told = json.loads(figures.read_text())
    assert (told["prompt_tokens"], told["restored_tokens"], told["blocks"]) == (513, 512, 2)
    assert told["bytes_equal"] is True
    assert told["text_equal"] is True
    assert told["ratio_on_disk"] > 1.2
    assert told["ready_s"] < 30
    assert demo.main(arguments) == 1  # never on a store that is not its own


def test_the_example_restores_in_its_second_run(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("A block is the cache of some tokens. " * 60)
    with LocalDaemon(Path(BINARY), tmp_path / "data", demo.DAEMON_ARGUMENTS) as daemon:
        environment = {
            **os.environ,
            "KVSTRATA_SOCKET": daemon.address,
            "PYTHONPATH": str(Path(kvstrata.__file__).parents[1]),
        }
        command = [sys.executable, str(EXAMPLE), MODEL, str(text), "What is a block?"]
        outputs = [
            subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            for _ in range(2)
        ]
    first, second = ([*out.stdout.splitlines()] for out in outputs)
    assert "  0 of " in first[-1]
    assert "  512 of " in second[-1]
    assert "0 blocks stored" in second[-1]


def test_a_prompt_is_needed_where_there_is_no_documentation(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(demo, "__file__", str(tmp_path / "a" / "b" / "demo.py"))
    options = demo.parse_arguments(
        ["--daemon", BINARY, "--model", MODEL, "--workdir", str(tmp_path)]
    )
    with pytest.raises(demo.DemoError, match="--text"):
        demo.prompt_file(options)
