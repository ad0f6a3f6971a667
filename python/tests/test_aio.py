"""The asyncio client against the scripted peer: what differs from the blocking one."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable

import numpy as np
import pytest
from conftest import PATIENT, SMALL_MODEL, blocks_of
from peer import Peer, PeerConnection, Request, Silence

import kvstrata
from kvstrata.protocol import REQUESTS_IN_FLIGHT_MAX, Verb

SIZE = SMALL_MODEL.block_bytes()


async def until(condition: Callable[[], object]) -> None:
    """Polls what another thread is about to make true."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.002)


def cancelled(peer: Peer) -> list[int]:
    return [request.body["request"] for request in peer.seen if request.verb == Verb.CANCEL]


def never(to: PeerConnection, request: Request) -> None:
    raise Silence


@pytest.mark.parametrize("shared_memory", [True, False])
def test_what_was_put_is_got(peer: Peer, rng, monkeypatch, shared_memory: bool) -> None:
    monkeypatch.setattr("kvstrata.writing.INLINE_PUT_BYTES", 0)

    async def main() -> None:
        async with kvstrata.AsyncClient(
            peer.path, **PATIENT, shared_memory=shared_memory
        ) as client:
            namespace = await client.register(SMALL_MODEL)
            tokens, blocks = rng.integers(0, 50_000, 55), blocks_of(3, SIZE, rng)
            assert (await namespace.put(tokens, blocks)).stored == 3
            async with await namespace.get(tokens) as found:
                assert all(np.array_equal(v.copy(), b) for v, b in zip(found, blocks, strict=True))
            async with await namespace.lookup(tokens) as lease:
                assert np.array_equal((await lease.load(2))[0].copy(), blocks[2])
                await lease.renew()
            async with await namespace.reserve(1) as staging:
                staging.arrays[0][:] = blocks[0]
                assert (await staging.commit(tokens[:16])).already == 1
            assert (await namespace.exists(tokens)).each == (True,) * 3
            assert await client.flush() == 3
            assert (await client.stats())["store"]["blocks"] == 3
            opaque = await client.register(kvstrata.ModelDescriptor("opaque"))
            assert (await opaque.put_value(b"key", b"value")).ok
            assert await opaque.get_value(b"key") == b"value"
            assert await opaque.get_value(b"none") is None
            await until(lambda: peer.leases == {})

    asyncio.run(main())


def test_requests_are_under_way_side_by_side_and_answers_come_in_any_order(peer: Peer) -> None:
    held: list[tuple[PeerConnection, Request]] = []

    def answer_backwards(to: PeerConnection, request: Request) -> None:
        held.append((to, request))
        if len(held) == 20:
            for each in reversed(held):
                peer.exists(*each)

    async def main() -> None:
        async with kvstrata.AsyncClient(peer.path, **PATIENT) as client:
            namespace = await client.register(SMALL_MODEL)
            peer.scripts[Verb.EXISTS] = answer_backwards
            lengths = [16 * (1 + index) for index in range(20)]
            answers = await asyncio.gather(*(namespace.exists(range(n)) for n in lengths))
            assert [len(answer.each) for answer in answers] == [n // 16 for n in lengths]

    asyncio.run(main())


def test_a_cancelled_task_cancels_its_request_and_returns_what_came_late(peer: Peer, rng) -> None:
    held: list[tuple[PeerConnection, Request]] = []

    async def main() -> None:
        async with kvstrata.AsyncClient(peer.path, **PATIENT) as client:
            namespace = await client.register(SMALL_MODEL)
            await namespace.put(range(16), blocks_of(1, SIZE, rng))

            def keep(to: PeerConnection, request: Request) -> None:
                held.append((to, request))
                raise Silence

            peer.scripts |= {Verb.LOOKUP: keep, Verb.RESERVE: keep}
            for begin in (lambda: namespace.lookup(range(16)), lambda: namespace.reserve(2)):
                task = asyncio.create_task(begin())
                await until(lambda: held)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                to, request = held.pop()
                await until(lambda: request.id in cancelled(peer))  # noqa: B023
                getattr(peer, request.verb.name.lower())(to, request)
            await until(lambda: peer.count(Verb.RELEASE) == 1 and peer.count(Verb.ABORT) == 1)
            assert peer.leases == {}
            assert (await namespace.exists(range(16))).blocks == 1  # the connection goes on

    asyncio.run(main())


def test_a_cancelled_put_gives_its_staging_memory_back_after_its_copy_ended(
    peer: Peer, rng, monkeypatch
) -> None:
    monkeypatch.setattr("kvstrata.writing.INLINE_PUT_BYTES", 0)
    copying, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def slow_copy(out: np.ndarray) -> None:
        copying.set()
        go_on.wait(5)
        out[:] = 1
        assert peer.count(Verb.ABORT) == 0
        done.set()

    async def main() -> None:
        async with kvstrata.AsyncClient(peer.path, **PATIENT) as client:
            namespace = await client.register(SMALL_MODEL)
            task = asyncio.create_task(namespace.put(range(16), [slow_copy]))
            await until(copying.is_set)
            task.cancel()
            asyncio.get_running_loop().call_later(0.05, go_on.set)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert done.is_set()
            await until(lambda: peer.count(Verb.ABORT) == 1)
            assert peer.count(Verb.COMMIT) == 0

    asyncio.run(main())


def test_more_requests_than_a_connection_may_have_wait_their_turn(peer: Peer) -> None:
    in_flight: list[int] = []

    async def main() -> None:
        async with kvstrata.AsyncClient(peer.path, **PATIENT) as client:
            namespace = await client.register(SMALL_MODEL)
            session = client._connection.session

            def count(to: PeerConnection, request: Request) -> None:
                in_flight.append(session.in_flight)
                peer.exists(to, request)

            peer.scripts[Verb.EXISTS] = count
            await asyncio.gather(*(namespace.exists(range(16)) for _ in range(1500)))

    asyncio.run(main())
    assert len(in_flight) == 1500
    assert max(in_flight) <= REQUESTS_IN_FLIGHT_MAX


def test_a_deadline_ends_a_wait(peer: Peer) -> None:
    async def main() -> None:
        async with kvstrata.AsyncClient(peer.path, **PATIENT) as client:
            peer.scripts[Verb.STATS] = never
            with pytest.raises(kvstrata.DeadlineExceeded):
                await client.stats(timeout_s=0.1)

    asyncio.run(main())


def test_retired_chunks_are_unmapped(peer: Peer, rng) -> None:
    async def main() -> None:
        async with kvstrata.AsyncClient(peer.path, **PATIENT) as client:
            namespace = await client.register(SMALL_MODEL)
            await namespace.put(range(16), blocks_of(1, SIZE, rng))
            lease = await namespace.lookup(range(16))
            array = (await lease.load())[0].numpy()
            peer.only_connection().event({"event": "chunks_retired", "chunks": [1]})
            await asyncio.sleep(0.05)
            assert peer.count(Verb.CHUNK_UNMAPPED) == 0
            assert array.nbytes == SIZE
            del array
            gc.collect()
            await until(lambda: peer.count(Verb.CHUNK_UNMAPPED) == 1)

    asyncio.run(main())


def test_events_are_told_to_a_watcher(peer: Peer) -> None:
    async def main() -> None:
        async with kvstrata.AsyncClient(peer.path, **PATIENT) as client:
            events: list[kvstrata.Event] = []
            await client.watch(events.append)
            peer.only_connection().event({"event": "epoch_changed", "fingerprint": "m", "epoch": 3})
            await until(lambda: events)
            assert (events[0].fingerprint, events[0].epoch) == ("m", 3)

    asyncio.run(main())
