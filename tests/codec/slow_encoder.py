"""The way back of slow_decoder.py: what the page says of a frame decides its bytes.

Tests make frames with it, and compare what the codec wrote.
"""

from collections.abc import Callable, Sequence

from slow_decoder import ENTRY, HEADER, HEADER_SUMMED_BYTES, RAW, STATIC
from slow_shape import OPAQUE_PIECE_BYTES, Scalar, Shape, places, sum_of
from slow_static import (
    STATE_MIN,
    STEP,
    STREAM_HEADER,
    SYMBOLS,
    TABLE,
    TABLES_HEADER,
    Lane,
    Table,
    Tables,
    bytes_in_states,
    lanes_of,
    planes_of,
    raw_bits_of,
)


def encode_tables(tables: Sequence[Table], index: bytes, shape: Shape) -> bytes:
    body = b"".join(TABLE.pack(table.frequencies, table.keys, table.sign_mask, table.sign_coded, 0)
                    for table in tables) + index
    layers, channels = (0, (0, 0)) if shape.opaque else (
        shape.layers, (shape.channels(0), shape.channels(1)))
    return TABLES_HEADER.pack(b"KVST", 1, shape.scalar.number, shape.opaque, 0, layers, *channels,
                              len(tables), 0, sum_of(body)) + body


def symbol_of(table: Table, sign: int, key: int) -> int:
    """The symbol of a scalar, or its escape."""
    for symbol in range(table.escape):
        names_key = table.frequencies[symbol] > 0 and table.keys[symbol] == key
        if names_key and (not table.sign_coded or table.sign_of(symbol) == sign):
            return symbol
    return table.escape + (sign if table.sign_coded else 0)


def rans_of(lanes: Sequence[Lane], symbols: Sequence[int], states: list[int]) -> bytes:
    """Codes from the last lane to the first, from the end states to the first ones in `states`."""
    rans = bytearray()
    for number in reversed(range(len(lanes))):
        table, symbol, state = lanes[number].table, symbols[number], states[number % STEP]
        frequency = table.frequencies[symbol]
        if state >= frequency << 8:
            rans.append(state & 255)
            state >>= 8
        begin = sum(table.frequencies[:symbol])
        states[number % STEP] = state // frequency << 8 | begin + state % frequency
    return bytes(reversed(rans))


def planes_of_step(numbers: Sequence[int], width: int) -> list[bytes]:
    planes = []
    for at, bits in planes_of(width):
        plane = bytearray(STEP * bits // 8)
        for lane, number in enumerate(numbers):
            group, byte = divmod(lane, len(plane))
            plane[byte] |= (number >> at & (1 << bits) - 1) << bits * group
        planes.append(bytes(plane))
    return planes


def encode_static(values: Sequence[int], scalar: Scalar, tables: list[Table],
                  of_channels: list[int], tokens: int, tail: bytes) -> bytes:
    """A sub-stream of scalars given channel by channel."""
    lanes = lanes_of(tables, of_channels, tokens)
    symbols, numbers, escaped = [0] * len(lanes), [0] * len(lanes), bytearray()
    for at, lane in enumerate(lanes):
        if lane.scalar is None:
            continue
        sign, key, mantissa = scalar.cut(values[lane.scalar])
        symbols[at] = symbol_of(lane.table, sign, key)
        numbers[at] = mantissa if lane.table.sign_coded else sign << scalar.mantissa_bits | mantissa
        if symbols[at] >= lane.table.escape:
            escaped.append(key)

    raw_bits, states = b"", [STATE_MIN] * STEP
    for first in range(0, len(lanes), STEP):
        width = raw_bits_of(lanes[first].table, scalar)
        packed = b"".join(planes_of_step(numbers[first:first + STEP], width))
        if first + STEP == len(lanes):
            moved = bytes_in_states(width)
            states[:moved] = [STATE_MIN + byte for byte in packed[:moved]]
            packed = packed[moved:]
        raw_bits += packed
    rans = rans_of(lanes, symbols, states)
    header = STREAM_HEADER.pack(len(rans), len(escaped), bytes(state & 255 for state in states),
                                bytes(state >> 8 for state in states))
    return header + rans + escaped + raw_bits + tail


def decoded_substream(payload: bytes, shape: Shape, index: int) -> bytes:
    """The bytes of one sub-stream, at rising addresses."""
    if shape.opaque:
        return payload[index * OPAQUE_PIECE_BYTES:(index + 1) * OPAQUE_PIECE_BYTES]
    size = shape.scalar.size
    return b"".join(payload[place * size:(place + 1) * size]
                    for place in sorted(places(shape, index)))


def static_substream(payload: bytes, shape: Shape, index: int, tables: Tables,
                     table: int = 0) -> bytes:
    """A sub-stream of the payload; opaque ones with this table."""
    size, tail = shape.scalar.size, b""
    of_channels, tokens = tables.of_channels(shape, index, table)
    data, at = payload, places(shape, index) if not shape.opaque else range(tokens)
    if shape.opaque:
        data = decoded_substream(payload, shape, index)
        tail = data[tokens * size:]
    values = [int.from_bytes(data[place * size:(place + 1) * size], "little") for place in at]
    return encode_static(values, shape.scalar, tables.tables, of_channels, tokens, tail)


def sealed(codec: int, raw_bytes: int, tables_hash: int, payload_sum: int,
           entries: Sequence[tuple[int, ...]], substreams: bytes) -> bytes:
    """A frame of these parts, with sums that hold."""
    directory = b"".join(ENTRY.pack(*entry) for entry in entries)
    size = HEADER.size + len(directory) + len(substreams)
    header = HEADER.pack(b"KVSF", 1, codec, 0, raw_bytes, size, len(entries), 0, tables_hash,
                         payload_sum, sum_of(directory), 0)[:HEADER_SUMMED_BYTES]
    return header + sum_of(header).to_bytes(8, "little") + directory + substreams


def encode_frame(payload: bytes, shape: Shape, tables: Tables | None = None,
                 table_of_piece: Callable[[int], int] = lambda _: 0) -> bytes:
    """A static frame where that gains and there are tables, else a raw one."""
    entries, substreams = [], []
    for index in range(shape.substreams):
        decoded, kind, table = decoded_substream(payload, shape, index), RAW, 0
        encoded = decoded
        if tables is not None:
            used = table_of_piece(index) if shape.opaque else 0
            coded = static_substream(payload, shape, index, tables, used)
            if 64 * len(coded) <= 63 * len(decoded):
                encoded, kind, table = coded, STATIC, used
        entries.append((len(encoded), kind, table, 0, sum_of(decoded)))
        substreams.append(encoded)
    static = tables is not None and any(entry[1] == STATIC for entry in entries)
    return sealed(STATIC if static else RAW, len(payload),
                  tables.content_hash if static and tables else 0, sum_of(payload), entries,
                  b"".join(substreams))


def fitted_table(counts: dict[tuple[int, int], int], sign_coded: bool) -> Table:
    """A table of the most common (sign, key) pairs, not the best one. With a raw sign, signs in
    `counts` do not matter."""
    merged: dict[tuple[int, int], int] = {}
    for (sign, key), count in counts.items():
        pair = (sign if sign_coded else 0, key)
        merged[pair] = merged.get(pair, 0) + count
    named = 14 if sign_coded else 15
    common = sorted(merged, key=lambda pair: (-merged[pair], pair))[:named]
    total = sum(merged[pair] for pair in common)
    spare = 256 - SYMBOLS
    frequencies = [1 + merged[pair] * spare // total for pair in common] + [0] * (
        named - len(common)) + [1] * (SYMBOLS - named)
    frequencies[0] += 256 - sum(frequencies)
    mask = sum(sign << symbol for symbol, (sign, _) in enumerate(common))
    return Table(bytes(frequencies), bytes([key for _, key in common] + [0] * (16 - len(common))),
                 mask | 0x8000 if sign_coded else 0, sign_coded)
