"""`kvstrata codec` from end to end (the variable KVSTRATA names the binary)."""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

TOOL = os.environ.get("KVSTRATA")
pytestmark = pytest.mark.skipif(not TOOL, reason="KVSTRATA does not name the operator's command")

FAILED, USAGE, MISSING, DAMAGED = 1, 2, 4, 6


def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    words = [TOOL, "codec", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, **options)


def ok(*arguments: object) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def bf16(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Normal numbers, cut to bf16."""
    numbers = rng.standard_normal(shape, dtype=np.float32)
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)


def safetensors(tensors: dict[str, tuple[str, np.ndarray]]) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, (dtype, array) in tensors.items():
        end = len(data) + array.nbytes
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [len(data), end]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


@pytest.fixture
def dump(tmp_path: Path, rng: np.random.Generator) -> Path:
    path = tmp_path / "cache.safetensors"
    path.write_bytes(safetensors({
        "tokens.0": ("I32", np.arange(300, dtype=np.int32)),
        "k.0": ("BF16", bf16(rng, 3, 2, 300, 16)),
        "v.0": ("BF16", bf16(rng, 3, 2, 300, 16)),
        "hidden.0": ("BF16", bf16(rng, 3, 300, 40)),
        "0.0": ("BF16", bf16(rng, 3, 2, 2, 256, 16)),
    }))
    return path


def test_a_dump_comes_back_byte_for_byte(dump: Path, tmp_path: Path) -> None:
    dump.chmod(0o640)
    encoded, decoded = tmp_path / "cache.kvsc", tmp_path / "again.safetensors"
    report = json.loads(ok("encode", dump, encoded, "--json"))
    assert report["file_bytes"] == dump.stat().st_size
    assert report["container_bytes"] == encoded.stat().st_size < 0.8 * dump.stat().st_size
    assert "all sums right" in ok("decode", encoded, decoded)
    assert decoded.read_bytes() == dump.read_bytes()
    assert decoded.stat().st_mode & 0o777 == encoded.stat().st_mode & 0o777 == 0o640


def test_paths_may_be_relative_and_other_files_lend_tables(dump: Path, tmp_path: Path) -> None:
    assert run("encode", dump.name, "a", cwd=tmp_path).returncode == 0
    assert run("encode", dump.name, "b", "--tables", "a", cwd=tmp_path).returncode == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert run("decode", "b", "b", cwd=tmp_path).returncode == 0  # in its own place
    assert (tmp_path / "b").read_bytes() == dump.read_bytes()


def test_scalars_need_their_type(tmp_path: Path, rng: np.random.Generator) -> None:
    scalars, encoded, decoded = tmp_path / "raw", tmp_path / "raw.kvsc", tmp_path / "out"
    scalars.write_bytes(bf16(rng, 20_000).tobytes() + b"x")
    refused = run("encode", scalars, encoded)
    assert refused.returncode == DAMAGED
    assert "say --dtype" in refused.stderr
    ok("encode", scalars, encoded, "--dtype", "bf16")
    ok("decode", encoded, decoded)
    assert decoded.read_bytes() == scalars.read_bytes()


def test_inspect_names_every_tensor_and_its_frames(dump: Path, tmp_path: Path) -> None:
    encoded = tmp_path / "cache.kvsc"
    ok("encode", dump, encoded)
    seen = json.loads(ok("inspect", encoded, "--json"))
    parts = {part["name"]: part for part in seen["parts"]}
    assert parts.keys() == {"", "tokens.0", "k.0", "hidden.0", "0.0"}
    assert parts["k.0"]["name_v"] == "v.0"
    assert [frame["codec"] for frame in parts["k.0"]["frames"]] == ["static", "static"]
    assert parts["k.0"]["ratio"] > 1.2
    assert parts["tokens.0"]["frames"][0]["codec"] == "raw"
    assert sum(part["bytes"] for part in seen["parts"]) == dump.stat().st_size
    table = ok("inspect", encoded)
    assert "3 layers, 2x16, 300 tokens" in table


def test_compare_shows_layers_and_writes_a_page(dump: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    [file] = json.loads(ok("compare", dump, "--json", "--html", page))["files"]
    sides = [(row["layer"], row["side"]) for row in file["rows"] if "side" in row]
    assert sides == [(layer, side) for layer in range(3) for side in "KV"]
    for row in file["rows"]:
        assert row["bits"]["entropy"] <= row["bits"]["static"] <= row["bits"]["raw"] == 16
    text = page.read_text()
    assert "<canvas" not in text.split("</script>")[0] and "getContext" in text
    assert "http://" not in text and "https://" not in text
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert [(m["side"], len(m["static"])) for m in data["files"][0]["maps"]] == [
        ("K", 96), ("V", 96)]
    assert "whole frames" in ok("compare", dump, dump)


def test_a_page_replaces_pages_alone(dump: Path, tmp_path: Path) -> None:
    before = dump.read_bytes()
    done = run("compare", "--html", dump, dump)  # as `--html *.safetensors` would
    assert (done.returncode, dump.read_bytes()) == (FAILED, before)
    assert "name another file" in done.stderr
    page = tmp_path / "page.html"
    for _ in range(2):
        ok("compare", dump, "--html", page)


def test_a_file_is_not_encoded_over_itself_or_twice(dump: Path, tmp_path: Path) -> None:
    before = dump.read_bytes()
    done = run("encode", dump, dump)
    assert (done.returncode, dump.read_bytes()) == (FAILED, before)
    encoded = tmp_path / "encoded"
    ok("encode", dump, encoded)
    done = run("encode", encoded, tmp_path / "twice")
    assert done.returncode == FAILED
    assert "codec file already" in done.stderr
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    done = run("encode", dump, link)
    assert done.returncode == FAILED
    assert "a link to nothing" in done.stderr


def test_types_that_are_not_known_are_kept(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "odd.safetensors"
    path.write_bytes(safetensors({"a": ("F4", rng.integers(0, 256, 33, dtype=np.uint8)),
                                  "b": ("C64", rng.integers(0, 256, 16, dtype=np.uint8))}))
    ok("encode", path, tmp_path / "encoded")
    ok("decode", tmp_path / "encoded", tmp_path / "decoded")
    assert (tmp_path / "decoded").read_bytes() == path.read_bytes()


def test_k_and_v_of_unlike_lengths_are_told_apart(tmp_path: Path,
                                                  rng: np.random.Generator) -> None:
    path = tmp_path / "unlike.safetensors"
    path.write_bytes(safetensors({"k.0": ("BF16", bf16(rng, 1, 1, 512, 16)),
                                  "v.0": ("BF16", bf16(rng, 1, 1, 256, 16))}))
    rows = json.loads(ok("compare", path, "--json"))["files"][0]["rows"]
    assert sorted((row["side"], row["scalars"]) for row in rows) == [("K", 8192), ("V", 4096)]


def test_who_may_not_read_a_dump_may_not_read_what_is_made_of_it(dump: Path,
                                                                 tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(dump, 0, 4)
    dump.chmod(0o640)
    ok("encode", dump, tmp_path / "encoded")
    made = (tmp_path / "encoded").stat()
    assert (made.st_gid, made.st_mode & 0o777) == (4, 0o640)


def test_damage_is_told_and_leaves_nothing(dump: Path, tmp_path: Path) -> None:
    encoded, decoded = tmp_path / "cache.kvsc", tmp_path / "out"
    ok("encode", dump, encoded)
    good = encoded.read_bytes()
    for bad in (good[:-1], good[:100], good[:70], good + b"x", good[:-9] + b"\0" + good[-8:]):
        encoded.write_bytes(bad)
        done = run("decode", encoded, decoded)
        assert done.returncode == DAMAGED, done.stderr
        assert str(encoded) in done.stderr
    assert run("decode", dump, decoded).returncode == DAMAGED
    assert run("inspect", dump).returncode == DAMAGED
    assert run("decode", tmp_path / "none", decoded).returncode == MISSING
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache.kvsc", "cache.safetensors"]


def limit_files(count: int) -> None:
    """Files of this process grow to `count` bytes, as on a file system that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, count))


def test_a_file_that_can_not_be_written_is_told_and_leaves_nothing(dump: Path,
                                                                   tmp_path: Path) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    out = folder / "out"
    done = run("encode", dump, out, preexec_fn=lambda: limit_files(50_000))
    assert done.returncode == FAILED
    assert str(out) in done.stderr
    encoded = tmp_path / "cache.kvsc"
    ok("encode", dump, encoded)
    assert run("decode", encoded, out,
               preexec_fn=lambda: limit_files(50_000)).returncode == FAILED
    assert list(folder.iterdir()) == []
    assert run("decode", encoded, folder).returncode == FAILED
    assert run("decode", encoded, "/dev/null").returncode == FAILED
    if os.getuid() != 0:
        folder.chmod(0o500)
        assert run("decode", encoded, out).returncode == FAILED


def test_nonsense_is_exit_code_2_and_help_shows_examples(dump: Path) -> None:
    for words in ([], ["encode"], ["encode", dump], ["dance"], ["inspect", dump, dump],
                  ["encode", dump, "x", "--dtype", "bf15"], ["encode", dump, "x", "--fit", "0"]):
        assert run(*words).returncode == USAGE, words
    for command in ("encode", "decode", "inspect", "compare"):
        assert f"kvstrata codec {command} cache" in ok(command, "--help")


def test_empty_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    for words in (["encode", tmp_path / "empty", tmp_path / "out", "--dtype", "bf16"],
                  ["encode", tmp_path / "empty", tmp_path / "out"],
                  ["decode", tmp_path / "empty", tmp_path / "out"]):
        done = run(*words)
        assert done.returncode == FAILED
        assert "is empty" in done.stderr
