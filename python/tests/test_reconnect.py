"""A daemon that goes and comes back: nobody hangs, results tell the truth, hits come again."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENT, SMALL_MODEL, blocks_of, wait_until
from peer import HangUp, Peer, PeerConnection, Request, Silence

import kvstrata
from kvstrata.protocol import Verb

SIZE = SMALL_MODEL.block_bytes()
LIMIT_S = 10.0  # far over what is stated and far under a hang: machines are busy at times


def timed(use) -> tuple[object, float]:
    began = time.monotonic()
    try:
        outcome: object = use()
    except kvstrata.Error as error:
        outcome = error
    return outcome, time.monotonic() - began


def test_a_restarted_daemon_is_found_again_without_the_caller_doing_anything(
    namespace, client, peer, rng
) -> None:
    tokens, blocks = range(32), blocks_of(2, SIZE, rng)
    namespace.put(tokens, blocks)
    lease = namespace.lookup(tokens)
    view = lease.load()[0]
    boot = client.server_info().boot
    peer.stop()
    for _ in range(20):
        outcome, took_s = timed(lambda: namespace.lookup(tokens))
        assert isinstance(outcome, kvstrata.Unavailable)
        assert took_s < LIMIT_S
        outcome, took_s = timed(lambda: namespace.put(tokens, blocks))
        assert isinstance(outcome, kvstrata.Unavailable)  # never a put that looks done
        assert took_s < LIMIT_S
    peer.start()
    assert namespace.lookup(tokens).blocks == 0
    assert client.server_info().boot != boot
    assert namespace.put(tokens, blocks).stored == 2
    with namespace.get(tokens) as found:
        assert all(np.array_equal(v.copy(), b) for v, b in zip(found, blocks, strict=True))
    for old in (view.check, view.copy, lease.load, lease.renew):
        with pytest.raises(kvstrata.LeaseExpired):
            old()
    wait_until(lambda: peer.leases == {})
    released = peer.count(Verb.RELEASE)
    lease.release()  # the new daemon may have a lease with this number: it is not told
    client.stats()
    assert peer.count(Verb.RELEASE) == released


def test_a_restart_between_two_requests_is_not_even_noticed(namespace, peer, rng) -> None:
    namespace.put(range(16), blocks_of(1, SIZE, rng))
    peer.stop()
    peer.start()
    assert namespace.exists(range(16)).blocks == 0


def test_a_request_whose_connection_breaks_is_repeated_once(namespace, client, peer, rng) -> None:
    breaks = iter([True, False, True, True])

    def hang_up(to: PeerConnection, request: Request) -> None:
        if next(breaks):
            raise HangUp
        real(to, request)

    real, peer.scripts[Verb.PUT] = peer.put, hang_up
    assert namespace.put(range(16), blocks_of(1, SIZE, rng)).stored == 1
    with pytest.raises(kvstrata.ConnectionLost):
        namespace.put(range(16), blocks_of(1, SIZE, rng))


@pytest.mark.parametrize("verb", [Verb.EPOCH_BUMP, Verb.FLUSH, Verb.EVICT])
def test_what_must_not_happen_twice_is_not_repeated(client, peer, verb: Verb) -> None:
    def hang_up(to: PeerConnection, request: Request) -> None:
        raise HangUp

    peer.scripts[verb] = hang_up
    calls = {
        Verb.EPOCH_BUMP: lambda: client.bump_weight_epoch("m"),
        Verb.FLUSH: client.flush,
        Verb.EVICT: lambda: client.evict(blocks=1),
    }
    with pytest.raises(kvstrata.ConnectionLost):
        calls[verb]()
    assert peer.count(verb) == 1


def test_staging_memory_of_a_dead_daemon_is_not_committed(namespace, peer, rng) -> None:
    with namespace.reserve(1) as staging:
        staging.arrays[0][:] = 1
        peer.stop()
        peer.start()
        with pytest.raises(kvstrata.Unavailable):
            staging.commit(range(16))
    assert namespace.exists(range(16)).blocks == 0


def test_a_reconnect_never_moves_a_namespace_to_new_weights(namespace, peer, rng) -> None:
    tokens = range(16)
    namespace.put(tokens, blocks_of(1, SIZE, rng))
    peer.stop()
    peer.epoch = 5
    peer.start()
    for _ in range(2):
        with pytest.raises(kvstrata.EpochChanged, match="refresh"):
            namespace.put(tokens, blocks_of(1, SIZE, rng))
    assert namespace.epoch == 0
    assert namespace.refresh() == 5
    assert namespace.put(tokens, blocks_of(1, SIZE, rng)).stored == 1


def test_a_daemon_may_come_back_at_another_path(peer, tmp_path, monkeypatch, rng) -> None:
    monkeypatch.setenv("KVSTRATA_SOCKET", f"unix:{peer.path}")
    with kvstrata.Client(**PATIENT) as client:
        namespace = client.register(SMALL_MODEL)
        peer.stop()
        moved = Peer(str(tmp_path / "moved.sock"))
        monkeypatch.setenv("KVSTRATA_SOCKET", f"unix:{moved.path}")
        assert namespace.put(range(16), blocks_of(1, SIZE, rng)).stored == 1
        moved.stop()
    peer.start()


def test_a_daemon_that_accepts_and_says_nothing_is_unavailable(tmp_path: Path) -> None:
    path = str(tmp_path / "mute.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with kvstrata.Client(path, connect_timeout_s=0.3) as client:
            outcome, took_s = timed(client.stats)
            assert isinstance(outcome, kvstrata.Unavailable)
            assert took_s < LIMIT_S


def test_a_client_may_be_made_before_its_daemon(tmp_path: Path) -> None:
    path = str(tmp_path / "later.sock")
    with kvstrata.Client(path, **PATIENT) as client:
        with pytest.raises(kvstrata.Unavailable):
            client.register(SMALL_MODEL)
        peer = Peer(path)
        assert client.register(SMALL_MODEL).block_bytes() == SIZE
        peer.stop()


def test_a_closed_client_is_unavailable(client) -> None:
    client.close()
    with pytest.raises(kvstrata.Unavailable, match="closed"):
        client.stats()


def test_two_hundred_requests_over_a_restart(peer, rng) -> None:
    """The daemon dies after 50 requests and is back after 100; from there on there are hits."""
    tokens, blocks = list(range(32)), blocks_of(2, SIZE, rng)
    outcomes = []
    with kvstrata.Client(peer.path, **PATIENT) as client:
        namespace = client.register(SMALL_MODEL)
        for index in range(200):
            if index == 50:
                peer.stop()
            if index == 100:
                peer.start()
            (outcome, took_s) = timed(lambda: _serve(namespace, tokens, blocks))
            assert took_s < LIMIT_S
            outcomes.append(outcome)
    assert outcomes[0] == "stored"
    assert set(outcomes[1:50]) == {"hit"}
    assert all(isinstance(outcome, kvstrata.Unavailable) for outcome in outcomes[50:100])
    assert outcomes[100] == "stored"
    assert set(outcomes[101:]) == {"hit"}


def _serve(namespace: kvstrata.Namespace, tokens: list[int], blocks: list) -> str:
    with namespace.get(tokens) as found:
        if found.usable == 2:
            assert all(np.array_equal(v.copy(), b) for v, b in zip(found, blocks, strict=True))
            return "hit"
    return "stored" if namespace.put(tokens, blocks).ok else "not stored"


def test_asyncio_finds_a_restarted_daemon_too(peer, rng) -> None:
    async def main() -> None:
        blocks = blocks_of(2, SIZE, rng)
        async with kvstrata.AsyncClient(peer.path, **PATIENT) as client:
            namespace = await client.register(SMALL_MODEL)
            await namespace.put(range(32), blocks)
            lease = await namespace.lookup(range(32))
            view = (await lease.load())[0]
            await asyncio.to_thread(peer.stop)
            for _ in range(10):
                began = time.monotonic()
                with pytest.raises(kvstrata.Unavailable):
                    await namespace.put(range(32), blocks)
                assert time.monotonic() - began < LIMIT_S
            await asyncio.to_thread(peer.start)
            assert (await namespace.put(range(32), blocks)).stored == 2
            with pytest.raises(kvstrata.LeaseExpired):
                view.copy()
            with pytest.raises(kvstrata.LeaseExpired):
                await lease.load()

    asyncio.run(main())


def test_threads_that_wait_are_all_told_when_the_connection_ends(namespace, peer) -> None:
    def hang_up_on_the_fourth(to: PeerConnection, request: Request) -> None:
        raise HangUp if peer.count(Verb.EXISTS) % 4 == 0 else Silence

    peer.scripts[Verb.EXISTS] = hang_up_on_the_fourth
    outcomes: list[object] = []

    def ask() -> None:
        outcomes.append(timed(lambda: namespace.exists(range(16), timeout_s=20))[0])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [type(outcome) for outcome in outcomes] == [kvstrata.ConnectionLost] * 4
    assert peer.count(Verb.EXISTS) == 8  # each was repeated once
