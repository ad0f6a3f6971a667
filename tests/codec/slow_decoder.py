"""A second decoder of frames: plain, slow, and sharing no code with the one in codec/.

Written from doc/frame-format.md alone, so that the page is known to suffice; linear layers by
doc/linear-codec.md and doc/linear-format.md.
"""

import dataclasses
import struct

from slow_linear import decode_layers, parse_model
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
    kind: int
    table: int
    decoded_sum: int

    @property
    def static(self) -> bool:
        return self.kind == STATIC


@dataclasses.dataclass(frozen=True)
class Frame:
    """A frame whose header and directory are checked, and fit the shape."""

    codec: int
    first_position: int
    parameters_hash: int
    payload_sum: int
    entries: list[Entry]
    substreams: list[bytes]

    @property
    def static(self) -> bool:
        return self.codec == STATIC


def parse_frame(data: bytes, shape: Shape) -> Frame:
    """Checks all that can be checked without decoding a sub-stream."""
    require(len(data) >= HEADER.size, "frame: shorter than its header")
    (magic, version, codec, reserved, raw_bytes, frame_bytes, substreams, first_position,
     parameters_hash, payload_sum, directory_sum, header_sum) = HEADER.unpack_from(data)
    require(magic == b"KVSF", "frame: magic")
    require(sum_of(data[:HEADER_SUMMED_BYTES]) == header_sum, "frame: sum of the header")
    if version != 1:
        raise Unsupported(f"frame: version {version}")
    if codec == PREDICTOR:
        raise Unsupported(f"frame: codec {codec}")
    require(codec in (RAW, STATIC, LINEAR), f"frame: codec is {codec}")
    require(reserved == 0, "frame: reserved bytes of the header")
    require(codec == LINEAR or first_position == 0, "frame: a position, but it is not linear")
    require(raw_bytes <= PAYLOAD_BYTES_MAX, f"frame: {raw_bytes} raw bytes")
    require(substreams <= SUBSTREAMS_MAX, f"frame: {substreams} sub-streams")
    require(frame_bytes <= HEADER.size + substreams * ENTRY.size + raw_bytes,
            "frame: longer than a raw one")
    require(frame_bytes == len(data), f"frame: {len(data)} bytes, its header says {frame_bytes}")
    require(raw_bytes == shape.payload_bytes and substreams == shape.substreams,
            "frame: of another shape")
    require(codec != RAW or parameters_hash == 0, "frame: a raw one names parameters")

    directory_end = HEADER.size + substreams * ENTRY.size
    require(frame_bytes >= directory_end, "frame: shorter than its directory")
    directory = data[HEADER.size:directory_end]
    require(sum_of(directory) == directory_sum, "frame: sum of the directory")
    entries = [parse_entry(fields, number, codec, shape)
               for number, fields in enumerate(ENTRY.iter_unpack(directory))]
    require(codec == RAW or any(entry.kind == codec for entry in entries),
            "frame: without a sub-stream of its codec")
    if codec == LINEAR:
        check_layers(entries, shape)
    require(directory_end + sum(entry.encoded_bytes for entry in entries) == frame_bytes,
            "frame: the lengths of its sub-streams do not add up")
    parts, at = [], directory_end
    for entry in entries:
        parts.append(data[at:at + entry.encoded_bytes])
        at += entry.encoded_bytes
    return Frame(codec, first_position, parameters_hash, payload_sum, entries, parts)


def parse_entry(fields: tuple[int, ...], number: int, codec: int, shape: Shape) -> Entry:
    encoded_bytes, kind, table, reserved, decoded_sum = fields
    name = f"entry {number}"
    require(reserved == 0, f"{name}: reserved bytes")
    require(kind in (RAW, STATIC, LINEAR), f"{name}: kind is {kind}")
    require(kind in (RAW, codec), f"{name}: is of kind {kind} in a frame of codec {codec}")
    require(kind != RAW or encoded_bytes == shape.substream_bytes(number),
            f"{name}: {encoded_bytes} raw bytes")
    require(table == 0 or (shape.opaque and kind == STATIC), f"{name}: names table {table}")
    return Entry(encoded_bytes, kind, table, decoded_sum)


def check_layers(entries: list[Entry], shape: Shape) -> None:
    """Of a linear frame: a layer is one chain, or raw."""
    for first in range(0, len(entries), shape.sides):
        layer = entries[first:first + shape.sides]
        require(len({entry.kind for entry in layer}) == 1, f"entry {first}: half a layer is linear")
        if layer[0].kind == LINEAR:
            decoded = sum(shape.substream_bytes(first + side) for side in range(shape.sides))
            require(layer[0].encoded_bytes < decoded, f"entry {first}: longer than a raw layer")
            require(all(entry.encoded_bytes == 0 for entry in layer[1:]),
                    f"entry {first}: two chains in a layer")


def decode_substream(frame: Frame, number: int, shape: Shape, tables: Tables | None) -> list[bytes]:
    """The scalars of a raw or static sub-stream in the order of their addresses, and the tail if
    there is one."""
    entry, data, size = frame.entries[number], frame.substreams[number], shape.scalar.size
    if not entry.static:
        return [data[at:at + size] for at in range(0, len(data), size)]
    assert tables is not None  # decode_substreams() has seen to it
    of_channels, tokens = tables.of_channels(shape, number, entry.table)
    values, tail = decode_static(data, shape.scalar, tables.tables, of_channels, tokens,
                                 shape.substream_bytes(number) % size)
    if not shape.opaque:
        by_address = sorted(zip(places(shape, number), values))
        values = [value for _, value in by_address]
    return [value.to_bytes(size, "little") for value in values] + [tail]


def decode_substreams(frame: Frame, shape: Shape, parameters: bytes | None) -> list[list[bytes]]:
    """Of each sub-stream the scalars in the order of their addresses."""
    require(frame.codec == RAW or parameters is not None, "frame: its parameters are not there")
    other = "frame: names other parameters"
    if frame.codec == LINEAR:
        model = parse_model(parameters or b"", shape)
        require(model.content_hash == frame.parameters_hash, other)
        parts = [(entry.kind == LINEAR, data)
                 for entry, data in zip(frame.entries, frame.substreams)]
        return decode_layers(model, shape, frame.first_position, parts)
    tables = None
    if frame.static:
        tables = parse_tables(parameters or b"", shape)
        require(tables.content_hash == frame.parameters_hash, other)
    return [decode_substream(frame, number, shape, tables) for number in range(len(frame.entries))]


def decode_frame(data: bytes, shape: Shape, parameters: bytes | None = None) -> bytes:
    """The payload of a frame. `parameters`: tables of a static one, the model of a linear one.
    Raises FrameError if the frame, or the parameters, must be refused."""
    frame = parse_frame(data, shape)
    substreams = decode_substreams(frame, shape, parameters)
    for number, (entry, scalars) in enumerate(zip(frame.entries, substreams)):
        require(sum_of(b"".join(scalars)) == entry.decoded_sum, f"sub-stream {number}: its sum")
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
