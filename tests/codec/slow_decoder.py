"""A second decoder of frames: plain, slow, and sharing no code with the one in codec/.

Written from doc/frame-format.md alone, so that the page is known to suffice.
"""

import dataclasses
import struct

from slow_shape import PAYLOAD_BYTES_MAX, Shape, Unsupported, places, require, sum_of
from slow_static import Tables, decode_static, parse_tables

HEADER = struct.Struct("<4sBBHQQIIQQQQ")
HEADER_SUMMED_BYTES = 56
ENTRY = struct.Struct("<IBBHQ")
SUBSTREAMS_MAX = 2048
RAW, STATIC, LINEAR, PREDICTOR = range(4)


@dataclasses.dataclass(frozen=True)
class Entry:
    """What the directory says of one sub-stream."""

    encoded_bytes: int
    static: bool
    table: int
    decoded_sum: int


@dataclasses.dataclass(frozen=True)
class Frame:
    """A frame whose header and directory are checked, and fit the shape."""

    static: bool
    tables_hash: int
    payload_sum: int
    entries: list[Entry]
    substreams: list[bytes]


def parse_frame(data: bytes, shape: Shape) -> Frame:
    """Checks all that can be checked without decoding a sub-stream."""
    require(len(data) >= HEADER.size, "frame: shorter than its header")
    (magic, version, codec, reserved, raw_bytes, frame_bytes, substreams, reserved_too, tables_hash,
     payload_sum, directory_sum, header_sum) = HEADER.unpack_from(data)
    require(magic == b"KVSF", "frame: magic")
    require(sum_of(data[:HEADER_SUMMED_BYTES]) == header_sum, "frame: sum of the header")
    if version != 1:
        raise Unsupported(f"frame: version {version}")
    if codec in (LINEAR, PREDICTOR):
        raise Unsupported(f"frame: codec {codec}")
    require(codec in (RAW, STATIC), f"frame: codec is {codec}")
    require(reserved == 0 and reserved_too == 0, "frame: reserved bytes of the header")
    require(raw_bytes <= PAYLOAD_BYTES_MAX, f"frame: {raw_bytes} raw bytes")
    require(substreams <= SUBSTREAMS_MAX, f"frame: {substreams} sub-streams")
    require(frame_bytes <= HEADER.size + substreams * ENTRY.size + raw_bytes,
            "frame: longer than a raw one")
    require(frame_bytes == len(data), f"frame: {len(data)} bytes, its header says {frame_bytes}")
    require(raw_bytes == shape.payload_bytes and substreams == shape.substreams,
            "frame: of another shape")
    require(codec == STATIC or tables_hash == 0, "frame: a raw one names tables")

    directory_end = HEADER.size + substreams * ENTRY.size
    require(frame_bytes >= directory_end, "frame: shorter than its directory")
    directory = data[HEADER.size:directory_end]
    require(sum_of(directory) == directory_sum, "frame: sum of the directory")
    entries = [parse_entry(fields, number, codec, shape)
               for number, fields in enumerate(ENTRY.iter_unpack(directory))]
    require(codec == RAW or any(entry.static for entry in entries),
            "frame: a static one without a static sub-stream")
    require(directory_end + sum(entry.encoded_bytes for entry in entries) == frame_bytes,
            "frame: the lengths of its sub-streams do not add up")
    parts, at = [], directory_end
    for entry in entries:
        parts.append(data[at:at + entry.encoded_bytes])
        at += entry.encoded_bytes
    return Frame(codec == STATIC, tables_hash, payload_sum, entries, parts)


def parse_entry(fields: tuple[int, ...], number: int, codec: int, shape: Shape) -> Entry:
    encoded_bytes, kind, table, reserved, decoded_sum = fields
    name = f"entry {number}"
    require(reserved == 0, f"{name}: reserved bytes")
    require(kind in (RAW, STATIC), f"{name}: kind is {kind}")
    require(codec == STATIC or kind == RAW, f"{name}: static in a raw frame")
    require(kind == STATIC or encoded_bytes == shape.substream_bytes(number),
            f"{name}: {encoded_bytes} raw bytes")
    require(table == 0 or (shape.opaque and kind == STATIC), f"{name}: names table {table}")
    return Entry(encoded_bytes, kind == STATIC, table, decoded_sum)


def decode_substream(frame: Frame, number: int, shape: Shape, tables: Tables | None) -> list[bytes]:
    """The scalars of a sub-stream in the order of their addresses, and the tail if there is one."""
    entry, data, size = frame.entries[number], frame.substreams[number], shape.scalar.size
    tail_bytes = shape.substream_bytes(number) % size
    if not entry.static:
        scalars = [data[at:at + size] for at in range(0, len(data), size)]
    else:
        assert tables is not None  # decode_frame() has seen to it
        of_channels, tokens = tables.of_channels(shape, number, entry.table)
        values, tail = decode_static(data, shape.scalar, tables.tables, of_channels, tokens,
                                     tail_bytes)
        if not shape.opaque:
            by_address = sorted(zip(places(shape, number), values))
            values = [value for _, value in by_address]
        scalars = [value.to_bytes(size, "little") for value in values] + [tail]
    require(sum_of(b"".join(scalars)) == entry.decoded_sum, f"sub-stream {number}: its sum")
    return scalars


def decode_frame(data: bytes, shape: Shape, tables_data: bytes | None = None) -> bytes:
    """The payload of a frame. Raises FrameError if the frame, or the tables, must be refused."""
    frame, tables = parse_frame(data, shape), None
    if frame.static:
        require(tables_data is not None, "frame: static, but there are no tables")
        tables = parse_tables(tables_data or b"", shape)
        require(tables.content_hash == frame.tables_hash, "frame: names other tables")
    substreams = [decode_substream(frame, number, shape, tables)
                  for number in range(len(frame.entries))]
    if shape.opaque:
        payload = b"".join(part for scalars in substreams for part in scalars)
    else:
        placed = [b""] * (shape.payload_bytes // shape.scalar.size)
        for number, scalars in enumerate(substreams):
            for place, scalar in zip(sorted(places(shape, number)), scalars):
                placed[place] = scalar
        payload = b"".join(placed)
    require(sum_of(payload) == frame.payload_sum, "frame: sum of the payload")
    return payload
