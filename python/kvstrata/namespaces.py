"""What both clients know of a registered namespace, and how blocks in it are named in requests."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvstrata import keys
from kvstrata.errors import EpochChanged, InvalidArgument, ProtocolError, TooLarge
from kvstrata.keys import Extras, TokenIds
from kvstrata.model import NamespaceSpec
from kvstrata.protocol import BLOCKS_PER_REQUEST_MAX, Request, Verb
from kvstrata.session import Flow, Registration, Session

_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """Blocks as a request names them. ``tokens`` holds the ids of full blocks only."""

    by: str
    count: int
    blocks: int
    payload: bytes
    extras: Extras = dataclasses.field(default_factory=dict)
    tokens: npt.NDArray[np.uint32] | None = None

    def fields(self) -> dict[str, Any]:
        """The body fields of a selection, without ns and group."""
        fields: dict[str, Any] = {"by": self.by, "count": self.count}
        if self.extras:
            fields["extras"] = wire_extras(self.extras)
        return fields


def wire_extras(extras: Extras) -> list[Any]:
    """``extras`` as an array for the wire, sorted by block."""
    return [[block, [bytes(key) for key in extras[block]]] for block in sorted(extras)]


class NamespaceState:
    """A namespace over all connections of a client: it is registered anew on each one. The weight
    epoch it was first registered under stays until refresh(): blocks made with old weights must
    never get under new ones' names by a reconnect."""

    def __init__(self, spec: NamespaceSpec) -> None:
        spec.validate()
        self.spec = spec
        self.registration: Registration | None = None
        self._number = next(_numbers)

    @property
    def hash(self) -> bytes:
        """h[-1], 32 bytes."""
        return self._known().hash

    @property
    def epoch(self) -> int:
        """The weight epoch blocks are stored and found under."""
        return self._known().epoch

    @property
    def block_tokens(self) -> int:
        """Tokens of one block."""
        return self.spec.model.block_tokens

    def block_bytes(self, group: int) -> int:
        """Bytes of one block of a group; InvalidArgument if there is no such group."""
        sizes = self._known().block_bytes
        if not 0 <= group < len(sizes):
            raise InvalidArgument(f"layer group {group} is not one of the {len(sizes)} registered")
        return sizes[group]

    def _known(self) -> Registration:
        if self.registration is None:
            raise InvalidArgument("the namespace is not registered yet")
        return self.registration

    def ensure(self, session: Session) -> Flow[int]:
        """The namespace's id on this connection, registering it there if it must. EpochChanged if
        the weights were bumped since the handle was made or refreshed."""
        known = session.registered.get(self._number)
        if known is not None:
            return known.id
        fresh = yield from self._register(session)
        if self.registration is not None and fresh.epoch != self.registration.epoch:
            raise EpochChanged(
                f"the weight epoch is {fresh.epoch} now and was {self.registration.epoch} when the "
                "namespace was registered; load the new weights, then call refresh()"
            )
        self._accept(session, fresh)
        return fresh.id

    def refresh(self, session: Session) -> Flow[int]:
        """Registers anew and accepts the epoch of now, which is returned."""
        fresh = yield from self._register(session)
        self._accept(session, fresh)
        return fresh.epoch

    def _accept(self, session: Session, fresh: Registration) -> None:
        self.registration = fresh
        session.registered[self._number] = fresh

    def _register(self, session: Session) -> Flow[Registration]:
        spec = self.spec
        assert session.info is not None
        tenant = session.info.tenant
        if spec.tenant and spec.tenant != tenant:
            raise InvalidArgument(
                f"the spec names tenant '{spec.tenant}', the daemon knows this client as '{tenant}'"
            )
        fields: dict[str, Any] = {"model": spec.model.to_wire()}
        for name in ("salt", "adapter"):
            if value := getattr(spec, name):
                fields[name] = value
        if spec.extra_keys:
            fields["extra_keys"] = list(spec.extra_keys)
        body = (yield Request(Verb.REGISTER, fields)).body
        fresh = Registration(
            id=body.number("ns"),
            hash=body.binary("hash"),
            epoch=body.number("epoch"),
            block_bytes=tuple(int(size) for size in body.array("block_bytes")),
        )
        expected = keys.namespace_hash(
            dataclasses.replace(spec, tenant=tenant, weight_epoch=fresh.epoch)
        )
        sizes = tuple(spec.model.block_bytes(group) for group in range(len(spec.model.groups)))
        if fresh.hash != expected or fresh.block_bytes != sizes:
            raise ProtocolError(
                "client and daemon disagree on what the namespace is called or how large its "
                "blocks are: they are of versions that do not go together"
            )
        return fresh

    # ---- naming blocks

    def select(
        self,
        tokens: TokenIds | None,
        hashes: Sequence[bytes] | None,
        opaque_keys: Sequence[bytes] | None = None,
        extras: Extras | None = None,
    ) -> Selection:
        """Exactly one of ``tokens`` (a sequence from its start; a partial last block is left
        out), ``hashes`` (of a prefix, in order) and ``opaque_keys``."""
        given = [value is not None for value in (tokens, hashes, opaque_keys)]
        if sum(given) != 1:
            raise InvalidArgument("name blocks by exactly one of tokens, hashes and keys")
        if tokens is not None:
            return self._select_tokens(tokens, extras or {})
        if extras:
            raise InvalidArgument("extras go with tokens only; hashes hold them already")
        names = list(hashes if hashes is not None else opaque_keys or ())
        _check_count(len(names))
        if hashes is not None:
            if any(len(name) != keys.HASH_BYTES for name in names):
                raise InvalidArgument(f"a block hash has {keys.HASH_BYTES} bytes")
            return Selection("hash", len(names), len(names), b"".join(names))
        return Selection("key", len(names), len(names), wire_keys(names))

    def _select_tokens(self, tokens: TokenIds, extras: Extras) -> Selection:
        ids = keys.token_array(tokens, self.spec.model.vocab_size)
        blocks = len(ids) // self.block_tokens
        _check_count(blocks)
        ids = ids[: blocks * self.block_tokens]
        check_extras(extras)
        touched = {block: names for block, names in extras.items() if block < blocks}
        return Selection("tokens", len(ids), blocks, ids.tobytes(), touched, ids)

    def hashes(self, tokens: TokenIds, extras: Extras | None = None) -> list[bytes]:
        """Names of all full blocks of ``tokens``, checked against the vocabulary."""
        ids = keys.token_array(tokens, self.spec.model.vocab_size)
        return keys.prefix_hashes(self.hash, ids, self.block_tokens, extras)


class NamespaceBase:
    """What a registered namespace tells of itself without asking the daemon."""

    def __init__(self, state: NamespaceState) -> None:
        self.state = state

    @property
    def spec(self) -> NamespaceSpec:
        """What was registered."""
        return self.state.spec

    @property
    def hash(self) -> bytes:
        """h[-1], the parent of a sequence's first block; 32 bytes."""
        return self.state.hash

    @property
    def epoch(self) -> int:
        """The weight epoch blocks are stored and found under."""
        return self.state.epoch

    @property
    def block_tokens(self) -> int:
        """Tokens of one block."""
        return self.state.block_tokens

    def block_bytes(self, group: int = 0) -> int:
        """Bytes of one block of a layer group."""
        return self.state.block_bytes(group)

    def hashes(self, tokens: TokenIds, extras: Extras | None = None) -> list[bytes]:
        """Names of all full blocks of ``tokens``; nothing is sent."""
        return self.state.hashes(tokens, extras)

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<{name} {self.hash.hex()[:16]} of {self.spec.model.fingerprint!r}>"


def _check_count(blocks: int) -> None:
    if blocks > BLOCKS_PER_REQUEST_MAX:
        raise TooLarge(f"{blocks} blocks in one request, {BLOCKS_PER_REQUEST_MAX} are allowed")


def check_extras(extras: Extras) -> None:
    """InvalidArgument unless ``extras`` maps block indices to sequences of bytes."""
    for block, names in extras.items():
        if block < 0:
            raise InvalidArgument(f"extras name block {block}")
        if isinstance(names, bytes | str) or not all(isinstance(name, bytes) for name in names):
            raise InvalidArgument(f"extras of block {block} must be a sequence of bytes")


def wire_keys(opaque_keys: Sequence[bytes]) -> bytes:
    """Opaque keys as a payload: each u16 length, then the bytes."""
    parts = []
    for key in opaque_keys:
        keys.check_opaque_key(key)
        parts.append(len(key).to_bytes(2, "little") + bytes(key))
    return b"".join(parts)
