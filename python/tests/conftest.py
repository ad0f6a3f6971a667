"""Fixtures: the scripted peer, small models, and the real daemon where KVSTRATAD names it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from peer import Peer

import kvstrata
from kvstrata.local_daemon import LocalDaemon
from kvstrata.protocol import Bytes

SMALL_MODEL = kvstrata.ModelDescriptor(
    fingerprint="test-model",
    dtype=kvstrata.DType.BF16,
    block_tokens=16,
    vocab_size=50_000,
    groups=(kvstrata.LayerGroup(layers=2, kv_heads=2, head_dim_k=16, head_dim_v=16),),
)
"""Blocks of 16 tokens, 4096 bytes."""

MEDIUM_MODEL = dataclasses.replace(
    SMALL_MODEL,
    fingerprint="medium",
    groups=(kvstrata.LayerGroup(layers=8, kv_heads=4, head_dim_k=64, head_dim_v=64),),
)
"""Blocks of 16 tokens, 128 KiB."""

BINARY = os.environ.get("KVSTRATAD")
"""The real daemon, for tests that need it."""

SMALL_DAEMON = ("--host-memory", "32MiB", "--disk", "64MiB")
"""Arguments of a daemon that is soon full."""


PATIENT = {"connect_timeout_s": 20.0, "timeout_s": 60.0}
"""Options of clients in tests: machines are busy at times."""


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    peer = Peer(str(tmp_path / "peer.sock"))
    yield peer
    if peer.listener.fileno() >= 0:
        peer.stop()


@pytest.fixture
def client(peer: Peer) -> Iterator[kvstrata.Client]:
    with kvstrata.connect(f"unix:{peer.path}", **PATIENT) as client:
        yield client


@pytest.fixture
def namespace(client: kvstrata.Client) -> kvstrata.Namespace:
    return client.register(SMALL_MODEL)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers whose seed is printed first; KVSTRATA_SEED chooses it."""
    seed = int(os.environ.get("KVSTRATA_SEED") or random.randrange(1 << 32))
    print(f"{request.node.name}: KVSTRATA_SEED={seed}")
    return np.random.default_rng(seed)


def blocks_of(count: int, size: int, rng: np.random.Generator) -> list[Bytes]:
    """Random blocks."""
    return [rng.integers(0, 256, size, dtype=np.uint8) for _ in range(count)]


def wait_until(condition: Callable[[], object], timeout_s: float = 5.0) -> None:
    """Polls what another thread is about to make true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        threading.Event().wait(0.002)


@contextlib.contextmanager
def served(
    data: Path, arguments: Sequence[str] = SMALL_DAEMON, binary: Path | None = None
) -> Iterator[tuple[LocalDaemon, kvstrata.Client]]:
    """A daemon of one's own and a client of it."""
    with (
        LocalDaemon(binary or Path(BINARY), data, arguments) as daemon,
        kvstrata.connect(daemon.address, **PATIENT) as client,
    ):
        yield daemon, client
