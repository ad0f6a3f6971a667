"""Model descriptors: everything that decides the bytes of a block.

The same types, limits and messages as include/kvstrata/model.h and keys.h of the daemon. Two
descriptors that differ in any field never share a key (see :mod:`kvstrata.keys`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any

from kvstrata.errors import InvalidArgument

BLOCK_BYTES_MAX = 1 << 30
"""A block is at most this many bytes."""


class DType(enum.IntEnum):
    """The type of one scalar of the cache; numbers are part of the formats."""

    BF16 = 1
    FP16 = 2
    FP8_E4M3 = 3
    FP8_E5M2 = 4
    INT8 = 5
    FP32 = 6

    @property
    def text(self) -> str:
        """The name on the wire, for example ``"bf16"``."""
        return self.name.lower()

    @property
    def bytes_per_scalar(self) -> int:
        """1, 2 or 4."""
        return {DType.FP32: 4, DType.BF16: 2, DType.FP16: 2}.get(self, 1)

    @classmethod
    def parse(cls, name: str) -> DType:
        """The type called ``name`` ("bf16", "fp8_e4m3", ...); InvalidArgument if unknown."""
        return cls(_parse(cls, name, "dtype"))


class GroupKind(enum.IntEnum):
    """What the layers of a group keep."""

    FULL_ATTENTION = 1
    SLIDING_WINDOW = 2
    RECURRENT_STATE = 3
    MLA_LATENT = 4

    @property
    def text(self) -> str:
        """The name on the wire, for example ``"full_attention"``."""
        return self.name.lower()

    @classmethod
    def parse(cls, name: str) -> GroupKind:
        """The kind called ``name``; InvalidArgument if unknown."""
        return cls(_parse(cls, name, "layer group kind"))


def _parse(cls: Any, name: str, what: str) -> Any:
    for member in cls:
        if member.text == name:
            return member
    known = ", ".join(member.text for member in cls)
    raise InvalidArgument(f"{what} '{name}' is unknown; known are {known}")


@dataclasses.dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that are stored, found and evicted together: one block of a group is one payload."""

    kind: GroupKind = GroupKind.FULL_ATTENTION
    layers: int = 0  #: 1..1024
    kv_heads: int = 0  #: of this shard, 1..1024
    head_dim_k: int = 0  #: scalars, 1..65536
    head_dim_v: int = 0  #: scalars, 0..65536; 0 only for mla_latent and recurrent_state
    window_tokens: int = 0  #: sliding_window only


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The order of a payload's axes, outermost first: L layer, S side (K, then V), P page, H head,
    T token in its page, C channel. K and V may differ after S only (doc/keys.md)."""

    k_axes: str = "LSPHTC"
    v_axes: str = "LSPHTC"
    page_tokens: int = 0  #: tokens of one page; 0: the whole block is one page
    isa: str = ""  #: non-empty where the engine packs by CPU type, for example "amx"


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """``[first, last)`` of ``of``; all 0: everything."""

    first: int = 0
    last: int = 0
    of: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """Which part of the model this shard holds. All-default is *replicated*: the same bytes on
    every rank, stored once."""

    heads: Range = Range()
    layers: Range = Range()
    tokens: Range = Range()


@dataclasses.dataclass(frozen=True, slots=True)
class ModelDescriptor:
    """What the daemon must know of a model; :meth:`validate` names the first bad field.

    Without groups it describes a namespace of opaque keys, whose values have any size.
    """

    fingerprint: str  #: identifies the weights, 1..128 bytes, for example the hex of a hash
    dtype: DType = DType.BF16  #: or its name, "bf16"
    block_tokens: int = 256  #: 16..1024
    vocab_size: int = 0  #: token ids are below this; 0: below 2^31
    groups: tuple[LayerGroup, ...] = ()  #: 1..64; none: opaque keys
    layout: Layout = Layout()
    shard: Shard = Shard()

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", tuple(self.groups))
        if isinstance(self.dtype, str):
            object.__setattr__(self, "dtype", DType.parse(self.dtype))

    def validate(self) -> None:
        """Raises InvalidArgument with the first field that is out of range or contradicts
        another."""
        _check_range("fingerprint length", len(self.fingerprint.encode()), 1, 128)
        if not isinstance(self.dtype, DType):
            raise _out_of_range("dtype", self.dtype, "a known dtype")
        _check_range("block_tokens", self.block_tokens, 16, 1024)
        _check_range("vocab_size", self.vocab_size, 0, 1 << 31)
        _check_range("number of groups", len(self.groups), 0, 64)
        _check_axes(self.layout)
        _check_range("layout isa length", len(self.layout.isa.encode()), 0, 64)
        page = self.layout.page_tokens
        if not 0 <= page < 1 << 32 or (page and self.block_tokens % page):
            raise _out_of_range("layout page_tokens", page, "0 or a divisor of block_tokens")
        for field in ("heads", "layers", "tokens"):
            _check_shard_range(field, getattr(self.shard, field))
        for group in self.groups:
            self._check_group(group)

    def block_bytes(self, group: int = 0) -> int:
        """Bytes of one block of the group with this index, of a valid descriptor."""
        return self._bytes_of(self.groups[group])

    def _bytes_of(self, group: LayerGroup) -> int:
        tokens = 1 if group.kind == GroupKind.RECURRENT_STATE else self.block_tokens
        dims = group.head_dim_k + group.head_dim_v
        return tokens * group.layers * group.kv_heads * dims * self.dtype.bytes_per_scalar

    def _check_group(self, group: LayerGroup) -> None:
        if not isinstance(group.kind, GroupKind):
            raise _out_of_range("group kind", group.kind, "a known kind")
        _check_range("layers", group.layers, 1, 1024)
        _check_range("kv_heads", group.kv_heads, 1, 1024)
        _check_range("head_dim_k", group.head_dim_k, 1, 65536)
        k_only = group.kind in (GroupKind.MLA_LATENT, GroupKind.RECURRENT_STATE)
        _check_range("head_dim_v", group.head_dim_v, 0 if k_only else 1, 65536)
        axes = self.layout.k_axes
        if group.head_dim_v not in (0, group.head_dim_k) and axes.index("C") < axes.index("S"):
            raise InvalidArgument(
                "model descriptor: layout axis C may be outside S only where head_dim_k equals "
                "head_dim_v"
            )
        windowed = group.kind == GroupKind.SLIDING_WINDOW
        _check_range(
            "window_tokens", group.window_tokens, int(windowed), 1 << 30 if windowed else 0
        )
        _check_range("bytes of one block", self._bytes_of(group), 1, BLOCK_BYTES_MAX)

    def to_wire(self) -> dict[str, Any]:
        """The ``model`` map of REGISTER (doc/wire-protocol.md)."""
        layout, shard = self.layout, self.shard
        return {
            "fingerprint": self.fingerprint,
            "dtype": self.dtype.text,
            "block_tokens": self.block_tokens,
            "vocab_size": self.vocab_size,
            "groups": [dataclasses.asdict(g) | {"kind": g.kind.text} for g in self.groups],
            "layout": dataclasses.asdict(layout),
            "shard": {
                name: [part.first, part.last, part.of]
                for name, part in (
                    ("heads", shard.heads), ("layers", shard.layers), ("tokens", shard.tokens)
                )
            },
        }  # fmt: skip

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> ModelDescriptor:
        """The descriptor of a ``model`` map; fields it lacks have their defaults."""
        shard = {name: Range(*part) for name, part in wire.get("shard", {}).items()}
        return cls(
            fingerprint=wire["fingerprint"],
            dtype=DType.parse(wire["dtype"]),
            block_tokens=wire["block_tokens"],
            vocab_size=wire.get("vocab_size", 0),
            groups=tuple(
                LayerGroup(**{**group, "kind": GroupKind.parse(group["kind"])})
                for group in wire.get("groups", [])
            ),
            layout=Layout(**wire.get("layout", {})),
            shard=Shard(**shard),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class NamespaceSpec:
    """Everything that separates one cache from another. An absent optional field and an empty one
    are the same thing. Text is kept as UTF-8 bytes.

    ``tenant`` and ``weight_epoch`` are the daemon's: leave them out when registering, the client
    fills them in from what the daemon answers.
    """

    model: ModelDescriptor
    tenant: str = ""  #: 1..64 bytes
    salt: bytes | str = b""  #: 0..256 bytes
    adapter: bytes | str = b""  #: LoRA name or hash, 0..256 bytes
    extra_keys: Sequence[bytes | str] = ()  #: at most 16, each 0..256 bytes; order matters
    weight_epoch: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "salt", _to_bytes(self.salt))
        object.__setattr__(self, "adapter", _to_bytes(self.adapter))
        object.__setattr__(self, "extra_keys", tuple(_to_bytes(k) for k in self.extra_keys))

    def validate(self) -> None:
        """Raises InvalidArgument with the first field that is out of range. An empty tenant is
        accepted: it is not known before the daemon answered."""
        self.model.validate()
        _check_range("tenant length", len(self.tenant.encode()), 0, 64, "namespace")
        _check_range("salt length", len(self.salt), 0, 256, "namespace")
        _check_range("adapter length", len(self.adapter), 0, 256, "namespace")
        _check_range("number of extra_keys", len(self.extra_keys), 0, 16, "namespace")
        for extra in self.extra_keys:
            _check_range("extra_key length", len(extra), 0, 256, "namespace")
        _check_range("weight_epoch", self.weight_epoch, 0, (1 << 64) - 1, "namespace")


def _to_bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _out_of_range(
    field: str, value: object, allowed: str, what: str = "model descriptor"
) -> InvalidArgument:
    return InvalidArgument(f"{what}: {field} is {value}, must be {allowed}")


def _check_range(
    field: str, value: int, low: int, high: int, what: str = "model descriptor"
) -> None:
    if not low <= value <= high:
        raise _out_of_range(field, value, f"{low}..{high}", what)


def _check_axes(layout: Layout) -> None:
    for axes in (layout.k_axes, layout.v_axes):
        if sorted(axes) != list("CHLPST"):
            raise InvalidArgument(
                f"model descriptor: layout axes '{axes}' must hold each of L S P H T C once"
            )
    shared = layout.k_axes.index("S") + 1
    if layout.k_axes[:shared] != layout.v_axes[:shared]:
        raise InvalidArgument(
            "model descriptor: layouts of K and V may differ only after axis S: "
            f"'{layout.k_axes}' against '{layout.v_axes}'"
        )


def _check_shard_range(field: str, part: Range) -> None:
    if part == Range():
        return
    if not 0 <= part.first < part.last <= part.of < 1 << 32:
        raise InvalidArgument(f"model descriptor: shard {field} must be first < last <= of")
