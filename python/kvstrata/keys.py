"""Keys: from tenant, model and tokens to the 32-byte names blocks are stored under (doc/keys.md).

Everything here is a function of its arguments alone: the same in every process, on every machine
and under every PYTHONHASHSEED. The daemon computes the same names and a client checks that.
"""

from __future__ import annotations

import hashlib
import operator
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kvstrata.errors import InvalidArgument
from kvstrata.model import NamespaceSpec, Range

TokenIds = Sequence[int] | npt.NDArray[np.integer[Any]]
"""Token ids: integers in one dimension; a list, a numpy array or a torch tensor on the CPU."""

Extras = Mapping[int, Sequence[bytes]]
"""Per block index, the extra keys (an image's whole hash, ...) that touch the block, in order."""

HASH_BYTES = 32
OPAQUE_KEY_BYTES_MAX = 256


def _blake2b(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=HASH_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _field(number: int, value: bytes) -> bytes:
    return struct.pack("<BI", number, len(value)) + value


def _range(number: int, part: Range) -> bytes:
    return _field(number, struct.pack("<III", part.first, part.last, part.of))


def namespace_bytes(spec: NamespaceSpec) -> bytes:
    """The canonical bytes of a spec: every field typed and length-prefixed, in a fixed order."""
    spec.validate()
    model, layout, shard = spec.model, spec.model.layout, spec.model.shard
    groups = (
        struct.pack(
            "<BIIIII", g.kind, g.layers, g.kv_heads, g.head_dim_k, g.head_dim_v, g.window_tokens
        )
        for g in model.groups
    )
    parts = [
        _field(1, spec.tenant.encode()),
        _field(2, model.fingerprint.encode()),
        _field(3, struct.pack("<B", model.dtype)),
        _field(4, struct.pack("<I", model.block_tokens)),
        _field(5, struct.pack("<I", model.vocab_size)),
        *(_field(6, group) for group in groups),
        _field(7, layout.k_axes.encode()),
        _field(8, layout.v_axes.encode()),
        _field(9, struct.pack("<I", layout.page_tokens)),
        _field(10, layout.isa.encode()),
        _range(11, shard.heads),
        _range(12, shard.layers),
        _range(13, shard.tokens),
        _field(14, bytes(spec.salt)),  # type: ignore[arg-type]  # bytes since __post_init__
        _field(15, bytes(spec.adapter)),  # type: ignore[arg-type]
        *(_field(16, bytes(extra)) for extra in spec.extra_keys),  # type: ignore[arg-type]
        _field(17, struct.pack("<Q", spec.weight_epoch)),
    ]
    return b"".join(parts)


def namespace_hash(spec: NamespaceSpec) -> bytes:
    """h[-1], the parent of a sequence's first block. 32 bytes."""
    return _blake2b(b"kvstrata namespace 1", namespace_bytes(spec))


def block_hash(parent: bytes, tokens: TokenIds, extra_keys: Iterable[bytes] = ()) -> bytes:
    """The name of one full block that follows ``parent`` (h[-1] for the first). 32 bytes."""
    return _block_hash(parent, token_array(tokens), extra_keys)


def _block_hash(
    parent: bytes, tokens: npt.NDArray[np.uint32], extra_keys: Iterable[bytes]
) -> bytes:
    if len(parent) != HASH_BYTES:
        raise InvalidArgument(f"a parent hash has {HASH_BYTES} bytes, this one {len(parent)}")
    extras = b"".join(struct.pack("<I", len(extra)) + extra for extra in extra_keys)
    return _blake2b(parent, tokens.tobytes(), extras)


def prefix_hashes(
    parent: bytes, tokens: TokenIds, block_tokens: int, extras: Extras | None = None
) -> list[bytes]:
    """The hashes of all full blocks of ``tokens``; a partial last block has none.

    ``parent`` is the namespace hash, or the hash of the block before the first of ``tokens``;
    indices of ``extras`` count from the first block of ``tokens``.
    """
    ids = token_array(tokens)
    extras = extras or {}
    hashes: list[bytes] = []
    for block in range(len(ids) // block_tokens):
        part = ids[block * block_tokens : (block + 1) * block_tokens]
        parent = _block_hash(parent, part, extras.get(block, ()))
        hashes.append(parent)
    return hashes


def opaque_hash(namespace: bytes, key: bytes) -> bytes:
    """The digest of a key a client brings itself (1..256 bytes), apart from all prefix hashes."""
    check_opaque_key(key)
    return _blake2b(b"kvstrata opaque 1", namespace, key)


def check_opaque_key(key: bytes) -> None:
    """Raises InvalidArgument unless ``key`` has 1..256 bytes."""
    if not 1 <= len(key) <= OPAQUE_KEY_BYTES_MAX:
        raise InvalidArgument(f"an opaque key has 1..{OPAQUE_KEY_BYTES_MAX} bytes, not {len(key)}")


def token_array(tokens: TokenIds, vocab_size: int = 0) -> npt.NDArray[np.uint32]:
    """``tokens`` as contiguous little-endian u32, checked against [0, vocab_size), or [0, 2^31)
    if ``vocab_size`` is 0. Nothing is ever wrapped, cut or rounded: InvalidArgument names the first
    bad id and its position. Shape [tokens]."""
    limit = vocab_size or 1 << 31
    ids = np.asarray(tokens)
    if ids.ndim != 1:
        raise InvalidArgument(f"token ids have one dimension, these have shape {ids.shape}")
    if ids.size == 0:
        return np.empty(0, dtype="<u4")
    if ids.dtype.kind not in "iu":  # floats, or integers that no machine type holds
        _refuse_first_bad(list(tokens), limit)
    bad = np.flatnonzero((ids < 0) | (ids >= limit))
    if bad.size:
        raise _bad_token(int(ids[bad[0]]), int(bad[0]), limit)
    return np.ascontiguousarray(ids, dtype="<u4")


def _refuse_first_bad(tokens: list[Any], limit: int) -> None:
    for position, token in enumerate(tokens):
        try:
            value = operator.index(token)
        except TypeError:
            value = None
        if value is None or isinstance(token, bool | np.bool_):
            raise InvalidArgument(f"token id {token!r} at position {position} is not an integer")
        if not 0 <= value < limit:
            raise _bad_token(value, position, limit)
    raise InvalidArgument("token ids are not an array of integers")


def _bad_token(value: int, position: int, limit: int) -> InvalidArgument:
    bound = "is negative" if value < 0 else f"is not below {limit}"
    return InvalidArgument(f"token id {value} at position {position} {bound}")
