"""Flows that find and read blocks."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from kvstrata.checksum import xxh3_64
from kvstrata.errors import (
    Corrupt,
    Error,
    InvalidArgument,
    LeaseExpired,
    ProtocolError,
    TooLarge,
    error_of,
)
from kvstrata.namespaces import NamespaceState, Selection
from kvstrata.protocol import BLOCKS_PER_REQUEST_MAX, Body, Request, Verb
from kvstrata.results import Present, statuses_of
from kvstrata.session import Flow, Reply, Session
from kvstrata.shared_memory import SlotGuard
from kvstrata.views import Blocks, BlockView, LeaseHandle, LeaseState

BLOCK_REF = struct.Struct("<QQQQQ")  # chunk, offset, bytes, generation, xxh3
INLINE_REPLY_BYTES = 256 << 20
"""Blocks of one inline reply are asked for up to this size, then the next ones."""


def lookup(
    session: Session, ns: NamespaceState, selection: Selection, group: int, lease_ms: int | None
) -> Flow[LeaseState]:
    """LOOKUP: the longest stored prefix, under a lease."""
    fields = yield from _selection_fields(session, ns, selection, group, lease_ms)
    reply = yield Request(Verb.LOOKUP, fields, [selection.payload])
    return _granted(session, ns, selection, reply.body, reply.body.number("blocks"))


def _selection_fields(
    session: Session, ns: NamespaceState, selection: Selection, group: int, lease_ms: int | None
) -> Flow[dict[str, Any]]:
    ns_id = yield from ns.ensure(session)
    fields = {"ns": ns_id, "group": group, **selection.fields()}
    if lease_ms is not None:
        fields["lease_ms"] = lease_ms
    return fields


def _granted(
    session: Session, ns: NamespaceState, selection: Selection, body: Body, blocks: int
) -> LeaseState:
    if blocks > selection.blocks:
        raise ProtocolError(f"{body.what}: {blocks} blocks found of {selection.blocks} asked for")
    return LeaseState(
        session,
        LeaseHandle(body.number("lease", 0), body.binary("secret", b"")),
        blocks,
        body.binary("tiers", b""),
        body.number("expires_in_ms", 0),
        selection.tokens,
        ns.block_tokens,
    )


def group_lookup(
    session: Session,
    parts: Sequence[tuple[NamespaceState, Selection, int]],
    lease_ms: int | None,
) -> Flow[list[LeaseState]]:
    """GROUP_LOOKUP: one length for several shards, each under a lease of its own."""
    shards = []
    for ns, selection, group in parts:
        shards.append((yield from _selection_fields(session, ns, selection, group, None)))
    fields: dict[str, Any] = {"shards": shards}
    if lease_ms is not None:
        fields["lease_ms"] = lease_ms
    payload = [selection.payload for _, selection, _ in parts]
    body = (yield Request(Verb.GROUP_LOOKUP, fields, payload)).body
    blocks, leases = body.number("blocks"), body.array("leases")
    if len(leases) != len(parts):
        raise ProtocolError(f"GROUP_LOOKUP: {len(leases)} leases for {len(parts)} shards")
    granted = []
    for (ns, selection, _), lease in zip(parts, leases, strict=True):
        shard = Body({"expires_in_ms": body.number("expires_in_ms", 0), **lease}, body.what)
        granted.append(_granted(session, ns, selection, shard, blocks))
    return granted


def exists(session: Session, ns: NamespaceState, selection: Selection, group: int) -> Flow[Present]:
    """EXISTS: what is stored, without a lease: it may be gone a moment later."""
    fields = yield from _selection_fields(session, ns, selection, group, None)
    body = (yield Request(Verb.EXISTS, fields, [selection.payload])).body
    each = tuple(flag == 1 for flag in body.binary("present", b""))
    return Present(body.number("blocks"), each)


def load(session: Session, lease: LeaseState, first: int, count: int | None) -> Flow[Blocks]:
    """LOAD: blocks [first, first + count) of a lease (None: all that follow)."""
    count = lease.blocks - first if count is None else count
    if first < 0 or count < 0 or first + count > lease.blocks:
        raise InvalidArgument(
            f"blocks {first} to {first + count} are not all among the lease's {lease.blocks}"
        )
    lease.check()
    if lease.session is not session:
        raise LeaseExpired("the lease ended with its connection to the daemon")
    views: list[BlockView] = []
    step = BLOCKS_PER_REQUEST_MAX
    while len(views) < count:
        begin, wanted = first + len(views), min(step, count - len(views))
        try:
            views += yield from _load_step(session, lease, begin, wanted)
        except TooLarge:
            if wanted == 1:
                raise
            step = max(1, wanted // 2)
    return Blocks(views, lease if session.shared_memory else None)


def _load_step(
    session: Session, lease: LeaseState, first: int, count: int
) -> Flow[list[BlockView]]:
    inline = not session.shared_memory
    fields = {"lease": lease.handle.id, "first": first, "count": count, "inline": inline}
    payload = []
    if lease.expected_tokens is not None:
        size = lease.block_tokens
        payload = [lease.expected_tokens[first * size : (first + count) * size].tobytes()]
    reply = yield Request(Verb.LOAD, fields, payload)
    if not inline and not session.shared_memory:  # a chunk that came just now can't be mapped
        return (yield from _load_step(session, lease, first, count))
    tiers = lease.tiers[first : first + count]
    views = _views(session, reply, None if inline else lease, tiers)
    if len(views) != count:
        raise ProtocolError(f"LOAD: {len(views)} blocks came, {count} were asked for")
    return views


def get(
    session: Session,
    ns: NamespaceState,
    selection: Selection,
    group: int,
    prefix: bool,
    lease_ms: int | None,
) -> Flow[Blocks]:
    """GET: LOOKUP and LOAD in one round trip. With ``prefix`` the blocks up to the first miss,
    else each block for itself, missing ones with NotFound as their error."""
    inline = not session.shared_memory
    fields = yield from _selection_fields(session, ns, selection, group, lease_ms)
    if inline and prefix and ns.spec.model.groups:
        size = ns.block_bytes(group)
        if selection.blocks * size > INLINE_REPLY_BYTES:
            return (yield from _get_in_steps(session, ns, selection, group, lease_ms))
    if inline:
        fields.pop("lease_ms", None)  # the bytes come with the reply: nothing needs to be held
    fields |= {"inline": inline, "prefix": prefix}
    reply = yield Request(Verb.GET, fields, [selection.payload])
    blocks = reply.body.number("blocks") if prefix else selection.blocks
    lease = _granted(session, ns, selection, reply.body, blocks)
    if not inline and not session.shared_memory:
        return (yield from get(session, ns, selection, group, prefix, lease_ms))
    views = _views(session, reply, None if inline else lease, lease.tiers)
    return Blocks(views, None if inline else lease)


def _get_in_steps(
    session: Session, ns: NamespaceState, selection: Selection, group: int, lease_ms: int | None
) -> Flow[Blocks]:
    lease = yield from lookup(session, ns, selection, group, lease_ms)
    step = max(1, INLINE_REPLY_BYTES // ns.block_bytes(group))
    views: list[BlockView] = []
    for first in range(0, lease.blocks, step):
        wanted = min(step, lease.blocks - first)
        views += yield from _load_step(session, lease, first, wanted)
    return Blocks(views, None)


def _views(
    session: Session, reply: Reply, lease: LeaseState | None, tiers: bytes
) -> list[BlockView]:
    """The blocks of a reply: with a lease in shared memory, without one in the payload."""
    body = reply.body
    refs = body.binary("refs", b"")
    statuses = statuses_of(body, len(body.binary("status", b"")))
    if len(refs) != BLOCK_REF.size * len(statuses):
        raise ProtocolError(f"{body.what}: {len(refs)} bytes of refs for {len(statuses)} blocks")
    views = []
    at = 0
    for index, status in enumerate(statuses):
        tier = tiers[index] if index < len(tiers) else 0
        if status is not None:
            error = error_of(status, f"block {index} can't be read: {status.name.lower()}")
            views.append(BlockView(None, None, lease, error, tier, 0))
            continue
        chunk_id, offset, size, generation, xxh3 = BLOCK_REF.unpack_from(refs, 40 * index)
        if lease is None:
            data = reply.payload[at : at + size]
            at += size
            views.append(_inline_view(data, size, xxh3, tier, index, body.what))
            continue
        chunk = session.chunks.find(chunk_id)
        guard = SlotGuard(chunk, chunk.slot_of(offset, size), generation)
        views.append(BlockView(chunk.array(offset, size), guard, lease, None, tier, xxh3))
    if lease is None and at != len(reply.payload):
        raise ProtocolError(f"{body.what}: {len(reply.payload)} bytes came, the refs name {at}")
    return views


def _inline_view(data: Any, size: int, xxh3: int, tier: int, index: int, verb: str) -> BlockView:
    if len(data) != size:
        raise ProtocolError(f"{verb}: the payload ends inside block {index}")
    error: Error | None = None
    if xxh3_64(data) != xxh3:
        error = Corrupt(f"block {index} was changed on its way from the daemon")
    data.flags.writeable = False
    return BlockView(data if error is None else None, None, None, error, tier, xxh3)


def renew(session: Session, lease: LeaseState, lease_ms: int | None) -> Flow[None]:
    """RENEW: the deadline is ``lease_ms`` from now."""
    lease.check()
    fields: dict[str, Any] = {"lease": lease.handle.id}
    if lease_ms is not None:
        fields["lease_ms"] = lease_ms
    reply = yield Request(Verb.RENEW, fields)
    lease.renewed(reply.body.number("expires_in_ms"))


def attach(session: Session, handle: LeaseHandle) -> Flow[LeaseState]:
    """LEASE_ATTACH: this connection becomes an owner of the lease too."""
    fields = {"lease": handle.id, "secret": handle.secret}
    body = (yield Request(Verb.LEASE_ATTACH, fields)).body
    return LeaseState(
        session, handle, body.number("blocks"), body.binary("tiers", b""),
        body.number("expires_in_ms", 0), None, 0,
    )  # fmt: skip
