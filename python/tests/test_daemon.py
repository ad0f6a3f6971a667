"""Both clients against the real daemon (the variable KVSTRATAD names the binary)."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENT, SMALL_MODEL, blocks_of, wait_until

import kvstrata
from kvstrata import DType, ErrorKind, LayerGroup, ModelDescriptor, NamespaceSpec
from kvstrata.local_daemon import LocalDaemon

BINARY = os.environ.get("KVSTRATAD")
pytestmark = pytest.mark.skipif(not BINARY, reason="KVSTRATAD does not name a daemon")
ARGUMENTS = ("--host-memory", "64MiB", "--disk", "256MiB")
LARGE_MODEL = dataclasses.replace(
    SMALL_MODEL,
    fingerprint="large",
    block_tokens=64,
    groups=(LayerGroup(layers=8, kv_heads=2, head_dim_k=64, head_dim_v=64),),
)
"""Blocks of 64 tokens, 256 KiB: they go through staging memory."""


@pytest.fixture(scope="module")
def shared_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDaemon]:
    """One daemon for the tests that do not restart it; they use namespaces of their own."""
    folder = tmp_path_factory.mktemp("daemon")
    with LocalDaemon(Path(BINARY), folder / "data", ARGUMENTS) as daemon:
        yield daemon


@pytest.fixture
def own_daemon(tmp_path: Path) -> Iterator[LocalDaemon]:
    """A daemon for one test, to be killed and started at will."""
    with LocalDaemon(Path(BINARY), tmp_path / "data", ARGUMENTS) as daemon:
        yield daemon


@pytest.fixture(params=["shared memory", "inline"])
def client(request: pytest.FixtureRequest, shared_daemon: LocalDaemon):
    options = {**PATIENT, "shared_memory": request.param == "shared memory"}
    with kvstrata.connect(shared_daemon.address, **options) as client:
        yield client


@pytest.fixture
def namespace(client: kvstrata.Client, request: pytest.FixtureRequest) -> kvstrata.Namespace:
    return client.register(NamespaceSpec(LARGE_MODEL, salt=request.node.name[:256]))


def put_some(namespace: kvstrata.Namespace, count: int, rng) -> tuple[np.ndarray, list]:
    tokens = rng.integers(0, 50_000, count * namespace.block_tokens + 3)
    blocks = blocks_of(count, namespace.block_bytes(), rng)
    result = namespace.put(tokens, blocks, busy_wait_s=30)
    assert result.ok, result
    return tokens, blocks


def assert_found(namespace: kvstrata.Namespace, tokens, blocks: list) -> None:
    with namespace.get(tokens) as found:
        assert found.usable == len(blocks), found.error
        for view, block in zip(found, blocks, strict=True):
            assert np.array_equal(view.copy(), block)


# ---- storing, finding, looking after


def test_what_was_put_is_got(namespace, rng) -> None:
    tokens, blocks = put_some(namespace, 5, rng)
    assert_found(namespace, tokens, blocks)
    again = namespace.put(tokens, blocks)
    assert again.statuses == (ErrorKind.EXISTS,) * 5
    assert list(again.hashes) == namespace.hashes(tokens)
    other = namespace.put(tokens, blocks[::-1])
    assert other.statuses[0] == ErrorKind.CONFLICT
    assert_found(namespace, tokens, blocks)


def test_the_longest_prefix_is_found_and_held(namespace, rng) -> None:
    tokens, blocks = put_some(namespace, 4, rng)
    longer = np.concatenate([tokens[:256], rng.integers(0, 50_000, 300)])
    with namespace.lookup(longer) as lease:
        assert (lease.blocks, lease.tokens) == (4, 256)
        assert lease.tiers == b"\1" * 4
        lease.renew(20_000)
        assert lease.expires_in_s() > 10
        assert np.array_equal(lease.load(2)[1].copy(), blocks[3])
    assert namespace.lookup(hashes=namespace.hashes(tokens)[:2]).blocks == 2
    assert namespace.exists(longer).each[:5] == (True,) * 4 + (False,)
    missing = namespace.lookup(longer[::-1].copy())
    assert missing.blocks == 0
    assert list(missing.load()) == []


def test_blocks_are_written_in_place_and_a_tail_continues_its_prefix(namespace, rng) -> None:
    tokens, blocks = put_some(namespace, 2, rng)
    longer = np.concatenate([tokens[:128], rng.integers(0, 50_000, 128)])
    tail = blocks_of(2, namespace.block_bytes(), rng)
    with namespace.reserve(2) as staging:
        for array, block in zip(staging.arrays, tail, strict=True):
            array[:] = block
        assert staging.commit(longer, first_block=2).stored == 2
    assert_found(namespace, longer, blocks + tail)


def test_extra_keys_name_other_blocks(namespace, rng) -> None:
    tokens, extras = rng.integers(0, 50_000, 192), {1: [b"image", b""]}
    blocks = blocks_of(3, namespace.block_bytes(), rng)
    assert namespace.put(tokens, blocks, extras=extras).stored == 3
    assert namespace.exists(tokens).blocks == 1
    assert namespace.exists(tokens, extras=extras).blocks == 3
    assert namespace.put(tokens, blocks[2:], first_block=2, extras=extras).already == 1


def test_values_under_keys_of_ones_own(client, request, rng) -> None:
    spec = NamespaceSpec(ModelDescriptor("values"), salt=request.node.name)
    values = client.register(spec)
    sizes = (1, 100, 70_000, 3_000_000)
    stored = {b"key %d" % size: rng.bytes(size) for size in sizes}
    assert values.put_values(list(stored), list(stored.values()), busy_wait_s=30).stored == 4
    for key, value in stored.items():
        assert values.get_value(key) == value
    assert values.get_value(b"absent") is None
    with values.get(keys=[b"key 1", b"absent", b"key 100"]) as found:
        assert [view.ok for view in found] == [True, False, True]
    assert values.exists(keys=[b"absent", b"key 1"]).each == (False, True)


def test_what_is_stored_can_be_looked_after(client, namespace, rng) -> None:
    tokens, _ = put_some(namespace, 4, rng)
    client.flush()
    hashes = namespace.hashes(tokens)
    assert namespace.pin(tokens) == kvstrata.Changed(4, 0)
    assert namespace.pin(tokens, pinned=False).changed == 4
    assert namespace.set_ttl(3_600_000, tokens).changed == 4
    assert namespace.set_ttl(0, hashes=[*hashes, bytes(32)]) == kvstrata.Changed(4, 1)
    page = namespace.list_blocks(limit=3)
    rest = namespace.list_blocks(after=page.next)
    assert len(page.entries) + len(rest.entries) == 4
    assert namespace.inspect(hashes[1])
    with pytest.raises(kvstrata.NotFound):
        namespace.inspect(bytes(32))
    verified = namespace.verify()
    assert (verified.checked, verified.bad) == (4, 0)
    explanation = namespace.explain(tokens[::-1].copy())
    assert (explanation.blocks, explanation.wanted) == (0, 4)
    assert explanation.reason
    assert namespace.delete(hashes=[hashes[3]]).removed_blocks == 1
    assert namespace.exists(tokens).blocks == 3
    assert namespace.clear(tokens[:128]).removed_blocks == 2  # block 1 and what continues it
    assert namespace.exists(tokens).blocks == 1
    assert namespace.clear().removed_blocks == 1
    assert namespace.exists(tokens).blocks == 0


def test_blocks_evicted_from_memory_come_back_from_disk(client, namespace, rng) -> None:
    tokens, blocks = put_some(namespace, 3, rng)
    client.flush()
    assert client.evict(bytes=1 << 40).removed_blocks >= 3
    with namespace.lookup(tokens) as lease:
        assert lease.tiers == b"\2" * 3
    assert_found(namespace, tokens, blocks)


def test_statistics_and_namespaces_are_told(client, namespace, rng) -> None:
    put_some(namespace, 1, rng)
    client.flush()
    stats = client.stats()
    assert stats["store"]["blocks"] >= 1
    assert stats["store"]["live_bytes"] > 0
    assert client.list_namespaces()
    assert client.server_info().tenant


# ---- what must never be mixed up


def test_specs_that_differ_in_any_field_miss_each_other(client, request, rng) -> None:
    tokens, name = range(64), request.node.name
    group = LARGE_MODEL.groups[0]

    def spec(model: ModelDescriptor = LARGE_MODEL, salt: str = "", **fields) -> NamespaceSpec:
        return NamespaceSpec(model, salt=name + salt, **fields)

    specs = [
        spec(), spec(salt="X"), spec(adapter="X"), spec(salt="X", adapter="X"),
        spec(extra_keys=["X"]), spec(extra_keys=[""]), spec(salt="c", adapter="ab"),
        spec(salt="bc", adapter="a"),
        spec(dataclasses.replace(LARGE_MODEL, dtype=DType.FP8_E4M3)),
        spec(dataclasses.replace(LARGE_MODEL, block_tokens=16)),
        spec(dataclasses.replace(LARGE_MODEL, groups=(dataclasses.replace(group, kv_heads=4),))),
    ]  # fmt: skip
    blocks = []
    for each in specs:
        namespace = client.register(each)
        assert namespace.exists(tokens).blocks == 0, each
        blocks.append(blocks_of(64 // namespace.block_tokens, namespace.block_bytes(), rng))
        assert namespace.put(tokens, blocks[-1]).ok
    for each, stored in zip(specs, blocks, strict=True):
        assert_found(client.register(each), tokens, stored)


def test_absent_and_empty_fields_name_the_same(client, rng) -> None:
    one = client.register(LARGE_MODEL)
    other = client.register(NamespaceSpec(LARGE_MODEL, salt="", adapter=b"", extra_keys=[]))
    assert one.hash == other.hash


def test_bumped_weights_are_noticed(client, request, rng) -> None:
    model = dataclasses.replace(LARGE_MODEL, fingerprint=request.node.name)
    namespace = client.register(model)
    tokens, blocks = put_some(namespace, 2, rng)
    epoch = client.bump_weight_epoch(model.fingerprint)
    for use in (namespace.exists, namespace.lookup, namespace.get):
        with pytest.raises(kvstrata.EpochChanged):
            use(tokens)
    with pytest.raises(kvstrata.EpochChanged):
        namespace.put(tokens, blocks)
    assert namespace.refresh() == epoch
    assert namespace.exists(tokens).blocks == 0
    assert namespace.put(tokens, blocks).stored == 2


def test_bad_requests_are_refused_with_their_reason(client, namespace) -> None:
    with pytest.raises(kvstrata.InvalidArgument):
        client.register(dataclasses.replace(LARGE_MODEL, block_tokens=8))
    with pytest.raises(kvstrata.InvalidArgument):
        namespace.lookup(range(64), lease_ms=1)
    with pytest.raises(kvstrata.Error):
        client.attach(kvstrata.LeaseHandle(12345, b"x" * 16))


# ---- leases


def test_a_lease_is_shared_by_its_handle_and_ends_with_its_last_owner(
    shared_daemon, namespace, rng
) -> None:
    tokens, blocks = put_some(namespace, 2, rng)
    lease = namespace.lookup(tokens)
    with kvstrata.connect(shared_daemon.address, **PATIENT) as other:
        shared = other.attach(lease.handle)
        lease.release()
        assert np.array_equal(shared.load()[1].copy(), blocks[1])
        shared.release()
        with pytest.raises(kvstrata.Error):
            other.attach(lease.handle)


def test_a_lease_ends_at_its_deadline(namespace, rng) -> None:
    tokens, _ = put_some(namespace, 1, rng)
    lease = namespace.lookup(tokens, lease_ms=100)

    def has_ended() -> bool:
        try:
            lease.load()
        except (kvstrata.LeaseExpired, kvstrata.NotFound):
            return True
        return False

    wait_until(has_ended)
    wait_until(lambda: lease.expires_in_s() == 0)  # the client's clock began a moment later
    with pytest.raises((kvstrata.LeaseExpired, kvstrata.NotFound)):
        lease.renew()


def test_leased_blocks_survive_a_full_memory(shared_daemon, request, rng) -> None:
    """Memory of 64 MiB, 20 MiB of it held, then 64 MiB put: what is held stays right."""
    with kvstrata.connect(shared_daemon.address, **PATIENT) as client:
        namespace = client.register(NamespaceSpec(LARGE_MODEL, salt=request.node.name))
        held, blocks = put_some(namespace, 80, rng)
        with namespace.get(held, lease_ms=60_000) as found:
            assert found.usable == 80
            for _ in range(8):
                put_some(namespace, 32, rng)
                client.flush()
            for view, block in zip(found, blocks, strict=True):
                with view as data:
                    assert np.array_equal(data, block)


# ---- TCP and tenants


def test_tenants_with_tokens_share_nothing_over_tcp(tmp_path: Path, rng) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "kvstratad.toml"
    tokens = {name: name * 16 for name in ("one", "two")}
    config.write_text(
        "".join(f'[[tenants]]\nname = "{n}"\ntoken = "{t}"\n' for n, t in tokens.items())
    )
    config.chmod(0o600)
    arguments = (*ARGUMENTS, "--config", str(config), "--listen", f"127.0.0.1:{port}")
    address = f"tcp:127.0.0.1:{port}"
    with LocalDaemon(Path(BINARY), tmp_path / "data", arguments):
        with kvstrata.connect(address, token=tokens["one"], **PATIENT) as client:
            assert client.server_info().tenant == "one"
            namespace = client.register(LARGE_MODEL)
            prefix, blocks = put_some(namespace, 6, rng)
            assert_found(namespace, prefix, blocks)
            lease = namespace.lookup(prefix)
            with kvstrata.connect(address, token=tokens["two"], **PATIENT) as other:
                apart = other.register(LARGE_MODEL)
                assert apart.hash != namespace.hash
                assert apart.exists(prefix).blocks == 0
                assert apart.exists(hashes=namespace.hashes(prefix)).blocks == 0
                with pytest.raises(kvstrata.NotFound):
                    other.attach(lease.handle)
        for token in (None, "wrong", "w" * 48):
            with pytest.raises(kvstrata.Unauthenticated):
                kvstrata.connect(address, token=token, **PATIENT)


# ---- restarts


def test_flushed_blocks_survive_sigkill_and_are_found_by_another_process(own_daemon, rng) -> None:
    with kvstrata.connect(own_daemon.address, **PATIENT) as client:
        namespace = client.register(LARGE_MODEL)
        tokens, blocks = put_some(namespace, 8, rng)
        durable = rng.integers(0, 50_000, 64)
        assert namespace.put(durable, blocks[:1], durable=True).stored == 1
        assert client.flush() > 0
        view = namespace.lookup(tokens).load()[0]
        own_daemon.kill()
        own_daemon.start()
        assert_found(namespace, tokens, blocks)
        assert_found(namespace, durable, blocks[:1])
        with pytest.raises(kvstrata.LeaseExpired):
            view.copy()
    script = (
        "import sys, kvstrata; sys.path.insert(0, sys.argv[2]); import conftest, test_daemon\n"
        "c = kvstrata.connect(sys.argv[1], connect_timeout_s=20)\n"
        "n = c.register(test_daemon.LARGE_MODEL)\n"
        "print(n.exists([int(t) for t in sys.argv[3:]]).blocks)"
    )
    command = [sys.executable, "-c", script, own_daemon.address, str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": str(Path(kvstrata.__file__).parents[1])}
    out = subprocess.run(
        [*command, *map(str, tokens)], capture_output=True, text=True, check=True, env=environment
    )
    assert out.stdout.strip() == "8"


def test_two_hundred_requests_over_a_crash(own_daemon, rng) -> None:
    """SIGKILL after 50 requests, started again after 100, another socket file on the way."""
    tokens = rng.integers(0, 50_000, 128)
    outcomes: list[str] = []
    with kvstrata.connect(own_daemon.address, **PATIENT) as client:
        namespace = client.register(LARGE_MODEL)
        blocks = blocks_of(2, namespace.block_bytes(), rng)
        for index in range(200):
            if index == 50:
                own_daemon.kill()
            if index == 100:
                own_daemon.socket.unlink(missing_ok=True)
                own_daemon.start()
            try:
                with namespace.get(tokens) as found:
                    hits = found.usable
                    for view, block in zip(found, blocks, strict=False):
                        assert np.array_equal(view.copy(), block)
                if hits < 2:
                    assert namespace.put(tokens, blocks, durable=True).ok
                outcomes.append("hit" if hits == 2 else "stored")
            except kvstrata.Unavailable:
                outcomes.append("unavailable")
    assert outcomes[0] == "stored"
    assert set(outcomes[1:50]) == {"hit"}
    assert set(outcomes[50:100]) == {"unavailable"}
    assert set(outcomes[100:]) == {"hit"}


# ---- asyncio


def test_asyncio_tasks_share_a_client(shared_daemon, request, rng) -> None:
    async def one(namespace: kvstrata.AsyncNamespace, seed: int) -> None:
        own = np.random.default_rng(seed)
        tokens = own.integers(0, 50_000, 64 * 3)
        blocks = blocks_of(3, namespace.block_bytes(), own)
        assert (await namespace.put(tokens, blocks, busy_wait_s=30)).ok
        async with await namespace.get(tokens) as found:
            assert found.usable == 3
            for view, block in zip(found, blocks, strict=True):
                assert np.array_equal(view.copy(), block)

    async def main() -> None:
        async with kvstrata.AsyncClient(shared_daemon.address, **PATIENT) as client:
            spec = NamespaceSpec(LARGE_MODEL, salt=request.node.name)
            namespace = await client.register(spec)
            seeds = [int(seed) for seed in rng.integers(0, 1 << 32, 24)]
            async with asyncio.TaskGroup() as group:
                for seed in seeds:
                    group.create_task(one(namespace, seed))
            await client.flush()

    asyncio.run(main())


def test_cancelled_tasks_leave_nothing_behind(shared_daemon, request, rng) -> None:
    async def main() -> None:
        async with kvstrata.AsyncClient(shared_daemon.address, **PATIENT) as client:
            spec = NamespaceSpec(LARGE_MODEL, salt=request.node.name)
            namespace = await client.register(spec)
            tokens = rng.integers(0, 50_000, 64 * 8)
            await namespace.put(tokens, blocks_of(8, namespace.block_bytes(), rng))
            await client.flush()
            for turn in range(60):
                await client.evict(blocks=8)
                task = asyncio.create_task(namespace.get(tokens))
                for _ in range(turn % 6):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                del task
            async with asyncio.timeout(30):
                while (await client.stats())["leases"]["active"]:
                    await asyncio.sleep(0.01)
            async with await namespace.get(tokens) as found:
                assert found.usable == 8

    asyncio.run(main())


# ---- the manual


DOC = Path(__file__).parents[2] / "doc" / "client-python.md"


@pytest.mark.skipif(not DOC.exists(), reason="the repository's doc/ is not here")
def test_the_manual_can_be_copied(shared_daemon, tmp_path: Path) -> None:
    pieces = re.findall(r"```python\n(.*?)```", DOC.read_text(), re.DOTALL)
    wanted = {
        0: "2 stored, 0 there already\n2 blocks found\nequal\n",
        1: "b'value'\n",
    }
    environment = {
        **os.environ,
        "KVSTRATA_SOCKET": shared_daemon.address,
        "PYTHONPATH": str(Path(kvstrata.__file__).parents[1]),
    }
    for index, output in wanted.items():
        script = tmp_path / f"piece{index}.py"
        script.write_text(pieces[index])
        command = [sys.executable, str(script)]
        run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert (run.stdout, run.stderr) == (output, "")


def test_a_group_lookup_has_the_length_of_the_shortest_shard(client, request, rng) -> None:
    shards = [
        client.register(NamespaceSpec(LARGE_MODEL, salt=f"{request.node.name[:200]} {i}"))
        for i in range(2)
    ]
    tokens = rng.integers(0, 50_000, 5 * shards[0].block_tokens)
    blocks = [blocks_of(count, shards[0].block_bytes(), rng) for count in (5, 3)]
    for namespace, part in zip(shards, blocks, strict=True):
        stored = namespace.put(tokens[: len(part) * namespace.block_tokens], part, busy_wait_s=30)
        assert stored.ok, stored
    leases = client.group_lookup([(namespace, tokens) for namespace in shards])
    assert [lease.blocks for lease in leases] == [3, 3]
    for lease, part in zip(leases, blocks, strict=True):
        with lease:
            for view, block in zip(lease.load(), part[:3], strict=True):
                assert np.array_equal(view.copy(), block)
