"""The blocking client against a peer that fails, is late, or breaks the rules."""

from __future__ import annotations

import dataclasses
import multiprocessing
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL_MODEL, blocks_of, wait_until
from peer import PeerConnection, Refuse, Request, Silence, message

import kvstrata
from kvstrata import ErrorKind
from kvstrata.errors import error_of
from kvstrata.protocol import HEADER, MAGIC, Verb

SIZE = SMALL_MODEL.block_bytes()


@pytest.fixture
def big_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes blocks of the small model go through staging memory, which is for larger ones."""
    monkeypatch.setattr("kvstrata.writing.INLINE_PUT_BYTES", 0)


# ---- errors


@pytest.mark.parametrize("kind", list(ErrorKind))
def test_each_error_kind_has_its_exception(namespace, peer, kind: ErrorKind) -> None:
    def refuse(to: PeerConnection, request: Request) -> None:
        raise Refuse(kind, "the reason")

    peer.scripts[Verb.LOOKUP] = refuse
    with pytest.raises(kvstrata.Error, match="the reason") as caught:
        namespace.lookup(range(16))
    assert caught.value.kind == kind
    assert type(caught.value) is not kvstrata.Error
    assert namespace.exists(range(16)).blocks == 0  # the connection stays


def test_errors_feel_like_pythons_own() -> None:
    assert isinstance(error_of(19, ""), ConnectionError)
    assert isinstance(error_of(16, ""), TimeoutError)
    assert isinstance(error_of(1, ""), ValueError)
    assert isinstance(error_of(12, ""), PermissionError)
    assert str(error_of(99, "new")) == "new (error kind 99)"


def test_a_busy_daemon_is_asked_again_for_a_while(namespace, peer, rng) -> None:
    answers = iter([True, True, False])
    real = peer.put

    def busy_twice(to: PeerConnection, request: Request) -> None:
        if next(answers):
            raise Refuse(ErrorKind.BUSY)
        real(to, request)

    peer.scripts[Verb.PUT] = busy_twice
    assert namespace.put(range(16), blocks_of(1, SIZE, rng)).stored == 1
    peer.scripts[Verb.PUT] = lambda to, request: (_ for _ in ()).throw(Refuse(ErrorKind.BUSY))
    with pytest.raises(kvstrata.Busy):
        namespace.put(range(16), blocks_of(1, SIZE, rng), busy_wait_s=0.0)


def test_a_put_that_ends_midway_tells_which_blocks_are_missing(
    namespace, peer, rng, monkeypatch
) -> None:
    monkeypatch.setattr("kvstrata.writing.BATCH_BYTES", 2 * SIZE)
    real = peer.put

    def full_after_first(to: PeerConnection, request: Request) -> None:
        if peer.count(Verb.PUT) > 1:
            raise Refuse(ErrorKind.OUT_OF_SPACE, "disk is full")
        real(to, request)

    peer.scripts[Verb.PUT] = full_after_first
    result = namespace.put(range(80), blocks_of(5, SIZE, rng))
    assert result.statuses == (None, None, *[ErrorKind.OUT_OF_SPACE] * 3)
    assert (result.stored, result.ok, result.bytes_sent) == (2, False, 2 * SIZE)
    with pytest.raises(kvstrata.OutOfSpace):
        result.raise_for_status()


@pytest.mark.usefixtures("big_blocks")
@pytest.mark.parametrize("most", [2, 0])
def test_batches_shrink_to_what_the_daemon_takes(namespace, peer, rng, most: int) -> None:
    real = peer.reserve

    def refuse_many(to: PeerConnection, request: Request) -> None:
        if request.body["slots"] > most:
            raise Refuse(ErrorKind.TOO_LARGE)
        real(to, request)

    peer.scripts[Verb.RESERVE] = refuse_many
    blocks = blocks_of(5, SIZE, rng)
    assert namespace.put(range(80), blocks).stored == 5
    assert peer.count(Verb.PUT) == (0 if most else 5)
    with namespace.get(range(80)) as found:
        assert all(np.array_equal(v.copy(), b) for v, b in zip(found, blocks, strict=True))


def test_tokens_out_of_range_never_reach_the_wire(namespace, peer) -> None:
    for tokens in ([50_000] * 16, [-1] * 16, [1 << 32] * 16):
        for use in (namespace.lookup, namespace.exists, namespace.get, namespace.hashes):
            with pytest.raises(kvstrata.InvalidArgument, match="token id"):
                use(tokens)
        with pytest.raises(kvstrata.InvalidArgument, match="token id"):
            namespace.put(tokens, [bytes(SIZE)])
    assert {request.verb for request in peer.seen} == {Verb.HELLO, Verb.REGISTER}


def test_a_daemon_that_names_keys_otherwise_is_refused(client, peer) -> None:
    def lie(to: PeerConnection, request: Request) -> None:
        to.reply(request, {"ns": 0, "hash": bytes(32), "epoch": 0, "block_bytes": [SIZE]})

    peer.scripts[Verb.REGISTER] = lie
    with pytest.raises(kvstrata.ProtocolError, match="disagree"):
        client.register(SMALL_MODEL)


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"blocks": -1}, {"blocks": "1"}, {"blocks": 99, "lease": 1},
        {"blocks": 1, "lease": "x"},
    ],
)  # fmt: skip
def test_a_reply_with_wrong_fields_is_a_protocol_error(namespace, peer, fields: dict) -> None:
    peer.scripts[Verb.LOOKUP] = lambda to, request: to.reply(request, fields)
    with pytest.raises(kvstrata.ProtocolError, match="LOOKUP"):
        namespace.lookup(range(16))


@pytest.mark.parametrize("broken", ["chunk", "offset", "size", "refs", "status"])
def test_refs_that_lead_nowhere_are_a_protocol_error(namespace, peer, rng, broken: str) -> None:
    namespace.put(range(16), blocks_of(1, SIZE, rng))
    ref = {"chunk": 1, "offset": peer.chunk.offset(0), "size": SIZE}
    if broken in ref:
        ref[broken] = {"chunk": 9, "offset": 100, "size": 1 << 40}[broken]
    refs = struct.pack("<QQQQQ", *ref.values(), 2, 0)
    status = b"\x63" if broken == "status" else b"\0"
    fields = {"status": status, "refs": refs[:-1] if broken == "refs" else refs}
    peer.scripts[Verb.LOAD] = lambda to, request: to.reply(request, fields, b"", [peer.chunk])
    lease = namespace.lookup(range(16))
    with pytest.raises(kvstrata.ProtocolError, match=r"LOAD|chunk"):
        lease.load()


@pytest.mark.parametrize(
    "stream",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(32),
        HEADER.pack(MAGIC, Verb.STATS, 1, 0, 999, 0, 0, 0, 0),
        HEADER.pack(MAGIC, Verb.STATS, 1, 0, 3, 1, 0, 0, 0) + b"\xc1",
        message(Verb.STATS, 1, 18, 0, {"message": "unknown verb"}, b""),
    ],
)
def test_a_stream_that_is_not_the_protocol_ends_the_connection_only(
    client, peer, stream: bytes
) -> None:
    def garbage(to: PeerConnection, request: Request) -> None:
        to.send(stream)
        raise Silence

    peer.scripts[Verb.STATS] = garbage
    with pytest.raises(kvstrata.Error):
        client.stats(timeout_s=2)
    del peer.scripts[Verb.STATS]
    assert client.stats()["store"]["blocks"] == 0


# ---- deadlines


def test_a_daemon_that_hangs_is_not_waited_for_again_and_again(peer, monkeypatch) -> None:
    monkeypatch.setattr("kvstrata.options._BACK_OFF_S", 1000.0)

    def silent(to: PeerConnection, request: Request) -> None:
        raise Silence

    with kvstrata.connect(peer.path, connect_timeout_s=5.0) as client:
        peer.scripts |= {Verb.STATS: silent, Verb.HELLO: silent}
        with pytest.raises(kvstrata.DeadlineExceeded):
            client.stats(timeout_s=0.2)
        assert not client.is_connected
        client.options = dataclasses.replace(client.options, connect_timeout_s=0.3)
        for _ in range(2):
            with pytest.raises(kvstrata.Unavailable, match="says no hello"):
                client.stats()
        assert peer.count(Verb.HELLO) == 2  # the second refusal came without asking


def test_what_a_late_answer_grants_is_given_back(namespace, client, peer, rng) -> None:
    namespace.put(range(16), blocks_of(1, SIZE, rng))

    def answer_late(to: PeerConnection, request: Request) -> None:
        while True:  # events come in, so the daemon is not hung; only this answer is late
            to.event({"event": "draining"})
            if gave_up.wait(0.05):
                peer.lookup(to, request)
                return

    peer.scripts[Verb.LOOKUP] = answer_late
    gave_up = threading.Event()
    with pytest.raises(kvstrata.DeadlineExceeded):
        namespace.lookup(range(16), timeout_s=0.1)
    gave_up.set()
    wait_until(lambda: peer.count(Verb.RELEASE) == 1)
    assert peer.leases == {}
    assert peer.count(Verb.CANCEL) == 1
    assert peer.count(Verb.HELLO) == 1


# ---- many threads, forks


def test_threads_share_a_client(namespace, rng) -> None:
    blocks = blocks_of(8, SIZE, rng)
    namespace.put(range(128), blocks)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(30):
                with namespace.get(range(128)) as found:
                    assert all(
                        np.array_equal(v.copy(), b) for v, b in zip(found, blocks, strict=True)
                    )
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def _in_child(namespace: kvstrata.Namespace, view: kvstrata.BlockView, out) -> None:
    try:
        view.check()
        out.put("the parent's view is valid in the child")
    except kvstrata.LeaseExpired:
        out.put(namespace.exists(range(16)).blocks)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_gets_a_connection_of_its_own(namespace, peer, rng) -> None:
    namespace.put(range(16), blocks_of(1, SIZE, rng))
    with namespace.get(range(16)) as found:
        context = multiprocessing.get_context("fork")
        out = context.SimpleQueue()
        child = context.Process(target=_in_child, args=(namespace, found[0], out))
        child.start()
        child.join(10)
        assert child.exitcode == 0
        assert out.get() == 1
        found[0].check()  # the parent's connection did not suffer
    assert peer.count(Verb.HELLO) == 2


def test_events_are_told_to_a_watcher(client, peer) -> None:
    events: list[kvstrata.Event] = []
    client.watch(events.append)
    peer.only_connection().event(
        {"event": "stored", "ns": 3, "group": 1, "tier": "host"}, b"a" * 32 + b"b" * 32
    )
    wait_until(lambda: events)
    assert events[0].hashes == (b"a" * 32, b"b" * 32)
    assert (events[0].name, events[0].namespace_id, events[0].group) == ("stored", 3, 1)


def test_unix_path_of_a_client_may_be_a_plain_path(tmp_path: Path) -> None:
    with pytest.raises(kvstrata.Unavailable, match=r"no daemon answers at unix:"):
        kvstrata.connect(str(tmp_path / "absent.sock"))
