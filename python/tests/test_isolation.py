"""What one client can do to another: a tenant that names another's things by number, a client that
scribbles over its staging memory, one that keeps what it should give back."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BINARY, MEDIUM_MODEL, PATIENT, SMALL_DAEMON, blocks_of, served, wait_until

import kvstrata
from kvstrata import ErrorKind, LayerGroup
from kvstrata.local_daemon import LocalDaemon
from kvstrata.protocol import Request, Verb

pytestmark = pytest.mark.skipif(not BINARY, reason="KVSTRATAD does not name a daemon")
TOKENS = {"owner": "owner's token of 16", "stranger": "stranger's token"}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[LocalDaemon]:
    """With two tenants that are told apart by token."""
    config = tmp_path / "kvstratad.toml"
    config.write_text(
        "".join(
            f'[[tenants]]\nname = "{name}"\ntoken = "{token}"\nadmin = {admin}\n'
            for (name, token), admin in zip(TOKENS.items(), ("true", "false"), strict=True)
        )
    )
    config.chmod(0o600)
    with _unchecked_start(
        LocalDaemon(Path(BINARY), tmp_path / "data", (*SMALL_DAEMON, "--config", str(config)))
    ) as daemon:
        yield daemon


@contextlib.contextmanager
def _unchecked_start(daemon: LocalDaemon) -> Iterator[LocalDaemon]:
    """LocalDaemon asks for an answer without a token, which is refused here."""
    with contextlib.suppress(kvstrata.Unauthenticated):
        daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()


def restart(daemon: LocalDaemon) -> None:
    daemon.kill()
    with contextlib.suppress(kvstrata.Unauthenticated):
        daemon.start()


def connect(daemon: LocalDaemon, tenant: str) -> kvstrata.Client:
    return kvstrata.connect(daemon.address, token=TOKENS[tenant], **PATIENT)


def answer(client: kvstrata.Client, verb: Verb, payload: bytes = b"", **fields: Any) -> Any:
    """A request as the wire has it; the reply's fields, or the error."""

    def ask(session):
        return (yield Request(verb, fields, [payload])).body

    try:
        return client._run(ask, None)
    except kvstrata.Error as error:
        return error


# ---- tenant x tier x verb x restart


def forged_requests(ns: int, owner: dict[str, Any]) -> dict[str, tuple[Verb, bytes, dict]]:
    """What a tenant can ask that names a namespace, lease or slot by number."""
    hashes = b"".join(owner["hashes"])
    count = len(owner["hashes"])
    selection = {"ns": ns, "group": 0, "by": "hash", "count": count}
    one = {**selection, "count": 1}
    new = {"ns": ns, "group": 0, "by": "tokens", "count": 1}
    tokens = owner["tokens"][:16].astype("<u4").tobytes()
    return {
        "lookup": (Verb.LOOKUP, hashes, {**selection, "lease_ms": 1000}),
        "group lookup": (Verb.GROUP_LOOKUP, hashes, {"shards": [selection], "lease_ms": 1000}),
        "exists": (Verb.EXISTS, hashes, selection),
        "get": (Verb.GET, hashes, {**selection, "inline": True}),
        "pin": (Verb.PIN, hashes, {**selection, "pinned": True}),
        "ttl": (Verb.TTL, hashes, {**selection, "ttl_ms": 1}),
        "delete": (Verb.DELETE, hashes, selection),
        "clear namespace": (Verb.CLEAR, b"", {"scope": "namespace", "ns": ns}),
        "clear prefix": (Verb.CLEAR, hashes[:32], {"scope": "prefix", **one}),
        "explain": (Verb.EXPLAIN, hashes, selection),
        "list": (Verb.LIST, b"", {"ns": ns, "limit": 10}),
        "inspect": (Verb.INSPECT, hashes[:32], one),
        "verify": (Verb.VERIFY, b"", {"ns": ns, "limit": 10}),
        "reserve": (Verb.RESERVE, b"", {"ns": ns, "group": 0, "slots": 1}),
        "put": (Verb.PUT, tokens + bytes(MEDIUM_MODEL.block_bytes()),
                {**new, "lengths": [MEDIUM_MODEL.block_bytes()]}),
        "commit": (Verb.COMMIT, tokens, {**new, "slots": [owner["slot"]]}),
        "abort": (Verb.ABORT, b"", {"slots": [owner["slot"]]}),
        "load": (Verb.LOAD, b"", {"lease": owner["lease"], "first": 0, "count": 1, "inline": True}),
        "renew": (Verb.RENEW, b"", {"lease": owner["lease"], "lease_ms": 1000}),
        "attach": (Verb.LEASE_ATTACH, b"", {"lease": owner["lease"], "secret": owner["secret"]}),
        "release": (Verb.RELEASE, b"", {"leases": [owner["lease"]]}),
    }  # fmt: skip


def look_of(reply: Any) -> Any:
    """An answer without what differs by the numbers that were asked for."""
    if isinstance(reply, kvstrata.Error):
        return reply.kind, "".join(c for c in str(reply) if not c.isdigit())
    return reply.map


@pytest.mark.parametrize("tier", ["host", "disk"])
@pytest.mark.parametrize("restarted", [False, True])
def test_another_tenants_things_answer_as_things_that_are_not_there(
    daemon: LocalDaemon, rng, tier: str, restarted: bool
) -> None:
    with connect(daemon, "owner") as client:
        namespace = client.register(MEDIUM_MODEL)
        tokens = rng.integers(0, 50_000, 64)
        blocks = blocks_of(4, MEDIUM_MODEL.block_bytes(), rng)
        assert namespace.put(tokens, blocks, durable=True).ok
    if restarted:
        restart(daemon)
    with connect(daemon, "owner") as client, connect(daemon, "stranger") as other:
        namespace = client.register(MEDIUM_MODEL)
        lease = namespace.lookup(tokens, lease_ms=60_000)
        if tier == "host":
            assert len(lease.load()) == 4
        ids = [entry["ns"] for entry in client.list_namespaces()]
        slots = answer(client, Verb.RESERVE, ns=ids[0], group=0, slots=1).binary("slots")
        owner = {
            "tokens": tokens,
            "hashes": namespace.hashes(tokens),
            "lease": lease.handle.id,
            "secret": lease.handle.secret,
            "slot": int.from_bytes(slots[:8], "little"),
        }
        nobodys = {**owner, "lease": 1 << 40, "slot": 1 << 40}
        forged = forged_requests(ids[0], owner)
        absent = forged_requests(4_000_000, nobodys)
        for name, (verb, payload, fields) in forged.items():
            got = answer(other, verb, payload, **fields)
            none = answer(other, absent[name][0], absent[name][1], **absent[name][2])
            assert look_of(got) == look_of(none), name
        assert other.list_namespaces() == []
        assert namespace.exists(tokens).blocks == 4
        for view, block in zip(lease.load(), blocks, strict=True):
            assert np.array_equal(view.copy(), block)
        assert namespace.verify().bad == 0


# ---- clients that don't keep to the rules


def test_a_client_that_scribbles_over_its_staging_memory_harms_its_own_block_only(
    tmp_path: Path, rng
) -> None:
    with (
        served(tmp_path / "data") as (daemon, client),
        kvstrata.connect(daemon.address, **PATIENT) as other,
    ):
        namespace = client.register(MEDIUM_MODEL)
        bystander = other.register(dataclasses.replace(MEDIUM_MODEL, fingerprint="bystander"))
        safe = rng.integers(0, 50_000, 64)
        blocks = blocks_of(4, MEDIUM_MODEL.block_bytes(), rng)
        assert bystander.put(safe, blocks, durable=True).ok
        for _ in range(10):
            tokens = rng.integers(0, 50_000, 16 * 8)
            with namespace.reserve(8) as staging:
                arrays = list(staging.arrays)
                stop = threading.Event()

                def scribble(arrays=arrays, stop=stop) -> None:
                    value = 0
                    while not stop.is_set():
                        value = (value + 1) % 256
                        for array in arrays:
                            array[:] = value

                writer = threading.Thread(target=scribble)
                writer.start()
                try:
                    assert staging.commit(tokens).ok
                    with namespace.get(tokens) as found:
                        first = [view.copy() for view in found]
                    with namespace.get(tokens) as found:
                        again = [view.copy() for view in found]
                    client.flush()
                finally:
                    stop.set()
                    writer.join()
            # Whatever was in the memory when it was taken: it never changes again.
            assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
            client.evict(bytes=1 << 40)
            with namespace.get(tokens) as found:
                from_disk = [view.copy() for view in found]
            assert all(np.array_equal(a, b) for a, b in zip(first, from_disk, strict=True))
        assert namespace.verify().bad == 0
        with bystander.get(safe) as found:
            for view, block in zip(found, blocks, strict=True):
                assert np.array_equal(view.copy(), block)


def test_a_client_that_never_gives_memory_back_is_disconnected_and_the_memory_returns(
    tmp_path: Path, rng
) -> None:
    with (
        LocalDaemon(Path(BINARY), tmp_path / "data", SMALL_DAEMON) as daemon,
        kvstrata.connect(daemon.address, **PATIENT) as keeper,
        kvstrata.connect(daemon.address, **PATIENT) as client,
    ):
        namespace = keeper.register(MEDIUM_MODEL)
        tokens = rng.integers(0, 50_000, 16 * 16)
        assert namespace.put(
            tokens, blocks_of(16, MEDIUM_MODEL.block_bytes(), rng), durable=True
        ).ok
        kept = list(namespace.get(tokens, lease_ms=100))
        # From here on the keeper is silent. Other blocks need its memory, in other sizes.
        large = client.register(
            dataclasses.replace(
                MEDIUM_MODEL,
                fingerprint="large",
                groups=(LayerGroup(layers=32, kv_heads=4, head_dim_k=64, head_dim_v=64),),
            )
        )

        def put_more() -> bool:
            more = rng.integers(0, 50_000, 16 * 8)
            content = blocks_of(8, large.block_bytes(), rng)
            stored = large.put(more, content, busy_wait_s=0)
            return stored.ok

        def is_gone(view: kvstrata.BlockView) -> bool:
            try:
                view.copy()
            except kvstrata.LeaseExpired:
                return True
            return False

        def took_the_memory_of_all_that_is_kept() -> bool:
            with contextlib.suppress(kvstrata.Busy):
                put_more()
                client.flush()
            return all(is_gone(view) for view in kept)

        wait_until(took_the_memory_of_all_that_is_kept, 60)
        wait_until(lambda: client.stats()["host"]["zombie_bytes"] == 0, 30)
        host = client.stats()["host"]
        assert host["chunk_bytes"] + host["zombie_bytes"] <= host["budget_bytes"]
        assert any(put_more() for _ in range(20))


def test_a_client_that_never_reads_its_replies_delays_nobody(tmp_path: Path, rng) -> None:
    with (
        LocalDaemon(Path(BINARY), tmp_path / "data", SMALL_DAEMON) as daemon,
        kvstrata.connect(daemon.address, **PATIENT, shared_memory=False) as deaf,
        kvstrata.connect(daemon.address, **PATIENT) as client,
    ):
        namespace = client.register(MEDIUM_MODEL)
        tokens = rng.integers(0, 50_000, 16 * 32)
        blocks = blocks_of(32, MEDIUM_MODEL.block_bytes(), rng)
        assert namespace.put(tokens, blocks, busy_wait_s=30).ok
        client.flush()
        connection = deaf._connected()
        ns = client.list_namespaces()[0]["ns"]
        ask = Request(
            Verb.GET,
            {"ns": ns, "group": 0, "by": "hash", "count": 32, "inline": True},
            [b"".join(namespace.hashes(tokens))],
        )
        raw = connection._socket
        raw.settimeout(0.2)
        with contextlib.suppress(OSError):
            for request_id in range(1000, 1200):
                for part in ask.encode(request_id, None):
                    raw.sendall(part)
        for _ in range(50):
            with namespace.get(tokens) as found:
                assert found.usable == 32
        assert client.stats()["host"]["slot_bytes_used"] <= 32 << 20


def test_an_error_of_another_tenant_names_nothing_of_it(daemon: LocalDaemon) -> None:
    with connect(daemon, "owner") as client, connect(daemon, "stranger") as other:
        client.register(dataclasses.replace(MEDIUM_MODEL, fingerprint="secret-weights"))
        said = answer(other, Verb.EXPLAIN, bytes(32), ns=1, group=0, by="hash", count=1)
        assert isinstance(said, kvstrata.Error)
        assert said.kind == ErrorKind.NOT_FOUND
        assert "owner" not in str(said)
        assert "secret" not in str(said)
        with pytest.raises(kvstrata.PermissionDenied):  # it counts what others do
            other.stats()
        assert client.stats()["counters"]
