"""What the slow decoder knows of payloads: the parts of a scalar, and where scalars lie.

Written from doc/frame-format.md and doc/keys.md alone.
"""

import dataclasses
import itertools

import numpy as np
from kvstrata.checksum import xxh3_64

PAYLOAD_BYTES_MAX = 1 << 30
OPAQUE_PIECE_BYTES = 1 << 20
LAYERS_MAX = 1024


class FrameError(ValueError):
    """A frame, or tables, that a reader must refuse. The message names what is wrong."""


class Unsupported(FrameError):
    """A version or a codec that this reader does not know."""


def require(holds: bool, what_is_wrong: str) -> None:
    if not holds:
        raise FrameError(what_is_wrong)


def sum_of(data: bytes) -> int:
    """XXH3-64 with seed 0."""
    return xxh3_64(np.frombuffer(data, np.uint8))


@dataclasses.dataclass(frozen=True)
class Scalar:
    """How a scalar is cut, from its top bit down: sign, key, mantissa."""

    number: int  # in the header of tables
    sign_bits: int
    key_bits: int
    mantissa_bits: int

    @property
    def size(self) -> int:
        return (self.sign_bits + self.key_bits + self.mantissa_bits) // 8

    @property
    def exponent_min(self) -> int:
        """Of floating types: that of the least normal number, 2^exponent_min."""
        return 2 - (1 << self.key_bits - 1)

    def cut(self, value: int) -> tuple[int, int, int]:
        """Sign, key and mantissa."""
        above = value >> self.mantissa_bits
        return (above >> self.key_bits, above & (1 << self.key_bits) - 1,
                value & (1 << self.mantissa_bits) - 1)

    def joined(self, sign: int, key: int, mantissa: int) -> int:
        return (sign << self.key_bits | key) << self.mantissa_bits | mantissa


SCALARS = {
    "bf16": Scalar(1, 1, 8, 7),
    "fp16": Scalar(2, 1, 5, 10),
    "fp8_e4m3": Scalar(3, 1, 4, 3),
    "fp8_e5m2": Scalar(4, 1, 5, 2),
    "int8": Scalar(5, 0, 4, 4),
    "fp32": Scalar(6, 1, 8, 23),
}


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a payload is: the KV of a block, or an opaque value if there are no layers.

    The layouts are axes, outermost first; without pages (`page_tokens` 0) the block is one page.
    """

    dtype: str
    layers: int = 0
    kv_heads: int = 0
    head_dim_k: int = 0
    head_dim_v: int = 0
    tokens: int = 0
    layout: str = "LSPHTC"
    layout_v: str = ""  # of V where it differs
    page_tokens: int = 0
    opaque_bytes: int = 0

    def __post_init__(self) -> None:
        """A shape comes from the caller, not from the frame; still its lengths are bounded."""
        require(self.dtype in SCALARS, f"shape: dtype {self.dtype} is unknown")
        require(0 <= self.layers <= LAYERS_MAX, f"shape: {self.layers} layers")
        require(0 <= self.payload_bytes <= PAYLOAD_BYTES_MAX,
                f"shape: {self.payload_bytes} bytes of payload")
        for axes in self.axes:
            require(sorted(axes) == list("CHLPST"), f"shape: layout {axes}")
        require(self.opaque or self.tokens > 0, "shape: no tokens")
        require(self.page_tokens == 0 or self.tokens % self.page_tokens == 0,
                f"shape: pages of {self.page_tokens} tokens")

    @property
    def scalar(self) -> Scalar:
        return SCALARS[self.dtype]

    @property
    def opaque(self) -> bool:
        return self.layers == 0

    @property
    def sides(self) -> int:
        return 2 if self.head_dim_v else 1

    @property
    def axes(self) -> tuple[str, str]:
        """Of K and of V."""
        return self.layout, self.layout_v or self.layout

    def channels(self, side: int) -> int:
        return self.kv_heads * (self.head_dim_k, self.head_dim_v)[side]

    @property
    def payload_bytes(self) -> int:
        if self.opaque:
            return self.opaque_bytes
        channels = self.channels(0) + self.channels(1)
        return self.layers * self.tokens * channels * self.scalar.size

    @property
    def substreams(self) -> int:
        if self.opaque:
            return -(-self.opaque_bytes // OPAQUE_PIECE_BYTES)
        return self.layers * self.sides

    def substream_bytes(self, index: int) -> int:
        """Length of the decoded sub-stream."""
        if self.opaque:
            return min(OPAQUE_PIECE_BYTES, self.opaque_bytes - index * OPAQUE_PIECE_BYTES)
        return self.tokens * self.channels(index % self.sides) * self.scalar.size


def places(shape: Shape, index: int) -> list[int]:
    """Where the scalars of one layer's K or V lie in the payload, counted in scalars: of channel 0
    all tokens, then of channel 1 all tokens, and so on."""
    layer, side = divmod(index, shape.sides)
    page_tokens = shape.page_tokens or shape.tokens
    extents = {"L": shape.layers, "P": shape.tokens // page_tokens, "H": shape.kv_heads,
               "T": page_tokens}

    def strides_of(axes: str, dim: int) -> tuple[dict[str, int], int]:
        """Strides of the axes inside S, and how many scalars there are inside S."""
        strides, stride = {}, 1
        for axis in reversed(axes[axes.index("S") + 1:]):
            strides[axis] = stride
            stride *= dim if axis == "C" else extents[axis]
        return strides, stride

    dims = (shape.head_dim_k, shape.head_dim_v)
    inner = [strides_of(axes, dim) for axes, dim in zip(shape.axes, dims)]
    sizes = [inner[0][1], inner[1][1] if shape.sides == 2 else 0]
    strides, stride = dict(inner[side][0]), sum(sizes)
    axes, dim = shape.axes[side], dims[side]
    for axis in reversed(axes[:axes.index("S")]):
        strides[axis] = stride
        stride *= dim if axis == "C" else extents[axis]

    first = (sizes[0] if side else 0) + layer * strides["L"]
    found = []
    for head, channel, token in itertools.product(
            range(shape.kv_heads), range(dim), range(shape.tokens)):
        page, token_in_page = divmod(token, page_tokens)
        found.append(first + head * strides["H"] + channel * strides["C"] + page * strides["P"]
                     + token_in_page * strides["T"])
    return found
