"""A scripted peer: speaks the daemon's side of protocol 1 over a Unix socket, within the test.

It keeps blocks in one memfd chunk as doc/shared-memory.md says, and obeys scripts that a healthy
daemon would not: silence, torn replies, broken headers, slots that change under a reader. What the
client does with the real daemon is tested in test_daemon.py.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import mmap
import os
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np

from kvstrata import keys
from kvstrata.checksum import xxh3_64
from kvstrata.model import ModelDescriptor, NamespaceSpec
from kvstrata.protocol import HEADER, MAGIC, MessageKind, Verb

PAGE = 4096


class Request:
    """A request as the peer received it."""

    def __init__(self, verb: Verb, request_id: int, body: dict[str, Any], payload: bytes) -> None:
        self.verb, self.id, self.body, self.payload = verb, request_id, body, payload


class Refuse(Exception):
    """Raised by a handler: answers with this error kind."""

    def __init__(self, kind: int, message: str = "refused by the script") -> None:
        super().__init__(message)
        self.kind = kind


class Silence(Exception):
    """Raised by a handler: no answer, the connection stays."""


class HangUp(Exception):
    """Raised by a handler: no answer, the connection ends."""


def message(
    verb: int, kind: int, status: int, request_id: int, body: dict, payload: bytes, fds: int = 0
) -> bytes:
    packed = msgpack.packb(body)
    head = HEADER.pack(MAGIC, verb, kind, status, request_id, len(packed), fds, 0, len(payload))
    return head + packed + payload


class PeerChunk:
    """A memfd with slots, laid out and sealed like the daemon's."""

    def __init__(self, chunk_id: int, slot_bytes: int, slots: int, staging: bool = False) -> None:
        self.id, self.slot_bytes, self.slots = chunk_id, slot_bytes, slots
        self.data_offset = (64 + 8 * slots + PAGE - 1) // PAGE * PAGE
        self.file_bytes = self.data_offset + slots * slot_bytes
        self.kind = 2 if staging else 1
        self.fd = os.memfd_create("kvstrata-test", os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.file_bytes)
        self.map = mmap.mmap(self.fd, self.file_bytes)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        struct.pack_into(
            "<8sIIQQIIQ", self.map, 0, b"KVSCHUNK", 1, 0, chunk_id, slot_bytes, slots, 0,
            self.data_offset,
        )  # fmt: skip
        for slot in range(slots):
            self.set_generation(slot, 1)

    def set_generation(self, slot: int, generation: int) -> None:
        struct.pack_into("<Q", self.map, 64 + 8 * slot, generation)

    def generation(self, slot: int) -> int:
        return struct.unpack_from("<Q", self.map, 64 + 8 * slot)[0]

    def offset(self, slot: int) -> int:
        return self.data_offset + slot * self.slot_bytes


class PeerConnection:
    """The peer's end of one connection."""

    def __init__(self, peer: Peer, sock: socket.socket) -> None:
        self.peer, self.sock = peer, sock
        self.sent_chunks: set[int] = set()
        self.lock = threading.Lock()

    def send(self, data: bytes, fds: list[int] | None = None) -> None:
        with self.lock:
            ancillary = []
            if fds:
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
            sent = self.sock.sendmsg([data], ancillary)
            self.sock.sendall(data[sent:])

    def reply(
        self, request: Request, body: dict, payload: bytes = b"", chunks: list[PeerChunk] = ()
    ) -> None:
        new = [chunk for chunk in chunks if chunk.id not in self.sent_chunks]
        self.sent_chunks |= {chunk.id for chunk in new}
        if new:
            body = body | {"chunks": [[c.id, c.kind, c.file_bytes] for c in new]}
        fds = [chunk.fd for chunk in new]
        self.send(
            message(request.verb, MessageKind.REPLY, 0, request.id, body, payload, len(fds)), fds
        )

    def event(self, body: dict, payload: bytes = b"") -> None:
        self.send(message(Verb.EVENT, MessageKind.EVENT, 0, 0, body, payload))

    def run(self) -> None:
        try:
            while True:
                head = self._exactly(HEADER.size)
                magic, verb, kind, _, request_id, body, _, _, payload = HEADER.unpack(head)
                assert magic == MAGIC
                assert kind == MessageKind.REQUEST
                fields = msgpack.unpackb(self._exactly(body)) if body else {}
                self.handle(Request(Verb(verb), request_id, fields, self._exactly(payload)))
        except (OSError, HangUp, EOFError):
            pass
        finally:
            self.sock.close()
            self.peer.connections.discard(self)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.sock.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def handle(self, request: Request) -> None:
        peer = self.peer
        peer.seen.append(request)
        handler = peer.scripts.get(request.verb) or getattr(peer, request.verb.name.lower(), None)
        try:
            if handler is None:
                raise Refuse(11, f"the test's peer does not know {request.verb.name}")
            handler(self, request)
        except Refuse as refusal:
            body = {"kind": "refused", "message": str(refusal)}
            self.send(message(request.verb, MessageKind.REPLY, refusal.kind, request.id, body, b""))
        except Silence:
            pass


class Peer:
    """Listens at ``path`` until stop(). ``scripts`` maps a verb to a handler that replaces the
    built-in one; ``seen`` lists all requests."""

    def __init__(self, path: str, slot_bytes: int = 8192, slots: int = 64) -> None:
        self.path = path
        self.slot_bytes, self.slots = slot_bytes, slots
        self.scripts: dict[Verb, Callable[[PeerConnection, Request], None]] = {}
        self.seen: list[Request] = []
        self.connections: set[PeerConnection] = set()
        self.epoch = 0
        self.start()

    def start(self) -> None:
        """(Re)starts empty, like a daemon that lost what it had."""
        self.chunk = PeerChunk(1, self.slot_bytes, self.slots)
        self.staging = PeerChunk(2, self.slot_bytes, self.slots, staging=True)
        self.blocks: dict[bytes, int] = {}  # digest -> slot
        self.sizes: dict[bytes, int] = {}
        self.leases: dict[int, list[bytes]] = {}
        self.namespaces: list[NamespaceSpec] = []
        self.next_lease, self.next_slot, self.next_staging = 100, 0, 0
        self.boot = os.urandom(16)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self._accept, args=[self.listener], daemon=True).start()

    def stop(self) -> None:
        """Like kill -9: connections end, the socket file stays or goes with the test."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)
        for connection in list(self.connections):
            with contextlib.suppress(OSError):  # it may have ended by itself
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            connection = PeerConnection(self, sock)
            self.connections.add(connection)
            threading.Thread(target=connection.run, daemon=True).start()

    def only_connection(self) -> PeerConnection:
        (connection,) = self.connections
        return connection

    def count(self, verb: Verb) -> int:
        return sum(request.verb == verb for request in self.seen)

    # ---- the built-in answers

    def hello(self, to: PeerConnection, request: Request) -> None:
        to.reply(request, {
            "protocol": 1, "server": "peer/1", "tenant": "default", "admin": True,
            "store": "00" * 16, "boot": self.boot, "lease_ms": 10_000, "limits": {},
        })  # fmt: skip

    def register(self, to: PeerConnection, request: Request) -> None:
        body, wire = request.body, request.body["model"]
        model = ModelDescriptor.from_wire(wire)
        groups = model.groups
        spec = NamespaceSpec(
            model, "default", body.get("salt", b""), body.get("adapter", b""),
            body.get("extra_keys", []), self.epoch,
        )  # fmt: skip
        if spec not in self.namespaces:
            self.namespaces.append(spec)
        to.reply(request, {
            "ns": self.namespaces.index(spec), "hash": keys.namespace_hash(spec),
            "epoch": self.epoch,
            "block_bytes": [model.block_bytes(group) for group in range(len(groups))],
        })  # fmt: skip

    def _digests(self, body: dict, payload: bytes, parent: bytes | None = None) -> list[bytes]:
        spec = self.namespaces[body["ns"]]
        start = keys.namespace_hash(spec)
        if body["by"] == "hash":
            return [payload[at : at + 32] for at in range(0, len(payload), 32)]
        if body["by"] == "tokens":
            ids = struct.unpack(f"<{body['count']}I", payload[: 4 * body["count"]])
            extras = dict(body.get("extras", []))
            return keys.prefix_hashes(parent or start, ids, spec.model.block_tokens, extras)
        digests, at = [], 0
        for _ in range(body["count"]):
            size = int.from_bytes(payload[at : at + 2], "little")
            digests.append(keys.opaque_hash(start, payload[at + 2 : at + 2 + size]))
            at += 2 + size
        return digests

    def _found(self, digests: list[bytes]) -> list[bytes]:
        found = []
        for digest in digests:
            if digest not in self.blocks:
                break
            found.append(digest)
        return found

    def _lease(self, found: list[bytes]) -> dict:
        if not found:
            return {"lease": 0, "secret": b"", "expires_in_ms": 0, "tiers": b""}
        self.next_lease += 1
        self.leases[self.next_lease] = found
        tiers = bytes([1] * len(found))
        return {
            "lease": self.next_lease, "secret": b"s" * 16, "expires_in_ms": 10_000, "tiers": tiers
        }  # fmt: skip

    def lookup(self, to: PeerConnection, request: Request) -> None:
        found = self._found(self._digests(request.body, request.payload))
        to.reply(request, {"blocks": len(found)} | self._lease(found))

    def exists(self, to: PeerConnection, request: Request) -> None:
        digests = self._digests(request.body, request.payload)
        present = bytes(digest in self.blocks for digest in digests)
        to.reply(request, {"blocks": len(self._found(digests)), "present": present})

    def _loaded(self, digests: list[bytes], inline: bool) -> tuple[dict, bytes]:
        status, refs, payload = bytearray(), b"", b""
        for digest in digests:
            slot = self.blocks.get(digest)
            if slot is None:
                status.append(2)
                refs += bytes(40)
                continue
            at, size = self.chunk.offset(slot), self.sizes[digest]
            data = bytes(self.chunk.map[at : at + size])
            status.append(0)
            refs += struct.pack(
                "<QQQQQ", 0 if inline else 1, at, size, self.chunk.generation(slot),
                xxh3_64(np.frombuffer(data, np.uint8)),
            )  # fmt: skip
            payload += data
        return {"status": bytes(status), "refs": refs}, payload if inline else b""

    def load(self, to: PeerConnection, request: Request) -> None:
        body = request.body
        if body["lease"] not in self.leases:
            raise Refuse(14, "this lease has ended")
        digests = self.leases[body["lease"]][body["first"] : body["first"] + body["count"]]
        fields, payload = self._loaded(digests, body["inline"])
        to.reply(request, fields, payload, [] if body["inline"] else [self.chunk])

    def get(self, to: PeerConnection, request: Request) -> None:
        digests = self._digests(request.body, request.payload)
        found = self._found(digests)
        wanted = found if request.body["prefix"] else digests
        held = [digest for digest in wanted if digest in self.blocks]
        fields, payload = self._loaded(wanted, request.body["inline"])
        fields |= {"blocks": len(found)} | self._lease(held)
        to.reply(request, fields, payload, [] if request.body["inline"] else [self.chunk])

    def release(self, to: PeerConnection, request: Request) -> None:
        held = [lease for lease in request.body["leases"] if self.leases.pop(lease, None)]
        missing = len(request.body["leases"]) - len(held)
        to.reply(request, {"released": len(held), "not_held": missing})

    def renew(self, to: PeerConnection, request: Request) -> None:
        to.reply(request, {"expires_in_ms": request.body.get("lease_ms", 10_000)})

    def lease_attach(self, to: PeerConnection, request: Request) -> None:
        found = self.leases.get(request.body["lease"])
        if found is None or request.body["secret"] != b"s" * 16:
            raise Refuse(2, "no such lease")
        tiers = bytes([1] * len(found))
        to.reply(request, {"blocks": len(found), "tiers": tiers, "expires_in_ms": 5000})

    def reserve(self, to: PeerConnection, request: Request) -> None:
        slots = b""
        for _ in range(request.body["slots"]):
            at = self.staging.offset(self.next_staging % self.slots)
            slots += struct.pack("<QQQQ", 1000 + self.next_staging, 2, at, self.slot_bytes)
            self.next_staging += 1
        to.reply(request, {"slots": slots, "expires_in_ms": 30_000}, b"", [self.staging])

    def _store(self, digest: bytes, data: bytes) -> int:
        if digest in self.blocks:
            at = self.chunk.offset(self.blocks[digest])
            return 3 if self.chunk.map[at : at + len(data)] == data else 4
        slot, self.next_slot = self.next_slot, self.next_slot + 1
        at = self.chunk.offset(slot)
        self.chunk.map[at : at + len(data)] = data
        self.chunk.set_generation(slot, 2)
        self.blocks[digest], self.sizes[digest] = slot, len(data)
        return 0

    def _stored(self, to: PeerConnection, request: Request, values: list[bytes]) -> None:
        body = request.body
        digests = self._digests(body, request.payload, body.get("parent"))
        statuses = bytes(self._store(*pair) for pair in zip(digests, values, strict=True))
        to.reply(request, {"seq": self.next_slot, "status": statuses, "hashes": b"".join(digests)})

    def commit(self, to: PeerConnection, request: Request) -> None:
        spec = self.namespaces[request.body["ns"]]
        values = []
        for index, slot in enumerate(request.body["slots"]):
            at = self.staging.offset((slot - 1000) % self.slots)
            if spec.model.groups:
                size = spec.model.block_bytes(request.body["group"])
            else:
                size = request.body["lengths"][index]
            values.append(bytes(self.staging.map[at : at + size]))
        self._stored(to, request, values)

    def put(self, to: PeerConnection, request: Request) -> None:
        lengths = request.body["lengths"]
        at = len(request.payload) - sum(lengths)
        values = []
        for size in lengths:
            values.append(request.payload[at : at + size])
            at += size
        self._stored(to, request, values)

    def abort(self, to: PeerConnection, request: Request) -> None:
        to.reply(request, {"aborted": len(request.body["slots"])})

    def flush(self, to: PeerConnection, request: Request) -> None:
        to.reply(request, {"seq": request.body.get("seq", self.next_slot)})

    def cancel(self, to: PeerConnection, request: Request) -> None:
        to.reply(request, {"cancelled": False})

    def chunk_unmapped(self, to: PeerConnection, request: Request) -> None:
        to.reply(request, {})

    def stats(self, to: PeerConnection, request: Request) -> None:
        to.reply(request, {"store": {"blocks": len(self.blocks)}})

    def watch(self, to: PeerConnection, request: Request) -> None:
        to.reply(request, {})
