"""Flows that store blocks. They go through a staging chunk where there is shared memory and much
to copy, else inside the message."""

from __future__ import annotations

import dataclasses
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvstrata import keys
from kvstrata.errors import (
    Busy,
    ConnectionLost,
    Error,
    ErrorKind,
    InvalidArgument,
    ProtocolError,
    TooLarge,
    Unavailable,
)
from kvstrata.keys import Extras, TokenIds
from kvstrata.namespaces import NamespaceState, check_extras, wire_extras, wire_keys
from kvstrata.protocol import Body, Buffer, Bytes, Request, Verb
from kvstrata.results import PutResult, hashes_of, statuses_of
from kvstrata.session import Flow, Pause, Session, Work

BlockSource = Buffer | npt.NDArray[Any] | Callable[[Bytes], None]
"""Where a block's bytes come from: a contiguous buffer or array of exactly the block's size, or a
function that writes them into the uint8 array it is given."""

STAGING_REF = struct.Struct("<QQQQ")  # slot, chunk, offset, bytes
BATCH_BYTES = 32 << 20
"""Blocks are put in batches of about this size, so that staging memory stays small."""
INLINE_PUT_BYTES = 128 << 10
"""Up to here one round trip is cheaper than a copy less."""
_PAUSE_S, _PAUSE_S_MAX = 0.005, 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class PutOptions:
    """How blocks are kept: ``durable`` returns only when they are on disk."""

    durable: bool = False
    ttl_ms: int | None = None
    pinned: bool = False

    def fields(self) -> dict[str, Any]:
        """The body fields of COMMIT and PUT."""
        fields: dict[str, Any] = {"durable": self.durable}
        if self.ttl_ms is not None:
            fields["ttl_ms"] = self.ttl_ms
        if self.pinned:
            fields["pinned"] = True
        return fields


@dataclasses.dataclass(slots=True)
class NewBlocks:
    """Names of blocks to store, in order: ``names(first, count)`` gives the body fields and the
    payload for some of them, given the digest of the block before."""

    ns: NamespaceState
    group: int
    sizes: list[int]
    names: Callable[[int, int], tuple[dict[str, Any], bytes]]


def new_token_blocks(
    ns: NamespaceState,
    tokens: TokenIds,
    blocks: int,
    first_block: int,
    group: int,
    extras: Extras | None,
) -> NewBlocks:
    """Blocks [first_block, first_block + blocks) of the sequence ``tokens``, which is given from
    its start. InvalidArgument if the tokens do not fill them."""
    ids = keys.token_array(tokens, ns.spec.model.vocab_size)
    size = ns.block_tokens
    full = len(ids) // size
    if first_block < 0 or first_block + blocks > full:
        raise InvalidArgument(
            f"blocks {first_block} to {first_block + blocks} of a sequence that fills {full}"
        )
    extras = extras or {}
    check_extras(extras)
    hashes = keys.prefix_hashes(ns.hash, ids[: (first_block + blocks) * size], size, extras)

    def names(first: int, count: int) -> tuple[dict[str, Any], bytes]:
        begin, end = first_block + first, first_block + first + count
        part = ids[begin * size : end * size]
        fields: dict[str, Any] = {"by": "tokens", "count": len(part)}
        if begin:
            fields["parent"] = hashes[begin - 1]
        own = {block - begin: extras[block] for block in extras if begin <= block < end}
        if own:
            fields["extras"] = wire_extras(own)
        return fields, part.tobytes()

    return NewBlocks(ns, group, [ns.block_bytes(group)] * blocks, names)


def new_values(ns: NamespaceState, opaque_keys: Sequence[bytes], sizes: list[int]) -> NewBlocks:
    """Values under keys of the client's own."""
    if ns.spec.model.groups:
        raise InvalidArgument("opaque keys need a namespace without layer groups")
    if len(opaque_keys) != len(sizes):
        raise InvalidArgument(f"{len(opaque_keys)} keys for {len(sizes)} values")

    def names(first: int, count: int) -> tuple[dict[str, Any], bytes]:
        part = opaque_keys[first : first + count]
        lengths = sizes[first : first + count]
        return {"by": "key", "count": len(part), "lengths": lengths}, wire_keys(part)

    return NewBlocks(ns, 0, sizes, names)


def put(
    session: Session,
    blocks: NewBlocks,
    sources: Sequence[BlockSource],
    options: PutOptions,
    busy_wait_s: float,
) -> Flow[PutResult]:
    """Stores all blocks, batch by batch; see Namespace.put for what it promises."""
    statuses: list[ErrorKind | None] = []
    hashes: list[bytes] = []
    sequence = sent = 0
    patience = _Patience(busy_wait_s)
    at_most = len(sources)  # blocks of one batch; less once the daemon found one too large
    while len(statuses) < len(sources):
        first = len(statuses)
        count = min(at_most, _batch(blocks.sizes, first))
        try:
            body = yield from _put_batch(session, blocks, sources, first, count, options)
        except ConnectionLost:
            raise
        except Error as error:
            if isinstance(error, Busy) and (pause := patience.next_pause()):
                yield pause
                continue
            if isinstance(error, TooLarge) and count > 1:
                at_most = count // 2
                continue
            if first == 0:
                raise
            missing = len(sources) - first
            statuses += [error.kind] * missing
            hashes += [b""] * missing
            return PutResult(tuple(statuses), tuple(hashes), sequence, sent, error)
        count = len(body.binary("status"))
        told = statuses_of(body, count)
        if ErrorKind.BUSY in told:
            # What comes behind the first such block is asked again with it.
            done = told.index(ErrorKind.BUSY)
            if done > 0:
                patience.renew()
            if pause := patience.next_pause():
                count = done
                yield pause
        else:
            patience.renew()
        statuses += told[:count]
        hashes += hashes_of(body.binary("hashes", b""))[:count]
        sequence = max(sequence, body.number("seq", 0))
        sent += sum(blocks.sizes[first : first + count])
    return PutResult(tuple(statuses), tuple(hashes), sequence, sent)


def _batch(sizes: Sequence[int], first: int) -> int:
    """How many blocks from ``first`` on go together: about BATCH_BYTES of them, and where they go
    through staging memory only blocks of one size, since slots of one request have one size."""
    total = count = 0
    for size in sizes[first:]:
        total += size
        other_size = size != sizes[first] and max(size, sizes[first]) > INLINE_PUT_BYTES
        if count and (total > BATCH_BYTES or other_size):
            break
        count += 1
    return count


class _Patience:
    """How long a busy daemon is asked again: ``busy_wait_s`` from its last sign of progress."""

    def __init__(self, busy_wait_s: float) -> None:
        self._busy_wait_s = busy_wait_s
        self.renew()

    def renew(self) -> None:
        self._pause_s = _PAUSE_S
        self._give_up = time.monotonic() + self._busy_wait_s

    def next_pause(self) -> Pause | None:
        """None: it is over."""
        if time.monotonic() + self._pause_s > self._give_up:
            return None
        pause = Pause(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _PAUSE_S_MAX)
        return pause


def _put_batch(
    session: Session,
    blocks: NewBlocks,
    sources: Sequence[BlockSource],
    first: int,
    count: int,
    options: PutOptions,
) -> Flow[Body]:
    sizes = blocks.sizes[first : first + count]
    if not session.shared_memory or sum(sizes) <= INLINE_PUT_BYTES:
        return (yield from _put_inline(session, blocks, sources, first, count, options))
    try:
        staged = yield from stage(session, blocks, count, max(sizes))
    except TooLarge:
        if count > 1:
            raise
        staged = None  # larger than all staging memory: it still fits into a message
    if staged is None:
        return (yield from _put_inline(session, blocks, sources, first, count, options))

    def fill() -> None:
        for array, source, size in zip(staged.arrays, sources[first:], sizes, strict=False):
            copy_source(array[:size], source)

    try:
        yield Work(fill)
        return (yield from commit(session, staged, blocks, first, options))
    except BaseException:
        staged.abort_later()
        raise


def _put_inline(
    session: Session,
    blocks: NewBlocks,
    sources: Sequence[BlockSource],
    first: int,
    count: int,
    options: PutOptions,
) -> Flow[Body]:
    ns_id = yield from blocks.ns.ensure(session)
    sizes = blocks.sizes[first : first + count]
    fields, payload = blocks.names(first, count)
    values = np.empty(sum(sizes), dtype=np.uint8)

    def fill() -> None:
        at = 0
        for source, size in zip(sources[first:], sizes, strict=False):
            copy_source(values[at : at + size], source)
            at += size

    yield Work(fill)
    fields |= {"ns": ns_id, "group": blocks.group, "lengths": sizes, **options.fields()}
    reply = yield Request(Verb.PUT, fields, [payload, values])
    return _checked(reply.body, count)


def copy_source(out: Bytes, source: BlockSource) -> None:
    """Writes a block's bytes into ``out``; InvalidArgument unless they are exactly as many."""
    if callable(source):
        source(out)
        return
    data = source if isinstance(source, np.ndarray) else np.frombuffer(source, dtype=np.uint8)
    if not data.flags.c_contiguous:
        raise InvalidArgument("a block must be contiguous")
    flat = data.reshape(-1).view(np.uint8)
    if flat.nbytes != out.nbytes:
        raise InvalidArgument(f"a block has {flat.nbytes} bytes and must have {out.nbytes}")
    out[:] = flat


def _checked(body: Body, count: int) -> Body:
    statuses = len(body.binary("status"))
    if statuses != count:
        raise ProtocolError(f"{body.what}: {statuses} statuses for {count} blocks")
    return body


# ---- staging


@dataclasses.dataclass(slots=True)
class Staged:
    """Slots of a staging chunk that this connection may write until commit or abort."""

    session: Session
    ns_id: int
    group: int
    slots: list[int]
    arrays: list[Bytes]
    is_open: bool = True

    def abort_later(self) -> None:
        """Gives the slots back with the next message, if they are still held."""
        if self.is_open and self.session.is_open:
            self.session.outbox.append(Request(Verb.ABORT, {"slots": self.slots}))
        self.is_open = False

    def abort(self) -> None:
        """Gives the slots back now, if they are still held. Nothing is waited for."""
        self.abort_later()
        self.session.send_outbox()

    def __del__(self) -> None:
        self.abort_later()  # dropped without commit or abort


def stage(session: Session, blocks: NewBlocks, count: int, size: int) -> Flow[Staged | None]:
    """RESERVE: ``count`` slots of ``size`` bytes; None if the chunk can't be mapped."""
    ns_id = yield from blocks.ns.ensure(session)
    fields: dict[str, Any] = {"ns": ns_id, "group": blocks.group, "slots": count}
    if not blocks.ns.spec.model.groups:
        fields["bytes"] = size
    body = (yield Request(Verb.RESERVE, fields)).body
    refs = list(STAGING_REF.iter_unpack(body.binary("slots")))
    staged = Staged(session, ns_id, blocks.group, [ref[0] for ref in refs], [])
    if not session.shared_memory:
        staged.abort_later()
        return None
    if len(refs) != count:
        raise ProtocolError(f"RESERVE: {len(refs)} slots for {count} asked for")
    for _, chunk_id, offset, slot_bytes in refs:
        chunk = session.chunks.find(chunk_id)
        chunk.slot_of(offset, max(size, slot_bytes))
        staged.arrays.append(chunk.array(offset, size))
    return staged


def commit(
    session: Session, staged: Staged, blocks: NewBlocks, first: int, options: PutOptions
) -> Flow[Body]:
    """COMMIT of filled slots; slot i holds block ``first + i``. The slots are gone afterwards,
    whatever the answer is."""
    fields, payload = blocks.names(first, len(staged.slots))
    fields |= {
        "ns": staged.ns_id, "group": staged.group, "slots": staged.slots, **options.fields()
    }  # fmt: skip
    staged.is_open = False
    reply = yield Request(Verb.COMMIT, fields, [payload])
    return _checked(reply.body, len(staged.slots))


def stage_or_none(
    session: Session, ns: NamespaceState, group: int, count: int
) -> Flow[Staged | None]:
    """Slots for ``count`` blocks of a layer group; None where there is no shared memory."""
    yield from ns.ensure(session)
    size = ns.block_bytes(group)
    if not session.shared_memory:
        return None
    blocks = NewBlocks(ns, group, [size] * count, lambda first, count: ({}, b""))
    return (yield from stage(session, blocks, count, size))


def staging_arrays(staged: Staged | None, count: int, size: int) -> list[Bytes]:
    """Where to write ``count`` blocks of ``size`` bytes: the slots, or memory of this process."""
    if staged is not None:
        return staged.arrays
    return [np.empty(size, dtype=np.uint8) for _ in range(count)]


def commit_staged(
    session: Session,
    staged: Staged | None,
    arrays: Sequence[Bytes],
    blocks: NewBlocks,
    options: PutOptions,
) -> Flow[PutResult]:
    """Stores what was written into staging_arrays(). InvalidArgument if that was done already,
    Unavailable if the slots went with their connection."""
    if not arrays or (staged is not None and not staged.is_open):
        raise InvalidArgument("this staging memory was committed or given back already")
    if staged is None:
        return (yield from put(session, blocks, arrays, options, 0.0))
    if staged.session is not session:
        raise Unavailable("the staging memory went with its connection to the daemon")
    body = yield from commit(session, staged, blocks, 0, options)
    return PutResult(
        statuses_of(body, len(arrays)),
        hashes_of(body.binary("hashes", b"")),
        body.number("seq", 0),
        sum(blocks.sizes),
    )


def flush(session: Session, sequence: int | None) -> Flow[int]:
    """FLUSH: returns when everything up to ``sequence`` (None: everything so far) is durable."""
    fields = {} if sequence is None else {"seq": sequence}
    reply = yield Request(Verb.FLUSH, fields)
    return int(reply.body.number("seq"))
