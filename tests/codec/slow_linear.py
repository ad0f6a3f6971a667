"""Models of the linear codec, and the layers of a frame decoded with one, a channel at a time.

By doc/linear-codec.md and doc/linear-format.md alone, for reading beside them.
"""

import dataclasses
import struct
from collections.abc import Callable, Sequence

import numpy as np
from slow_cell import CONTEXTS, SIGMA_CLASS_MAX, SYMBOLS, Chain, Grid
from slow_float import TURN_BITS, Floats, Integers, cosine_of, fma, numbers_of, scale, to_int8, turn
from slow_shape import SCALARS, Shape, Unsupported, places, require, sum_of

MODEL_HEADER = struct.Struct("<4sBBHIIIIIIQ")
LAYERS_MAX, CHANNELS_MAX, BELOW_MAX = 1024, 16384, 8
FREQUENCY_SUM = 4096
SLOPE_MAX = 1 << 20
PANEL = 64
LANES, LANES_MANY, MANY_SCALARS = 16, 32, 32768
ERROR_MAX, ERROR_INT8_UNITS = 1024, 16
# The scale of a token, k: steps of 2^(1/4).
K_MAX, K_EVERY, K_FIRST_COUNTS = 40, 32, 16
ERROR_UNITS, ERROR_UNITS_MAX, ERROR_MEAN = 80, 720, 64
STEP_0_OCTAVE, STEP_BOUNDS = 14, (71468, 84990, 101070, 120194)


@dataclasses.dataclass(frozen=True)
class Channel:
    """A channel in coding order. Of a pair that RoPE turns, the second follows the first."""

    side: int
    number: int  # head * head_dim + dim
    pair: int | None  # its number in the head


@dataclasses.dataclass(frozen=True)
class LayerModel:
    """Numbers of channels: [C]. `map`: [C][below * C]. `joint`: [C][C] and `in_panel`: [C][PANEL],
    0 where nothing is stored."""

    below: int
    slope: int
    offset: int
    mean: Floats
    input_scale: Floats
    bias: Floats
    map_scale: Floats
    joint_scale: Floats
    sigma_class: Integers
    map: Integers
    joint: Integers
    in_panel: Floats


@dataclasses.dataclass(frozen=True)
class Model:
    frequencies: list[list[int]]  # [CONTEXTS][SYMBOLS]
    steps: Integers  # [rotary_dim / 2], a turn is 2^32
    channels: list[Channel]
    layers: list[LayerModel]
    content_hash: int


def coding_order(shape: Shape, rotary_dim: int) -> list[Channel]:
    half, order = rotary_dim // 2, []
    for head in range(shape.kv_heads):
        first = head * shape.head_dim_k
        for pair in range(half):
            order += [Channel(0, first + pair, pair), Channel(0, first + half + pair, pair)]
        order += [Channel(0, first + dim, None) for dim in range(rotary_dim, shape.head_dim_k)]
    return order + [Channel(1, number, None) for number in range(shape.channels(1))]


class Reader:
    """Takes arrays off a model."""

    def __init__(self, data: bytes, at: int):
        self.data, self.at = data, at

    def take(self, kind: str, count: int) -> np.ndarray:
        """`count` numbers: of i1, u2, i2, i4 and u4 as int64, of f4 as they are."""
        size = count * int(kind[-1])
        require(size <= len(self.data) - self.at, "model: too short")
        found = np.frombuffer(self.data, "<" + kind, count, self.at)
        self.at += size
        if kind != "f4":
            return found.astype(np.int64)
        require(bool(np.isfinite(found).all()), "model: a number that is not finite")
        return found.astype(np.float32)

    def coefficients(self, count: int) -> np.ndarray:
        found = self.take("i1", count)
        require(bool((found > -128).all()), "model: a coefficient of -128")
        return found


def parse_model(data: bytes, shape: Shape) -> Model:
    """Reads a model that must serve this shape."""
    require(len(data) >= MODEL_HEADER.size, "model: shorter than its header")
    (magic, version, dtype, reserved, layers, kv_heads, dim_k, dim_v, rotary_dim, reserved_too,
     body_sum) = MODEL_HEADER.unpack_from(data)
    require(magic == b"KVSL", "model: magic")
    if version != 1:
        raise Unsupported(f"model: version {version}")
    require(reserved == 0 and reserved_too == 0, "model: reserved bytes of the header")
    require(dtype in (1, 2, 3, 4), f"model: dtype {dtype}")
    require(1 <= layers <= LAYERS_MAX, f"model: {layers} layers")
    require(dim_k % 2 == 0 and rotary_dim % 2 == 0 and rotary_dim <= dim_k,
            f"model: turns {rotary_dim} of {dim_k}")
    count = kv_heads * (dim_k + dim_v)
    require(1 <= count <= CHANNELS_MAX, f"model: {count} channels")
    require(dtype == SCALARS[shape.dtype].number and (layers, kv_heads, dim_k, dim_v) ==
            (shape.layers, shape.kv_heads, shape.head_dim_k, shape.head_dim_v),
            "model: of another shape")
    require(sum_of(data[MODEL_HEADER.size:]) == body_sum, "model: sum of the body")

    reader = Reader(data, MODEL_HEADER.size)
    frequencies = reader.take("u2", CONTEXTS * SYMBOLS).reshape(CONTEXTS, SYMBOLS)
    require(bool((frequencies > 0).all()), "model: a frequency of 0")
    require(bool((frequencies.sum(axis=1) == FREQUENCY_SUM).all()), "model: a sum of frequencies")
    steps = reader.take("u4", rotary_dim // 2)
    channels = coding_order(shape, rotary_dim)
    parsed = [parse_layer(reader, number, channels) for number in range(layers)]
    require(reader.at == len(data), "model: bytes left over")
    return Model(frequencies.tolist(), steps, channels, parsed, sum_of(data))


def parse_layer(reader: Reader, number: int, channels: list[Channel]) -> LayerModel:
    name, count = f"model: layer {number}", len(channels)
    below = int(reader.take("u4", 1)[0])
    require(below <= min(number, BELOW_MAX), f"{name}: {below} layers below")
    slope, offset = (int(number) for number in reader.take("i4", 2))
    require(max(abs(slope), abs(offset)) <= SLOPE_MAX, f"{name}: slope or offset")
    mean, input_scale, bias, map_scale, joint_scale = (reader.take("f4", count) for _ in range(5))
    sigma_class = reader.take("i2", count)
    require(bool((abs(sigma_class) <= SIGMA_CLASS_MAX).all()), f"{name}: sigma class")
    for c, channel in enumerate(channels):
        require(channel.pair is None or sigma_class[c] == sigma_class[c ^ 1],
                f"{name}: a pair has two sigmas")
    of_map = reader.coefficients(count * below * count).reshape(count, below * count)
    joint = np.zeros((count, count), np.int64)
    in_panel = np.zeros((count, PANEL), np.float32)
    for c in range(count):
        joint[c, :c // PANEL * PANEL] = reader.coefficients(c // PANEL * PANEL)
    for c in range(count):
        in_panel[c, :c % PANEL] = reader.take("f4", c % PANEL)
    return LayerModel(below, slope, offset, mean, input_scale, bias, map_scale, joint_scale,
                      sigma_class, of_map, joint, in_panel)


def step_of(mean: int) -> int:
    """The step of 2^(1/4) nearest to a mean of errors in 256ths."""
    top = max(mean, 1).bit_length() - 1
    fraction = (max(mean, 1) << 16) >> top
    return clamped_k(4 * (top - STEP_0_OCTAVE) + sum(fraction >= bound for bound in STEP_BOUNDS))


def clamped_k(k: int) -> int:
    return min(max(k, -K_MAX), K_MAX)


class TokenScale:
    """k of each token, which says how well the layer predicts it: [tokens]."""

    def __init__(self, layer: LayerModel, k_below: Integers):
        self.k = np.array([clamped_k(layer.slope * int(k) + layer.offset + 128 >> 8)
                           for k in k_below], np.int64)
        self.first = [K_FIRST_COUNTS * int(size)
                      for size in np.rint(scale(self.k) * np.float32(ERROR_MEAN * 256))]
        self.channels = 0
        self.sums = np.zeros(len(k_below), np.int64)

    def count(self, errors: Floats) -> None:
        """Of one channel."""
        sizes = np.minimum(np.rint(abs(errors) * np.float32(ERROR_UNITS)), ERROR_UNITS_MAX)
        self.sums += sizes.astype(np.int64)
        self.channels += 1
        if self.channels % K_EVERY == 0:
            self.k = np.array([step_of((first + 256 * int(total)) //
                                       (K_FIRST_COUNTS + self.channels))
                               for first, total in zip(self.first, self.sums)], np.int64)

    def of_layer(self) -> Integers:
        """For the layer above."""
        return np.array([step_of(256 * int(total) // self.channels) for total in self.sums],
                        np.int64)


# Given a channel's number in coding order, and the mu and sigma class of each token: its patterns.
NextChannel = Callable[[int, Floats, Integers], Integers]


class LayerDecoder:
    """Goes through the layers of a block from the lowest up. Patterns and numbers of a layer are
    [C][tokens], in coding order; errors and what is expected are in sigmas of their channel."""

    def __init__(self, model: Model, shape: Shape, first_position: int):
        self.model, self.shape = model, shape
        turn_once = 1 << TURN_BITS
        angles = [np.array([(first_position + token) % turn_once * int(step) % turn_once
                            for token in range(shape.tokens)], np.int64) for step in model.steps]
        self.cosines = [cosine_of(angle) for angle in angles]
        self.sines = [cosine_of((angle - turn_once // 4) % turn_once) for angle in angles]
        self.inputs: list[Integers] = []  # of the layers so far
        self.k_below = np.zeros(shape.tokens, np.int64)

    def decode(self, data: bytes) -> Integers:
        """The patterns of the next layer, whose chain is `data`."""
        many = len(self.model.channels) * self.shape.tokens >= MANY_SCALARS
        chain = Chain(data, LANES_MANY if many else LANES, self.model.frequencies)

        def next_channel(_: int, mu: Floats, classes: Integers) -> Integers:
            return np.array([chain.scalar(token, Grid(float(of_token), int(sigma_class),
                                                      self.shape.scalar))
                             for token, (of_token, sigma_class) in enumerate(zip(mu, classes))],
                            np.int64)

        patterns = self.go_through(next_channel)
        chain.end()
        return patterns

    def known(self, patterns: Integers) -> None:
        """Of the next layer, which is raw."""
        self.go_through(lambda c, mu, classes: patterns[c])

    def go_through(self, next_channel: NextChannel) -> Integers:
        layer = self.model.layers[len(self.inputs)]
        with np.errstate(all="ignore"):
            expected, token_scale = self.from_below(layer), TokenScale(layer, self.k_below)
            patterns = np.zeros(expected.shape, np.int64)
            values, errors = np.zeros_like(expected), np.zeros_like(expected)
            end = 0
            while end < len(expected):
                begin = end
                end += 1 if self.model.channels[begin].pair is None else 2
                now = slice(begin, end)
                patterns[now], values[now], errors[now] = self.code(
                    layer, begin, expected[now], token_scale.k, next_channel)
                for error in errors[now]:
                    token_scale.count(error)
                self.learn(layer, begin, end, errors, expected)
                if end % PANEL == 0:
                    self.learn_from_panel(layer, end, errors, token_scale.k, expected)
            q = (values - layer.mean[:, None]) * layer.input_scale[:, None]
            self.inputs.append(np.where(np.isfinite(q), to_int8(q), 0))
        self.k_below = token_scale.of_layer()
        return patterns

    def code(self, layer: LayerModel, begin: int, expected: Floats, k: Integers,
             next_channel: NextChannel) -> tuple[Integers, Floats, Floats]:
        """Patterns, un-rotated numbers and errors of a channel, or of both channels of a pair:
        each [1 or 2][tokens], as `expected` is."""
        pair, sigma_class = self.model.channels[begin].pair, int(layer.sigma_class[begin])
        sigma, per_sigma = scale(np.array([sigma_class, -sigma_class]))
        if pair is not None:
            expected = turn(expected, self.cosines[pair], self.sines[pair])
        patterns = np.array([next_channel(begin + i, row * sigma, sigma_class + k)
                             for i, row in enumerate(expected)])
        values = numbers_of(patterns, self.shape.scalar)
        errors = values * per_sigma - expected
        errors = np.where(np.isfinite(errors), np.clip(errors, -ERROR_MAX, ERROR_MAX),
                          np.float32(0))
        if pair is not None:
            errors = turn(errors, self.cosines[pair], -self.sines[pair])
            values = turn(values, self.cosines[pair], -self.sines[pair])
        return patterns, values, errors

    def from_below(self, layer: LayerModel) -> Floats:
        """What the layers below tell."""
        shape = (len(self.model.channels), self.shape.tokens)
        inputs = self.inputs[::-1][:layer.below]
        sums = layer.map @ np.concatenate(inputs) if inputs else np.zeros(shape, np.int64)
        return fma(sums.astype(np.float32), layer.map_scale[:, None], layer.bias[:, None])

    @staticmethod
    def learn(layer: LayerModel, begin: int, end: int, errors: Floats, expected: Floats) -> None:
        """What channels begin.. tell of those from `end` on in their panel."""
        panel_end = min(begin // PANEL * PANEL + PANEL, len(expected))
        for c in range(begin, end):
            expected[end:panel_end] = fma(errors[c], layer.in_panel[end:panel_end, c % PANEL, None],
                                          expected[end:panel_end])

    @staticmethod
    def learn_from_panel(layer: LayerModel, end: int, errors: Floats, k: Integers,
                         expected: Floats) -> None:
        """What the panel before `end` tells of all channels from there on."""
        inputs = to_int8(errors[end - PANEL:end] * (scale(-k) * np.float32(ERROR_INT8_UNITS)))
        sums = layer.joint[end:, end - PANEL:end] @ inputs
        expected[end:] = fma(sums.astype(np.float32), layer.joint_scale[end:, None] * scale(k),
                             expected[end:])


def decode_layers(model: Model, shape: Shape, first_position: int,
                  parts: Sequence[tuple[bool, bytes]]) -> list[list[bytes]]:
    """The scalars of each sub-stream of a block in the order of their addresses. `parts`: of each
    sub-stream, whether it is linear, and its bytes in the frame."""
    decoder, size = LayerDecoder(model, shape, first_position), shape.scalar.size
    sides = [[c for c, channel in enumerate(model.channels) if channel.side == side]
             for side in range(shape.sides)]
    substreams = []
    for layer in range(shape.layers):
        first = layer * shape.sides
        # Of each side: a channel in coding order, the rank of its tokens among the addresses.
        ranks = [ranks_of(shape, first + side) for side in range(shape.sides)]
        if parts[first][0]:
            patterns = decoder.decode(parts[first][1])
        else:
            patterns = np.zeros((len(model.channels), shape.tokens), np.int64)
            for side, of_side in enumerate(sides):
                scalars = np.frombuffer(parts[first + side][1], f"<u{size}")
                for c in of_side:
                    patterns[c] = scalars[ranks[side][model.channels[c].number]]
            decoder.known(patterns)
        for side, of_side in enumerate(sides):
            scalars = np.zeros(ranks[side].size, f"<u{size}")
            for c in of_side:
                scalars[ranks[side][model.channels[c].number]] = patterns[c]
            substreams.append([scalar.tobytes() for scalar in scalars])
    return substreams


def ranks_of(shape: Shape, substream: int) -> Integers:
    """[channels][tokens]: which of the sub-stream's scalars, by address, each one is."""
    at = np.array(places(shape, substream)).reshape(-1, shape.tokens)
    return np.argsort(np.argsort(at, axis=None)).reshape(at.shape)
