"""Tables, and the static sub-streams coded with them, decoded one lane at a time.

Written from doc/frame-format.md alone, for reading beside it; nothing here is meant to be fast.
"""

import dataclasses
import functools
import struct

from slow_shape import Scalar, Shape, Unsupported, require, sum_of

UNIT, STEP = 16, 128
SYMBOLS = 16
STATE_MIN = 256
STREAM_HEADER = struct.Struct("<II128s128s")
TABLES_HEADER = struct.Struct("<4sBBBBIIIHHQ")
TABLE = struct.Struct("<16s16sHBB")
TABLES_MAX = 256


@dataclasses.dataclass(frozen=True)
class Table:
    """What the 16 symbols of some channels mean, and how often they are."""

    frequencies: bytes
    keys: bytes
    sign_mask: int
    sign_coded: bool

    @property
    def escape(self) -> int:
        """The first symbol that is an escape; those after it are escapes too."""
        return 14 if self.sign_coded else 15

    def sign_of(self, symbol: int) -> int:
        return self.sign_mask >> symbol & 1

    @functools.cached_property
    def by_slot(self) -> list[tuple[int, int]]:
        """For each of 256 slots the symbol it lies in, and where that symbol begins."""
        found: list[tuple[int, int]] = []
        for symbol, frequency in enumerate(self.frequencies):
            found += [(symbol, len(found))] * frequency
        return found

    def check(self, name: str, scalar: Scalar) -> None:
        require(sum(self.frequencies) == 256, f"{name}: the sum of its frequencies")
        for symbol in (0, *range(self.escape, SYMBOLS)):
            require(self.frequencies[symbol] > 0, f"{name}: symbol {symbol} has frequency 0")
        pairs = []
        for symbol, (frequency, key) in enumerate(zip(self.frequencies, self.keys)):
            if symbol >= self.escape or frequency == 0:
                require(key == 0, f"{name}: symbol {symbol} names no key, but has one")
            else:
                require(key >> scalar.key_bits == 0, f"{name}: symbol {symbol} has a wide key")
                pairs.append((self.sign_of(symbol), key))
        require(len(set(pairs)) == len(pairs), f"{name}: two symbols mean the same")
        if self.sign_coded:
            require(scalar.sign_bits == 1, f"{name}: codes the sign of a type without one")
            require(self.sign_mask >> 14 == 0b10, f"{name}: signs of the escapes")
        else:
            require(self.sign_mask == 0, f"{name}: has signs, but does not code them")


@dataclasses.dataclass(frozen=True)
class Tables:
    """The tables of one shape, checked; `index` has the table of each channel of each layer."""

    tables: list[Table]
    index: bytes
    content_hash: int

    def of_channels(self, shape: Shape, substream: int, table: int) -> tuple[list[int], int]:
        """The number of the table of each channel of a sub-stream, and the scalars a channel has.
        `table` is what the directory says."""
        if shape.opaque:
            require(table < len(self.tables), f"sub-stream {substream}: there is no table {table}")
            return [table], shape.substream_bytes(substream) // shape.scalar.size
        layer, side = divmod(substream, shape.sides)
        first = layer * (shape.channels(0) + shape.channels(1)) + (shape.channels(0) if side else 0)
        return list(self.index[first:first + shape.channels(side)]), shape.tokens


def parse_tables(data: bytes, shape: Shape) -> Tables:
    """Reads tables that must be of this shape."""
    require(len(data) >= TABLES_HEADER.size, "tables: shorter than their header")
    (magic, version, dtype, opaque, reserved, layers, channels_k, channels_v, count, reserved_too,
     body_sum) = TABLES_HEADER.unpack_from(data)
    require(magic == b"KVST", "tables: magic")
    if version != 1:
        raise Unsupported(f"tables: version {version}")
    require(reserved == 0 and reserved_too == 0, "tables: reserved bytes of the header")
    require(dtype == shape.scalar.number, f"tables: of dtype {dtype}, not {shape.dtype}")
    require(opaque == shape.opaque, f"tables: opaque is {opaque}")
    wanted = (0, 0, 0) if shape.opaque else (shape.layers, shape.channels(0), shape.channels(1))
    require((layers, channels_k, channels_v) == wanted, "tables: of another shape")
    require(1 <= count <= TABLES_MAX, f"tables: count is {count}")
    index_at = TABLES_HEADER.size + count * TABLE.size
    require(len(data) == index_at + layers * (channels_k + channels_v), "tables: length")
    require(sum_of(data[TABLES_HEADER.size:]) == body_sum, "tables: sum of the body")

    tables: list[Table] = []
    for number in range(count):
        name = f"table {number}"
        frequencies, keys, sign_mask, sign_coded, reserved = TABLE.unpack_from(
            data, TABLES_HEADER.size + number * TABLE.size)
        require(sign_coded <= 1, f"{name}: sign_coded is {sign_coded}")
        require(reserved == 0, f"{name}: reserved byte")
        require(not sign_coded or all(table.sign_coded for table in tables),
                f"{name}: codes the sign, but is after one that does not")
        tables.append(Table(frequencies, keys, sign_mask, bool(sign_coded)))
        tables[-1].check(name, shape.scalar)
    index = data[index_at:]
    require(all(number < count for number in index), "tables: the index names a missing table")
    return Tables(tables, index, sum_of(data))


@dataclasses.dataclass(frozen=True)
class Lane:
    """One lane of a step: the table it uses, and the number of its scalar, channel by channel;
    None in padding."""

    table: Table
    scalar: int | None


def lanes_of(tables: list[Table], of_channels: list[int], tokens: int) -> list[Lane]:
    """All lanes of a sub-stream in their order. `of_channels` has the table number of each."""
    lanes: list[Lane] = []

    def fill(multiple: int) -> None:
        while len(lanes) % multiple:
            lanes.append(Lane(lanes[-1].table, None))

    for sign_coded in (True, False):
        for number, table in enumerate(tables):
            if table.sign_coded == sign_coded:
                lanes += [Lane(table, channel * tokens + token)
                          for channel, used in enumerate(of_channels) if used == number
                          for token in range(tokens)]
                fill(UNIT)
        fill(STEP)
    return lanes


def raw_bits_of(table: Table, scalar: Scalar) -> int:
    """Bits of a lane that are not entropy-coded: `w` of the page."""
    return scalar.mantissa_bits + (0 if table.sign_coded else scalar.sign_bits)


def planes_of(width: int) -> list[tuple[int, int]]:
    """The planes of numbers of `width` bits, in their order: (lowest bit, bits)."""
    planes = [(8 * byte, 8) for byte in range(width // 8)]
    at = width // 8 * 8
    for bits in (4, 2, 1):
        if width & bits:
            planes.append((at, bits))
            at += bits
    return planes


class Part:
    """Bytes of a sub-stream that must be used up exactly."""

    def __init__(self, name: str, data: bytes):
        self.name, self.data, self.at = name, data, 0

    def take(self, size: int) -> bytes:
        require(size <= len(self.data) - self.at, f"{self.name}: too short")
        self.at += size
        return self.data[self.at - size:self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def end(self) -> None:
        require(self.at == len(self.data), f"{self.name}: {len(self.data) - self.at} left over")


def symbols_of(lanes: list[Lane], states: list[int], rans: Part) -> list[int]:
    """The symbol of each lane. Leaves the end states in `states`."""
    symbols = []
    for number, lane in enumerate(lanes):
        state = states[number % STEP]
        slot = state & 255
        symbol, begin = lane.table.by_slot[slot]
        state = lane.table.frequencies[symbol] * (state >> 8) + slot - begin
        if state < STATE_MIN:
            state = state << 8 | rans.byte()
        states[number % STEP] = state
        symbols.append(symbol)
    rans.end()
    return symbols


def bytes_in_states(width: int) -> int:
    """Bytes of the last step's raw bits that lie in the end states."""
    return min(STEP, STEP * width // 8)


def numbers_of(lanes: list[Lane], scalar: Scalar, states: list[int], raw_bits: Part) -> list[int]:
    """The raw bits of each lane; those of the last step begin in the end states."""
    numbers = []
    for first in range(0, len(lanes), STEP):
        width = raw_bits_of(lanes[first].table, scalar)
        in_states = bytes_in_states(width) if first + STEP == len(lanes) else 0
        packed = Part("raw bits of a step",
                      bytes(state & 255 for state in states[:in_states]) +
                      raw_bits.take(STEP * width // 8 - in_states))
        step = [0] * STEP
        for at, bits in planes_of(width):
            plane = packed.take(STEP * bits // 8)
            for lane in range(STEP):
                group, byte = divmod(lane, len(plane))
                step[lane] |= (plane[byte] >> bits * group & (1 << bits) - 1) << at
        numbers += step
    raw_bits.end()
    used = bytes_in_states(raw_bits_of(lanes[-1].table, scalar)) if lanes else 0
    for lane, state in enumerate(states):
        require(state >> 8 == 1 and (lane < used or state == STATE_MIN),
                f"end state of lane {lane} is {state}")
    return numbers


def decode_static(data: bytes, scalar: Scalar, tables: list[Table], of_channels: list[int],
                  tokens: int, tail_bytes: int) -> tuple[list[int], bytes]:
    """The scalars of a sub-stream, channel by channel, and the bytes after them."""
    require(len(data) >= STREAM_HEADER.size, "static: shorter than its header")
    rans_bytes, escapes, state_low, state_high = STREAM_HEADER.unpack_from(data)
    lanes = lanes_of(tables, of_channels, tokens)
    raw_bytes = sum(raw_bits_of(lane.table, scalar) for lane in lanes[::STEP]) * STEP // 8
    if lanes:
        raw_bytes -= bytes_in_states(raw_bits_of(lanes[-1].table, scalar))
    require(len(data) == STREAM_HEADER.size + rans_bytes + escapes + raw_bytes + tail_bytes,
            "static: the lengths of its parts do not add up")
    parts = Part("static", data[STREAM_HEADER.size:])
    rans, escaped, raw_bits = (
        Part(name, parts.take(size)) for name, size in
        (("rANS bytes", rans_bytes), ("escaped keys", escapes), ("raw bits", raw_bytes)))

    states = [high << 8 | low for low, high in zip(state_low, state_high)]
    require(all(state >= STATE_MIN for state in states), "static: a state below 256")
    symbols = symbols_of(lanes, states, rans)
    numbers = numbers_of(lanes, scalar, states, raw_bits)
    values = [0] * (len(of_channels) * tokens)
    for lane, symbol, number in zip(lanes, symbols, numbers):
        key = escaped.byte() if symbol >= lane.table.escape else lane.table.keys[symbol]
        require(key >> scalar.key_bits == 0, f"static: an escaped key is {key}")
        sign = (lane.table.sign_of(symbol) if lane.table.sign_coded
                else number >> scalar.mantissa_bits)
        value = scalar.joined(sign, key, number & (1 << scalar.mantissa_bits) - 1)
        if lane.scalar is None:
            filler = scalar.joined(lane.table.sign_of(0), lane.table.keys[0], 0)
            require(value == filler, f"static: padding is {value}, not {filler}")
        else:
            values[lane.scalar] = value
    escaped.end()
    return values, parts.take(tail_bytes)
