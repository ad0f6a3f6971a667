"""The real daemon at its limits: full and failing disks, few descriptors, little locked memory,
leases that end under a reader; what it counts and says meanwhile. Named for the cases they repeat.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import BINARY, MEDIUM_MODEL, PATIENT, SMALL_DAEMON, blocks_of, served, wait_until

import kvstrata
from kvstrata import ModelDescriptor
from kvstrata.local_daemon import LocalDaemon

pytestmark = pytest.mark.skipif(not BINARY, reason="KVSTRATAD does not name a daemon")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MiB for the store alone."""
    path = tmp_path / "data"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "kvstrata-test", path], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a file system is not allowed here")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def limited(tmp_path: Path, *limits: str) -> Path:
    """kvstratad under resource limits, as prlimit takes them."""
    path = tmp_path / "kvstratad-limited"
    path.write_text(f'#!/bin/sh\nexec prlimit {" ".join(limits)} -- "{BINARY}" "$@"\n')
    path.chmod(0o755)
    return path


@contextlib.contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Every byte of the file system is taken inside."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    try:
        yield
    finally:
        filler.unlink()


class Writer:
    """Puts blocks of its own and knows what it was told is durable."""

    def __init__(self, client: kvstrata.Client, rng: np.random.Generator) -> None:
        self.client, self.rng = client, rng
        self.namespace = client.register(MEDIUM_MODEL)
        self.durable: list[tuple[np.ndarray, list]] = []

    def put(self, blocks: int = 4) -> bool:
        """Whether the blocks are durable. They are visible before they are."""
        tokens = self.rng.integers(0, 50_000, 16 * blocks)
        content = blocks_of(blocks, MEDIUM_MODEL.block_bytes(), self.rng)
        stored = self.namespace.put(tokens, content, busy_wait_s=10)
        if not stored.ok:
            print("put refused:", set(stored.statuses), stored.error)
            return False
        try:
            self.client.flush()
        except (kvstrata.OutOfSpace, kvstrata.IoError, kvstrata.Busy) as error:
            print("flush refused:", error)
            return False
        self.durable.append((tokens, content))
        return True

    def check(self, namespace: kvstrata.Namespace, last: int) -> None:
        """The last ones that were told durable are there; everything there is right."""
        for tokens, content in self.durable:
            with namespace.get(tokens) as found:
                for view, block in zip(found, content, strict=False):
                    assert view.ok, view.error
                    assert np.array_equal(view.copy(), block)
        for tokens, content in self.durable[-last:]:
            assert namespace.exists(tokens).blocks == len(content)


# ---- disks


def test_a24_a_full_disk_refuses_writes_until_there_is_room_and_never_reads(
    tmp_path: Path, small_disk: Path, rng
) -> None:
    with served(small_disk) as (_daemon, client):
        writer = Writer(client, rng)
        assert writer.put()
        for _ in range(3):
            with filled(small_disk):
                wait_until(lambda: not writer.put(), 60)
                assert client.stats()["notes"]["degraded"]
                client.evict(bytes=1 << 40)
                writer.check(writer.namespace, last=1)
            wait_until(writer.put, 60)  # no restart, no other help
            assert "degraded" not in client.stats()["notes"]
            assert client.stats()["store"]["writable"]
        writer.check(writer.namespace, last=1)


def test_a23_a_disk_that_filled_at_any_moment_leaves_a_store_that_starts(
    tmp_path: Path, small_disk: Path, rng
) -> None:
    daemon = LocalDaemon(Path(BINARY), small_disk, SMALL_DAEMON)
    daemon.start()
    try:
        for round_number in range(6):
            with kvstrata.connect(daemon.address, **PATIENT) as client:
                writer = Writer(client, rng)
                for _ in range(round_number):
                    assert writer.put()
                with filled(small_disk):
                    for _ in range(3 + round_number):
                        writer.put(1)
                    daemon.kill()
            daemon.start()
            with kvstrata.connect(daemon.address, **PATIENT) as client:
                assert "store_opened_empty" not in client.stats()["notes"]
                writer.check(client.register(MEDIUM_MODEL), last=2)
    finally:
        daemon.stop()


def test_a34_a_disk_that_fails_for_long_is_told_in_few_lines(
    tmp_path: Path, small_disk: Path, rng
) -> None:
    with served(small_disk) as (daemon, client):
        writer = Writer(client, rng)
        assert writer.put()
        with filled(small_disk):
            refused = sum(not writer.put(1) for _ in range(300))
            assert refused >= 290
            assert client.stats()["counters"]["durable_failures"] >= 290
            namespace = client.register(MEDIUM_MODEL)
            for _ in range(300):
                assert namespace.exists(rng.integers(0, 50_000, 64)).blocks == 0
        wait_until(writer.put, 60)
        lines = daemon.log_path.read_text().splitlines()
        assert len(lines) < 100, lines[:20]
        assert any("space" in line for line in lines), lines


def test_a16_segments_deleted_by_hand_are_misses_and_the_daemon_lives(tmp_path: Path, rng) -> None:
    with served(tmp_path / "data") as (daemon, client):
        writer = Writer(client, rng)
        for _ in range(40):
            assert writer.put()
        client.evict(bytes=1 << 40)
        for path in sorted((daemon.data / "segments").glob("*.seg"))[:3]:
            path.unlink()
        for tokens, content in writer.durable:
            with writer.namespace.get(tokens) as found:
                for view, block in zip(found, content, strict=False):
                    assert not view.ok or np.array_equal(view.copy(), block)
        for _ in range(150):  # more than the disk holds
            assert writer.put()
        writer.check(writer.namespace, last=2)


# ---- descriptors and memory


def test_a25_few_descriptors_lose_nothing_and_refuse_clients_politely(tmp_path: Path, rng) -> None:
    daemon = LocalDaemon(limited(tmp_path, "--nofile=256"), tmp_path / "data", SMALL_DAEMON)
    daemon.start()
    try:
        with kvstrata.connect(daemon.address, **PATIENT) as client:
            values = client.register(ModelDescriptor("values"))
            for first in range(0, 5_000, 500):
                keys = [b"key %d" % number for number in range(first, first + 500)]
                stored = values.put_values(keys, keys, busy_wait_s=30)
                assert stored.ok, (set(stored.statuses), stored.error)
            client.flush()
        with contextlib.ExitStack() as open_clients:
            served = 0
            for _ in range(250):
                try:
                    open_clients.enter_context(kvstrata.connect(daemon.address, **PATIENT))
                    served += 1
                except (kvstrata.Busy, kvstrata.Unavailable):
                    break
            assert served >= 64
        daemon.kill()
        daemon.start()
        with kvstrata.connect(daemon.address, **PATIENT) as client:
            values = client.register(ModelDescriptor("values"))
            for number in range(0, 5_000, 249):
                assert values.get_value(b"key %d" % number) == b"key %d" % number
    finally:
        daemon.stop()


@pytest.mark.parametrize("limit", ["65536", "4194304"])
def test_a21_little_locked_memory_is_told_and_costs_no_function(
    tmp_path: Path, rng, limit: str
) -> None:
    config = tmp_path / "kvstratad.toml"
    config.write_text("[memory]\nlock = true\n")
    binary = limited(tmp_path, f"--memlock={limit}")
    arguments = (*SMALL_DAEMON, "--config", str(config))
    with served(tmp_path / "data", arguments, binary) as (daemon, client):
        writer = Writer(client, rng)
        for _ in range(3):
            assert writer.put()
        client.evict(bytes=1 << 40)
        writer.check(writer.namespace, last=3)
        told = client.stats()["notes"].get("memory_lock", "")
        assert told or os.geteuid() == 0
        assert daemon.log_path.read_text().count("memlock") <= 1


def test_a29_values_of_four_gibibytes_are_refused_with_the_limit(tmp_path: Path) -> None:
    with served(tmp_path / "data") as (_daemon, client):
        values = client.register(ModelDescriptor("values"))
        for size in (2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 3):
            with pytest.raises(kvstrata.Error, match="1073741824"):
                values.put_value(b"large", np.empty(size, np.uint8))
        assert client.stats()["host"]["slot_bytes_used"] == 0


# ---- leases


def test_a15_a_reader_slower_than_its_lease_gets_right_bytes_or_is_told(
    tmp_path: Path, rng
) -> None:
    with (
        served(tmp_path / "data") as (daemon, client),
        kvstrata.connect(daemon.address, **PATIENT) as other,
    ):
        reader, writer = Writer(client, rng), Writer(other, rng)
        assert reader.put(32)
        tokens, content = reader.durable[0]
        views = list(reader.namespace.get(tokens, lease_ms=200))
        for _ in range(60):  # the memory more than three times over
            assert writer.put(16)
        expired = 0
        for view, block in zip(views, content, strict=True):
            try:
                assert np.array_equal(view.copy(), block)
            except kvstrata.LeaseExpired:
                expired += 1
        assert expired > 0


def test_a11_leases_that_nobody_reads_or_ends_leave_nothing_held(tmp_path: Path, rng) -> None:
    with served(tmp_path / "data") as (_daemon, client):
        writer = Writer(client, rng)
        assert writer.put(10)
        tokens, _ = writer.durable[0]
        quiet = []
        for number in range(1000):
            lease = writer.namespace.lookup(tokens, lease_ms=100)
            assert lease.blocks == 10
            if number % 2 == 0:
                lease.release()
            else:
                quiet.append(lease)
        wait_until(lambda: client.stats()["leases"]["pinned_blocks"] == 0)
        assert client.stats()["leases"]["expired"] == len(quiet)
        for _ in range(40):  # more than the memory holds
            assert writer.put(10)


# ---- what is counted


def test_a32_every_counter_is_the_scripts_own_count_and_rests_when_nothing_happens(
    tmp_path: Path, rng
) -> None:
    with served(tmp_path / "data") as (_daemon, client):
        writer = Writer(client, rng)
        assert writer.put(8)
        tokens, _ = writer.durable[0]
        for number in range(100):
            if number < 37:
                wanted = tokens
            elif number < 57:
                wanted = np.concatenate([tokens[:64], rng.integers(0, 50_000, 64)])
            else:
                wanted = rng.integers(0, 50_000, 128)
            writer.namespace.lookup(wanted).release()
        counters = client.stats()["counters"]
        assert counters["lookups"] == 100
        assert counters["lookup_blocks"] == 800
        assert counters["hit_blocks_host"] == 37 * 8 + 20 * 4
        assert counters["hit_blocks_disk"] == 0
        assert counters["miss_blocks"] == 20 * 4 + 43 * 8
        client.evict(bytes=1 << 40)
        for _ in range(2):  # from disk, then from memory: each hit once, by its tier
            with writer.namespace.get(tokens):
                pass
        later = client.stats()["counters"]
        assert later["hit_blocks_disk"] == 8
        assert later["hit_blocks_host"] == counters["hit_blocks_host"] + 8
        assert later["load_blocks_disk"] == 8
        wait_until(lambda: client.stats()["leases"]["active"] == 0)
        at_rest = client.stats()
        deadline = time.monotonic() + 1
        wait_until(lambda: time.monotonic() > deadline)
        still = client.stats()
        assert still["counters"] == at_rest["counters"]
        assert still["store"] == at_rest["store"]


def test_a33_what_is_used_and_what_there_is_are_right_after_every_kind_of_start(
    tmp_path: Path, rng
) -> None:
    daemon = LocalDaemon(Path(BINARY), tmp_path / "data", SMALL_DAEMON)
    daemon.start()
    with kvstrata.connect(daemon.address, **PATIENT) as client:
        writer = Writer(client, rng)
        for _ in range(10):
            assert writer.put()
        before = client.stats()["store"]
    try:
        for disk, stop in (("64MiB", daemon.kill), ("64MiB", daemon.stop), ("96MiB", daemon.stop)):
            stop()
            daemon.arguments = ["--host-memory", "32MiB", "--disk", disk]
            daemon.start()
            with kvstrata.connect(daemon.address, **PATIENT) as client:
                store = client.stats()["store"]
                assert store["blocks"] == before["blocks"] == 40
                assert store["live_bytes"] == before["live_bytes"]
                assert store["budget_bytes"] == int(disk.removesuffix("MiB")) << 20
                assert 0 < store["segment_bytes"] + store["index_bytes"] <= store["budget_bytes"]
                assert client.stats()["host"]["budget_bytes"] == 32 << 20
    finally:
        daemon.stop()


def test_a27_the_directory_stays_within_its_budget_over_restarts(tmp_path: Path, rng) -> None:
    def directory_bytes() -> int:
        files = [path for path in daemon.data.rglob("*") if path.is_file()]
        return sum(path.stat().st_blocks * 512 for path in files)

    daemon = LocalDaemon(Path(BINARY), tmp_path / "data", ("--host-memory", "32MiB"))
    try:
        for disk in ("96MiB", "96MiB", "96MiB", "64MiB"):
            daemon.arguments = ["--host-memory", "32MiB", "--disk", disk]
            daemon.start()
            with kvstrata.connect(daemon.address, **PATIENT) as client:
                writer = Writer(client, rng)
                for _ in range(30):
                    assert writer.put(16)
                assert directory_bytes() <= int(disk.removesuffix("MiB")) << 20
            daemon.kill()
    finally:
        daemon.stop()
        shutil.rmtree(daemon.data)
