"""The blocking client against the scripted peer."""

from __future__ import annotations

import gc
import os
import pickle
import struct

import numpy as np
import pytest
from conftest import PATIENT, SMALL_MODEL, blocks_of, wait_until
from peer import Peer, PeerConnection, Request

import kvstrata
from kvstrata import ErrorKind
from kvstrata.protocol import Verb

SIZE = SMALL_MODEL.block_bytes()


@pytest.fixture(params=["shared", "inline"])
def any_client(request: pytest.FixtureRequest, peer: Peer):
    with kvstrata.Client(peer.path, **PATIENT, shared_memory=request.param == "shared") as client:
        yield client


@pytest.fixture
def big_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes blocks of the small model go through staging memory, which is for larger ones."""
    monkeypatch.setattr("kvstrata.writing.INLINE_PUT_BYTES", 0)


# ---- storing and fetching


@pytest.mark.usefixtures("big_blocks")
def test_what_was_put_is_got(any_client, rng) -> None:
    namespace = any_client.register(SMALL_MODEL)
    tokens = rng.integers(0, 50_000, 16 * 5 + 7)
    blocks = blocks_of(5, SIZE, rng)
    result = namespace.put(tokens, blocks)
    assert result.ok
    assert result.stored == 5
    assert result.bytes_sent == 5 * SIZE
    assert list(result.hashes) == namespace.hashes(tokens)
    with namespace.get(tokens) as found:
        assert found.usable == 5
        assert found.error is None
        for view, block in zip(found, blocks, strict=True):
            assert view.tier == 1
            with view as data:
                assert np.array_equal(data, block)
            assert np.array_equal(view.copy(), block)
    again = namespace.put(tokens, blocks)
    assert again.ok
    assert (again.stored, again.already) == (0, 5)


def test_small_blocks_go_inside_the_message(namespace, peer, rng) -> None:
    namespace.put(range(32), blocks_of(2, SIZE, rng))
    assert peer.count(Verb.PUT) == 1
    assert peer.count(Verb.RESERVE) == 0


def test_other_bytes_under_a_key_are_reported_not_raised(namespace, rng) -> None:
    blocks = blocks_of(2, SIZE, rng)
    namespace.put(range(32), blocks)
    result = namespace.put(range(32), [blocks[0], blocks[0]])
    assert result.statuses == (ErrorKind.EXISTS, ErrorKind.CONFLICT)
    assert not result.ok
    with pytest.raises(kvstrata.Conflict):
        result.raise_for_status()


def test_a_tail_continues_its_prefix(namespace, rng) -> None:
    blocks = blocks_of(4, SIZE, rng)
    namespace.put(range(32), blocks[:2])
    tail = namespace.put(range(64), blocks[2:], first_block=2)
    assert list(tail.hashes) == namespace.hashes(range(64))[2:]
    with namespace.lookup(range(64)) as lease:
        assert (lease.blocks, lease.tokens) == (4, 64)


def test_extras_change_names_from_their_block_on(namespace, rng) -> None:
    extras = {1: [b"image"], 9: [b"beyond the last full block"]}
    namespace.put(range(40), blocks_of(2, SIZE, rng), extras=extras)
    assert namespace.exists(range(40)).blocks == 1
    assert namespace.exists(range(40), extras=extras).blocks == 2
    assert namespace.exists(hashes=namespace.hashes(range(40), extras)).each == (True, True)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 31, 32, 33])
def test_a_partial_last_block_is_neither_stored_nor_found(namespace, rng, length: int) -> None:
    full = length // 16
    with pytest.raises(kvstrata.InvalidArgument):
        namespace.put(range(length), blocks_of(full + 1, SIZE, rng))
    assert namespace.put(range(length), blocks_of(full, SIZE, rng)).stored == full
    with namespace.lookup(range(length)) as lease:
        assert lease.blocks == full
        assert lease.tokens % 16 == 0


@pytest.mark.parametrize("size", [0, SIZE - 1, SIZE + 1])
def test_a_block_of_another_size_is_refused(namespace, size: int) -> None:
    with pytest.raises(kvstrata.InvalidArgument, match=r"must have 4096"):
        namespace.put(range(16), [bytes(size)])


def test_a_batch_at_a_time_goes_through_staging(namespace, peer, rng, monkeypatch) -> None:
    monkeypatch.setattr("kvstrata.writing.INLINE_PUT_BYTES", 0)
    monkeypatch.setattr("kvstrata.writing.BATCH_BYTES", 2 * SIZE)
    blocks = blocks_of(5, SIZE, rng)
    assert namespace.put(range(80), blocks).stored == 5
    assert peer.count(Verb.COMMIT) == 3
    with namespace.get(range(80)) as found:
        assert all(np.array_equal(v.copy(), b) for v, b in zip(found, blocks, strict=True))


@pytest.mark.usefixtures("big_blocks")
def test_blocks_can_be_written_in_place(any_client, rng) -> None:
    namespace = any_client.register(SMALL_MODEL)
    blocks = blocks_of(2, SIZE, rng)
    with namespace.reserve(2) as staging:
        for array, block in zip(staging.arrays, blocks, strict=True):
            array[:] = block
        assert staging.commit(range(32)).stored == 2
        with pytest.raises(kvstrata.InvalidArgument):
            staging.commit(range(32))
    fill = [lambda out, b=b: out.__setitem__(slice(None), b) for b in blocks]
    assert namespace.put(range(32), fill).already == 2


@pytest.mark.usefixtures("big_blocks")
def test_staging_memory_that_is_not_committed_is_given_back(namespace, peer) -> None:
    with namespace.reserve(3):
        pass
    wait_until(lambda: peer.count(Verb.ABORT) == 1)

    def broken(out: np.ndarray) -> None:
        raise RuntimeError("no bytes")

    with pytest.raises(RuntimeError):
        namespace.put(range(16), [broken])
    wait_until(lambda: peer.count(Verb.ABORT) == 2)
    assert peer.count(Verb.COMMIT) == 0


def test_values_under_keys_of_ones_own(any_client, rng, monkeypatch) -> None:
    monkeypatch.setattr("kvstrata.writing.INLINE_PUT_BYTES", 1000)
    opaque = any_client.register(kvstrata.ModelDescriptor("lmcache"))
    for size in (0, 1, 999, 8000):
        value = rng.bytes(size)
        assert opaque.put_value(b"key%d" % size, value).ok
        assert opaque.get_value(b"key%d" % size) == value
    assert opaque.get_value(b"absent") is None
    with opaque.get(keys=[b"key1", b"absent", b"key999"]) as blocks:
        assert [view.ok for view in blocks] == [True, False, True]
        assert isinstance(blocks.error, kvstrata.NotFound)
        assert blocks.usable == 1
        with pytest.raises(kvstrata.NotFound):
            blocks[1].copy()
    for bad in (b"", bytes(257)):
        with pytest.raises(kvstrata.InvalidArgument):
            opaque.put_value(bad, b"x")


def test_blocks_are_named_in_exactly_one_way(namespace) -> None:
    for names in (
        {},
        {"tokens": [1], "hashes": []},
        {"hashes": [b"short"]},
        {"hashes": [], "extras": {0: [b"x"]}},
    ):
        with pytest.raises(kvstrata.InvalidArgument):
            namespace.lookup(**names)
    with pytest.raises(kvstrata.TooLarge):
        namespace.lookup(hashes=[bytes(32)] * 16_385)


def test_values_need_a_namespace_without_groups(namespace) -> None:
    with pytest.raises(kvstrata.InvalidArgument, match="without layer groups"):
        namespace.put_value(b"key", b"value")


# ---- views and leases


def test_views_show_types_and_shapes(namespace, rng) -> None:
    torch = pytest.importorskip("torch")
    block = blocks_of(1, SIZE, rng)[0]
    namespace.put(range(16), [block])
    with namespace.get(range(16)) as found:
        shaped = found[0].numpy(np.uint16, (2, 2, 2, 16, 16))
        assert shaped.base is not None
        assert np.array_equal(shaped.reshape(-1).view(np.uint8), block)
        tensor = found[0].torch(torch.bfloat16, (2, 2, 2, 16, 16))
        assert tensor.dtype == torch.bfloat16
        assert np.array_equal(tensor.view(torch.uint8).numpy().reshape(-1), block)
        out = np.empty(SIZE // 4, dtype=np.float32)
        found[0].copy_to(out)
        assert np.array_equal(out.view(np.uint8), block)
        with pytest.raises(kvstrata.InvalidArgument):
            found[0].copy_to(out[:-1])
        with pytest.raises(ValueError, match="read-only"):
            found[0].numpy()[0] = 1


def test_a_slot_that_changes_under_a_reader_raises(namespace, peer, rng) -> None:
    namespace.put(range(32), blocks_of(2, SIZE, rng))
    lease = namespace.lookup(range(32))
    blocks = lease.load()
    with pytest.raises(kvstrata.LeaseExpired), blocks[0]:
        peer.chunk.set_generation(0, 3)  # freed
    with pytest.raises(kvstrata.LeaseExpired):
        blocks[0].copy()
    with pytest.raises(kvstrata.LeaseExpired):
        blocks.check()
    blocks[1].check()
    peer.chunk.set_generation(0, 4)  # published again, with other content
    with pytest.raises(kvstrata.LeaseExpired):
        blocks[0].check()
    with pytest.raises(kvstrata.LeaseExpired), namespace.get(range(32)):
        peer.chunk.set_generation(1, 5)


def test_the_readers_own_error_is_not_hidden(namespace, peer, rng) -> None:
    namespace.put(range(16), blocks_of(1, SIZE, rng))
    view = namespace.lookup(range(16)).load()[0]

    def use() -> None:
        with view:
            peer.chunk.set_generation(0, 3)
            raise KeyError

    with pytest.raises(KeyError):
        use()


def test_views_end_with_their_lease(namespace, peer, rng) -> None:
    namespace.put(range(16), blocks_of(1, SIZE, rng))
    with namespace.lookup(range(16)) as lease:
        assert 0 < lease.expires_in_s() <= 10
        view = lease.load()[0]
        lease.renew(20_000)
        assert lease.expires_in_s() > 10
    assert lease.expires_in_s() == 0
    for use in (view.check, view.copy, lease.load):
        with pytest.raises(kvstrata.LeaseExpired):
            use()
    lease.release()
    wait_until(lambda: peer.count(Verb.RELEASE) == 1)
    assert peer.leases == {}


def test_a_lease_that_is_dropped_is_given_back(namespace, client, peer, rng) -> None:
    namespace.put(range(16), blocks_of(1, SIZE, rng))
    namespace.lookup(range(16))
    gc.collect()
    client.stats()
    wait_until(lambda: peer.leases == {})


def test_a_lease_of_nothing_holds_nothing(namespace, peer) -> None:
    with namespace.lookup(range(16)) as lease:
        assert lease.blocks == 0
        assert list(lease.load()) == []
    assert peer.count(Verb.RELEASE) == 0


def test_a_lease_can_be_shared_with_another_process(peer, namespace, rng) -> None:
    block = blocks_of(1, SIZE, rng)[0]
    namespace.put(range(16), [block])
    lease = namespace.lookup(range(16))
    handle = pickle.loads(pickle.dumps(lease.handle))
    assert "s" * 16 not in repr(handle)
    with kvstrata.Client(peer.path, **PATIENT) as other:
        with other.attach(handle) as shared:
            assert np.array_equal(shared.load()[0].copy(), block)
        with pytest.raises(kvstrata.NotFound):
            other.attach(kvstrata.LeaseHandle(handle.id, b"x" * 16))


def test_only_blocks_of_the_lease_can_be_loaded(namespace, rng) -> None:
    namespace.put(range(32), blocks_of(2, SIZE, rng))
    lease = namespace.lookup(range(32))
    assert len(lease.load(1)) == 1
    assert len(lease.load(0, 1)) == 1
    for first, count in ((0, 3), (2, 1), (-1, 1), (0, -1)):
        with pytest.raises(kvstrata.InvalidArgument):
            lease.load(first, count)


def test_loads_name_the_tokens_they_expect(namespace, peer, rng) -> None:
    namespace.put(range(48), blocks_of(3, SIZE, rng))
    namespace.lookup(range(48)).load(1, 2)
    (load,) = [request for request in peer.seen if request.verb == Verb.LOAD]
    assert struct.unpack("<32I", load.payload) == tuple(range(16, 48))


# ---- memory that can't be shared


def test_bytes_changed_on_their_way_are_never_handed_out(peer, rng) -> None:
    with kvstrata.Client(peer.path, **PATIENT, shared_memory=False) as client:
        namespace = client.register(SMALL_MODEL)
        namespace.put(range(48), blocks_of(3, SIZE, rng))
        real = peer.get

        def bend(to: PeerConnection, request: Request) -> None:
            whole = peer._loaded

            def loaded(digests: list[bytes], inline: bool) -> tuple[dict, bytes]:
                fields, payload = whole(digests, inline)
                bent = bytearray(payload)
                bent[SIZE + 5] ^= 1
                return fields, bytes(bent)

            peer._loaded = loaded
            real(to, request)

        peer.scripts[Verb.GET] = bend
        with namespace.get(range(48)) as found:
            assert found.usable == 1
            assert isinstance(found.error, kvstrata.Corrupt)
            with pytest.raises(kvstrata.Corrupt):
                found[1].numpy()
            assert found[2].ok


@pytest.mark.parametrize("field", ["magic", "version", "id", "size"])
def test_a_chunk_that_can_not_be_used_falls_back_to_inline(peer, rng, field: str) -> None:
    at = {"magic": 0, "version": 8, "id": 16, "size": 24}[field]
    peer.chunk.map[at] = 0x77
    with kvstrata.Client(peer.path, **PATIENT) as client:
        namespace = client.register(SMALL_MODEL)
        blocks = blocks_of(2, SIZE, rng)
        namespace.put(range(32), blocks)
        with namespace.get(range(32)) as found:
            assert [np.array_equal(v.copy(), b) for v, b in zip(found, blocks, strict=True)] == [
                True,
                True,
            ]
        with namespace.lookup(range(32)) as lease:
            assert np.array_equal(lease.load()[1].copy(), blocks[1])
        wait_until(lambda: peer.leases == {})


@pytest.mark.usefixtures("big_blocks")
def test_a_staging_chunk_that_can_not_be_used_falls_back_to_put(peer, rng) -> None:
    peer.staging.map[8] = 9
    with kvstrata.Client(peer.path, **PATIENT) as client:
        namespace = client.register(SMALL_MODEL)
        assert namespace.put(range(32), blocks_of(2, SIZE, rng)).stored == 2
        assert peer.count(Verb.PUT) == 1
        wait_until(lambda: peer.count(Verb.ABORT) == 1)


def test_retired_chunks_are_unmapped_as_soon_as_no_array_shows_them(namespace, peer, rng) -> None:
    namespace.put(range(16), blocks_of(1, SIZE, rng))
    blocks = namespace.lookup(range(16)).load()
    array = blocks[0].numpy()
    peer.only_connection().event({"event": "chunks_retired", "chunks": [1, 77]})
    wait_until(lambda: peer.count(Verb.CHUNK_UNMAPPED) == 1)
    assert peer.seen[-1].body["chunks"] == [77]  # never mapped, so gone at once
    with pytest.raises(kvstrata.LeaseExpired):
        blocks[0].check()
    assert array.nbytes == SIZE  # still mapped, so no crash
    del array, blocks
    gc.collect()
    wait_until(lambda: peer.count(Verb.CHUNK_UNMAPPED) == 2)
    assert peer.seen[-1].body["chunks"] == [1]


def test_no_file_descriptor_is_left_open(peer, rng) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with kvstrata.Client(peer.path, **PATIENT) as client:
            namespace = client.register(SMALL_MODEL)
            namespace.put(range(16), blocks_of(1, SIZE, rng))
            with namespace.get(range(16)) as found:
                found[0].copy()
            del found
    gc.collect()
    wait_until(lambda: not peer.connections)
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)
