"""Wire protocol 1 without any I/O: the header, messages out, messages in (doc/wire-protocol.md)."""

from __future__ import annotations

import collections
import dataclasses
import enum
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from kvstrata.errors import ProtocolError

VERSION = 1
MAGIC = 0x3153564B  # "KVS1"
HEADER = struct.Struct("<IBBHQIHHQ")
BODY_BYTES_MAX = 1 << 20
PAYLOAD_BYTES_MAX = 1 << 30
BLOCKS_PER_REQUEST_MAX = 16384
REQUESTS_IN_FLIGHT_MAX = 1024
DESCRIPTORS_PER_MESSAGE_MAX = 32
DEADLINE_MS_MAX = 600_000

Buffer = bytes | bytearray | memoryview
Bytes = npt.NDArray[np.uint8]


def _view(part: Buffer | Bytes) -> memoryview:
    return part.data if isinstance(part, np.ndarray) else memoryview(part).cast("B")


class Verb(enum.IntEnum):
    """What a request asks for."""

    HELLO = 1
    REGISTER = 2
    LOOKUP = 3
    GROUP_LOOKUP = 4
    EXISTS = 5
    LOAD = 6
    RENEW = 7
    LEASE_ATTACH = 8
    RELEASE = 9
    CANCEL = 10
    RESERVE = 11
    COMMIT = 12
    ABORT = 13
    FLUSH = 14
    GET = 15
    PUT = 16
    PIN = 17
    TTL = 18
    DELETE = 19
    CLEAR = 20
    EPOCH_BUMP = 21
    STATS = 22
    EXPLAIN = 23
    WATCH = 24
    LIST = 25
    INSPECT = 26
    EVICT = 27
    VERIFY = 28
    CHUNK_UNMAPPED = 29
    EVENT = 30


class MessageKind(enum.IntEnum):
    """Who speaks: a client asks, the daemon answers or tells."""

    REQUEST = 0
    REPLY = 1
    EVENT = 2


class Body:
    """The map of a reply or event with typed access; a field that is missing or has another type
    is a ProtocolError that names it."""

    __slots__ = ("map", "what")

    def __init__(self, fields: Mapping[str, Any], what: str) -> None:
        self.map = fields
        self.what = what

    def _get(self, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
        value = self.map.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise ProtocolError(f"{self.what}: field '{name}' is missing or has a wrong type")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        """An unsigned integer."""
        value: int = self._get(name, int, default)
        if value < 0:
            raise ProtocolError(f"{self.what}: field '{name}' is negative")
        return value

    def binary(self, name: str, default: bytes | None = None) -> bytes:
        """A bin."""
        value: bytes = self._get(name, bytes, default)
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A str."""
        value: str = self._get(name, str, default)
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """A bool."""
        value: bool = self._get(name, bool, default)
        return value

    def array(self, name: str, default: list[Any] | None = None) -> list[Any]:
        """An array; its elements are the caller's to check."""
        value: list[Any] = self._get(name, list, default)
        return value


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request before it has an id: verb, body fields, parts of the payload in order."""

    verb: Verb
    body: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    payload: Sequence[Buffer | Bytes] = ()

    def encode(self, request_id: int, deadline_ms: int | None) -> list[memoryview]:
        """Header and body as one buffer, then the payload's parts, none of them copied."""
        fields = dict(self.body)
        if deadline_ms is not None:
            fields["deadline_ms"] = deadline_ms
        body: bytes = msgpack.packb(fields, use_bin_type=True)
        parts = [_view(part) for part in self.payload if len(part)]
        payload_bytes = sum(part.nbytes for part in parts)
        if len(body) > BODY_BYTES_MAX or payload_bytes > PAYLOAD_BYTES_MAX:
            raise ProtocolError(
                f"{self.verb.name}: a body of {len(body)} and a payload of {payload_bytes} bytes "
                f"exceed the limits, {BODY_BYTES_MAX} and {PAYLOAD_BYTES_MAX}"
            )
        header = HEADER.pack(
            MAGIC, self.verb, MessageKind.REQUEST, 0, request_id, len(body), 0, 0, payload_bytes
        )
        return [memoryview(header + body), *parts]


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """A reply or an event as it came in. ``descriptors`` are owned by whoever takes them."""

    verb: Verb
    kind: MessageKind
    status: int
    request_id: int
    body: Body
    payload: Bytes
    descriptors: list[int]


class MessageReader:
    """Cuts a byte stream into messages. It owns the memory that is received into: ask
    :meth:`buffer`, receive, tell :meth:`advance` how much came. Large payloads are received in
    place, without a copy. One thread at a time."""

    _SCRATCH_BYTES = 64 << 10

    def __init__(self) -> None:
        self._scratch = memoryview(bytearray(self._SCRATCH_BYTES))
        self._start = 0  # of the bytes in the scratch buffer that no message took yet
        self._end = 0
        self._header: tuple[int, ...] | None = None
        self._data = np.empty(0, dtype=np.uint8)  # body, then payload, of the message at hand
        self._filled = 0
        self._descriptors: collections.deque[int] = collections.deque()

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._header is not None and self._start == self._end:
            return self._data.data[self._filled :]
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == len(self._scratch):  # only ever moves less than a header
            left = self._end - self._start
            self._scratch[:left] = bytes(self._scratch[self._start : self._end])
            self._start, self._end = 0, left
        return self._scratch[self._end :]

    @property
    def is_midway(self) -> bool:
        """True if a part of a message came and the rest did not yet."""
        return self._header is not None

    def advance(self, count: int, descriptors: Sequence[int] = ()) -> Iterator[Message]:
        """``count`` bytes were received into :meth:`buffer`, with these file descriptors; yields
        the messages that are complete now. ProtocolError for bytes that are not protocol 1."""
        self._descriptors.extend(descriptors)
        if self._header is not None and self._start == self._end:
            self._filled += count
        else:
            self._end += count
        while True:
            if self._header is None:
                if self._end - self._start < HEADER.size:
                    return
                self._begin(HEADER.unpack_from(self._scratch, self._start))
                self._start += HEADER.size
            take = min(len(self._data) - self._filled, self._end - self._start)
            if take:
                source = np.frombuffer(self._scratch, np.uint8, take, self._start)
                self._data[self._filled : self._filled + take] = source
                self._filled += take
                self._start += take
            if self._filled < len(self._data):
                return
            yield self._finish()

    def _begin(self, header: tuple[int, ...]) -> None:
        magic, verb, kind, _, _, body_bytes, descriptors, reserved, payload_bytes = header
        for broken, what in (
            (magic != MAGIC, "wrong magic"),
            (not Verb.HELLO <= verb <= Verb.EVENT, "unknown verb"),
            (kind not in (MessageKind.REPLY, MessageKind.EVENT), "neither reply nor event"),
            (reserved != 0, "a reserved field is not 0"),
            (body_bytes > BODY_BYTES_MAX, "body too long"),
            (payload_bytes > PAYLOAD_BYTES_MAX, "payload too long"),
            (descriptors > DESCRIPTORS_PER_MESSAGE_MAX, "too many file descriptors"),
        ):
            if broken:
                raise ProtocolError(f"the daemon sent a header that is not protocol 1: {what}")
        self._header = header
        self._data = np.empty(body_bytes + payload_bytes, dtype=np.uint8)
        self._filled = 0

    def _finish(self) -> Message:
        assert self._header is not None
        _, verb, kind, status, request_id, body_bytes, descriptors, _, _ = self._header
        self._header = None
        name = Verb(verb).name
        try:
            fields = msgpack.unpackb(self._data[:body_bytes], raw=False) if body_bytes else {}
        except (ValueError, msgpack.UnpackException) as error:
            raise ProtocolError(f"{name}: the body is not MessagePack: {error}") from error
        if not isinstance(fields, dict):
            raise ProtocolError(f"{name}: the body is not a map")
        if descriptors > len(self._descriptors):
            raise ProtocolError(f"{name}: file descriptors are missing")
        return Message(
            verb=Verb(verb),
            kind=MessageKind(kind),
            status=status,
            request_id=request_id,
            body=Body(fields, name),
            payload=self._data[body_bytes:],
            descriptors=[self._descriptors.popleft() for _ in range(descriptors)],
        )

    def close(self) -> None:
        """Closes descriptors that no message took."""
        while self._descriptors:
            os.close(self._descriptors.popleft())
