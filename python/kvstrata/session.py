"""Session: one connection's state without its socket. Both clients share it.

Threads: :meth:`receive`, :meth:`fail` and :meth:`maintain` are called by the one reader of the
connection; everything else from any thread.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import os
import threading
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

from kvstrata.errors import ConnectionLost, Error, ProtocolError, error_of
from kvstrata.protocol import VERSION, Body, Bytes, Message, MessageKind, Request, Verb
from kvstrata.results import Event, ServerInfo, hashes_of
from kvstrata.shared_memory import ChunkTable

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """A good answer. Its chunks are mapped already."""

    body: Body
    payload: Bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """A step of a flow that keeps a CPU busy (copying blocks): the asyncio client runs it on a
    worker thread."""

    run: Callable[[], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """A step of a flow that waits before it asks again."""

    seconds: float


Flow = Generator[Request | Work | Pause, Any, T]
"""An operation as a generator: it yields steps, gets a Reply for each Request, returns a T. The
sync and the asyncio client drive the same flows."""


class Waiter(Protocol):
    """Whoever waits for a reply."""

    def set_result(self, reply: Reply, /) -> None: ...
    def set_exception(self, error: Error, /) -> None: ...


@dataclasses.dataclass(slots=True)
class Registration:
    """A namespace as this connection knows it."""

    id: int
    hash: bytes
    epoch: int
    block_bytes: tuple[int, ...]


class Session:
    """Request ids, who waits for which, chunks, registered namespaces, messages to send."""

    def __init__(self, *, shared_memory: bool) -> None:
        self.info: ServerInfo | None = None
        self.registered: dict[int, Registration] = {}  # by the namespace handle's own number
        self.outbox: collections.deque[Request] = collections.deque()  # nobody waits for these
        self.on_event: Callable[[Event], None] | None = None
        self.send_outbox: Callable[[], None] = lambda: None  # set by the connection
        self.error: Error | None = None  # why the connection ended
        self._wants_shared_memory = shared_memory
        self._chunks = ChunkTable()
        self._ids = itertools.count(1)
        self._waiting: dict[int, tuple[Verb, Waiter | None]] = {}
        self._pid = os.getpid()
        self._waiting_lock = threading.Lock()
        self._fail_lock = threading.Lock()

    # ---- what any thread may ask

    @property
    def is_open(self) -> bool:
        """False once the connection ended, and in a forked child."""
        return self.error is None and self._pid == os.getpid()

    @property
    def shared_memory(self) -> bool:
        """True if blocks come and go through shared memory, False if inside messages."""
        return self._wants_shared_memory and not self._chunks.failure

    @property
    def shared_memory_failure(self) -> str:
        """Why shared memory is not used although it could be; empty: it is used."""
        return self._chunks.failure

    @property
    def chunks(self) -> ChunkTable:
        """The chunks of this connection."""
        return self._chunks

    @property
    def in_flight(self) -> int:
        """Requests without an answer."""
        return len(self._waiting)

    def begin(
        self, request: Request, waiter: Waiter | None, deadline_ms: int | None
    ) -> tuple[int, list[memoryview]]:
        """Gives the request an id and a waiter (None: the reply is dropped); returns the id and
        what to send."""
        request_id = next(self._ids)
        parts = request.encode(request_id, deadline_ms)
        self._waiting[request_id] = (request.verb, waiter)
        if self.error is not None:
            self._waiting.pop(request_id, None)
            raise ConnectionLost(str(self.error))
        return request_id, parts

    def forget(self, request_id: int) -> None:
        """The request was never sent."""
        self._waiting.pop(request_id, None)

    def abandon(self, request_id: int) -> bool:
        """Nobody waits for this request any more: what its late reply grants is given back. False
        if the reply came already; then the caller gives back what is in it."""
        with self._waiting_lock:
            entry = self._waiting.get(request_id)
            if entry is None:
                return False
            self._waiting[request_id] = (entry[0], None)
            return True

    def release_later(self, lease_id: int) -> None:
        """Puts a RELEASE into the outbox; it leaves with the next request."""
        if self.is_open:
            self.outbox.append(Request(Verb.RELEASE, {"leases": [lease_id]}))

    # ---- what the reader does

    def receive(self, message: Message) -> None:
        """Takes one message; ProtocolError if the connection must end."""
        announced = message.body.map.get("chunks") if message.descriptors else []
        self._chunks.announce(announced, message.descriptors)
        if message.kind == MessageKind.EVENT:
            self._receive_event(message)
        else:
            self._receive_reply(message)
        self.maintain()

    def _receive_reply(self, message: Message) -> None:
        with self._waiting_lock:
            verb, waiter = self._waiting.pop(message.request_id, (None, None))
        if verb is None:
            if message.status:  # an error about the stream itself
                raise error_of(message.status, message.body.text("message", "no message"))
            raise ProtocolError(f"a reply to request {message.request_id}, which is not in flight")
        if verb != message.verb:
            raise ProtocolError(f"{verb.name} was answered as {message.verb.name}")
        if waiter is None:
            if not message.status:
                self.give_back(verb, message.body)
        elif message.status:
            waiter.set_exception(
                error_of(message.status, message.body.text("message", "no message"))
            )
        else:
            waiter.set_result(Reply(message.body, message.payload))

    def give_back(self, verb: Verb, body: Body) -> None:
        """Nobody takes this answer: returns what it grants, with the next message."""
        if verb in (Verb.LOOKUP, Verb.GET) and (lease := body.number("lease", 0)):
            self.outbox.append(Request(Verb.RELEASE, {"leases": [lease]}))
        elif verb == Verb.GROUP_LOOKUP:
            leases = [part["lease"] for part in body.array("leases", []) if part.get("lease")]
            if leases:
                self.outbox.append(Request(Verb.RELEASE, {"leases": leases}))
        elif verb == Verb.RESERVE:
            raw = body.binary("slots", b"")
            slots = [int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), 32)]
            self.outbox.append(Request(Verb.ABORT, {"slots": slots}))

    def _receive_event(self, message: Message) -> None:
        body = message.body
        name = body.text("event")
        if name == "chunks_retired":
            self._chunks.retire([int(chunk) for chunk in body.array("chunks")])
        elif self.on_event is not None:
            self.on_event(
                Event(
                    name=name,
                    namespace_id=body.number("ns", 0),
                    group=body.number("group", 0),
                    tier=str(body.map.get("tier", "")),
                    hashes=hashes_of(message.payload.tobytes()),
                    fingerprint=body.text("fingerprint", ""),
                    epoch=body.number("epoch", 0),
                )
            )

    @property
    def needs_maintenance(self) -> bool:
        """True while retired chunks wait for their last array to go: call maintain() now and
        then."""
        return self._chunks.is_unmapping

    def maintain(self) -> None:
        """Unmaps retired chunks where that is possible and tells the daemon."""
        if gone := self._chunks.unmapped():
            self.outbox.append(Request(Verb.CHUNK_UNMAPPED, {"chunks": gone}))

    def fail(self, error: Error) -> None:
        """The connection ended: everybody who waits is told, nothing mapped is valid any more."""
        with self._fail_lock:
            if self.error is not None:
                return
            self.error = error
        self._chunks.close()
        while self._waiting:
            try:
                _, (_, waiter) = self._waiting.popitem()
            except KeyError:
                break
            if waiter is not None:
                waiter.set_exception(ConnectionLost(str(error)))


def hello(client: str, token: str | None) -> Flow[ServerInfo]:
    """The first request of every connection."""
    fields: dict[str, Any] = {"protocol": VERSION, "client": client}
    if token:
        fields["token"] = token
    reply = yield Request(Verb.HELLO, fields)
    if reply.body.number("protocol") != VERSION:
        raise ProtocolError(f"the daemon speaks protocol {reply.body.number('protocol')}")
    return ServerInfo.of(reply.body)
