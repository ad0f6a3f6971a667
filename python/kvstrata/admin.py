"""Flows that look after what is stored: pins, times to live, removal, statistics, listings."""

from __future__ import annotations

from typing import Any, Literal

from kvstrata.errors import InvalidArgument
from kvstrata.namespaces import NamespaceState, Selection
from kvstrata.protocol import Request, Verb
from kvstrata.results import Changed, Explanation, Page, Removal, Verified
from kvstrata.session import Flow, Session

Scope = Literal["tenant", "model", "namespace", "prefix"]
TierChoice = Literal["all", "host"]


def _fields(
    session: Session, ns: NamespaceState, selection: Selection, group: int
) -> Flow[dict[str, Any]]:
    ns_id = yield from ns.ensure(session)
    return {"ns": ns_id, "group": group, **selection.fields()}


def pin(
    session: Session, ns: NamespaceState, selection: Selection, group: int, pinned: bool
) -> Flow[Changed]:
    """PIN: pinned blocks stay until they are unpinned."""
    fields = yield from _fields(session, ns, selection, group)
    reply = yield Request(Verb.PIN, fields | {"pinned": pinned}, [selection.payload])
    return Changed.of(reply.body)


def set_ttl(
    session: Session, ns: NamespaceState, selection: Selection, group: int, ttl_ms: int
) -> Flow[Changed]:
    """TTL: blocks end ``ttl_ms`` from now; 0: never."""
    fields = yield from _fields(session, ns, selection, group)
    reply = yield Request(Verb.TTL, fields | {"ttl_ms": ttl_ms}, [selection.payload])
    return Changed.of(reply.body)


def delete(
    session: Session, ns: NamespaceState, selection: Selection, group: int, descendants: bool
) -> Flow[Removal]:
    """DELETE: the named blocks and, with ``descendants``, all that continue them."""
    fields = yield from _fields(session, ns, selection, group)
    reply = yield Request(Verb.DELETE, fields | {"descendants": descendants}, [selection.payload])
    return Removal.of(reply.body)


def explain(
    session: Session, ns: NamespaceState, selection: Selection, group: int
) -> Flow[Explanation]:
    """EXPLAIN: why a look-up of this finds no more than it does."""
    fields = yield from _fields(session, ns, selection, group)
    reply = yield Request(Verb.EXPLAIN, fields, [selection.payload])
    return Explanation.of(reply.body)


def inspect(
    session: Session, ns: NamespaceState, selection: Selection, group: int
) -> Flow[dict[str, Any]]:
    """INSPECT: all that is known of one block."""
    if selection.blocks != 1:
        raise InvalidArgument(f"one block is inspected at a time, not {selection.blocks}")
    fields = yield from _fields(session, ns, selection, group)
    reply = yield Request(Verb.INSPECT, fields, [selection.payload])
    return dict(reply.body.map)


def clear(
    session: Session,
    scope: Scope,
    tier: TierChoice,
    pinned: bool,
    fingerprint: str = "",
    ns: NamespaceState | None = None,
    selection: Selection | None = None,
    group: int = 0,
) -> Flow[Removal]:
    """CLEAR: everything of a scope, in all tiers or the host tier alone."""
    fields: dict[str, Any] = {"scope": scope, "tier": tier, "pinned": pinned}
    payload = []
    if scope == "model":
        fields["fingerprint"] = fingerprint
    if ns is not None:
        fields["ns"] = yield from ns.ensure(session)
    if selection is not None:
        fields |= {"group": group, **selection.fields()}
        payload = [selection.payload]
    reply = yield Request(Verb.CLEAR, fields, payload)
    return Removal.of(reply.body)


def evict(session: Session, size: int | None, blocks: int | None) -> Flow[Removal]:
    """EVICT: so much from the tenant's host tier."""
    if (size is None) == (blocks is None):
        raise InvalidArgument("evict exactly one of so many bytes and so many blocks")
    fields = {"bytes": size} if size is not None else {"blocks": blocks}
    reply = yield Request(Verb.EVICT, fields)
    return Removal.of(reply.body)


def bump_weight_epoch(session: Session, fingerprint: str) -> Flow[int]:
    """EPOCH_BUMP: all blocks of these weights are misses from now on."""
    reply = yield Request(Verb.EPOCH_BUMP, {"fingerprint": fingerprint})
    return int(reply.body.number("epoch"))


def stats(session: Session) -> Flow[dict[str, Any]]:
    """STATS: counters and gauges, nested (doc/metrics.md)."""
    reply = yield Request(Verb.STATS)
    return dict(reply.body.map)


def list_namespaces(session: Session) -> Flow[list[dict[str, Any]]]:
    """LIST without a namespace."""
    reply = yield Request(Verb.LIST)
    return list(reply.body.array("namespaces"))


def list_blocks(
    session: Session, ns: NamespaceState, after: bytes | None, limit: int
) -> Flow[Page]:
    """LIST of one namespace's blocks, a page at a time."""
    fields: dict[str, Any] = {"ns": (yield from ns.ensure(session)), "limit": limit}
    if after is not None:
        fields["after"] = after
    body = (yield Request(Verb.LIST, fields)).body
    return Page(list(body.array("blocks")), body.binary("next", b"") or None)


def verify(session: Session, ns: NamespaceState, after: bytes | None, limit: int) -> Flow[Verified]:
    """VERIFY: reads and checks blocks, a page at a time."""
    fields: dict[str, Any] = {"ns": (yield from ns.ensure(session)), "limit": limit}
    if after is not None:
        fields["after"] = after
    return Verified.of((yield Request(Verb.VERIFY, fields)).body)


def watch(session: Session) -> Flow[None]:
    """WATCH: this connection is told of what is stored and removed."""
    yield Request(Verb.WATCH)
