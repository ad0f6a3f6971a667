"""The byte stream: messages are cut right, and anything else ends as a ProtocolError."""

from __future__ import annotations

import msgpack
import numpy as np
import pytest
from peer import message

from kvstrata import ProtocolError
from kvstrata.checksum import xxh3_64_numpy
from kvstrata.protocol import HEADER, MAGIC, Body, Message, MessageReader, Request, Verb


def feed(data: bytes, sizes: list[int]) -> list[Message]:
    """Receives ``data`` in pieces of these sizes, then byte by byte."""
    reader, messages, at = MessageReader(), [], 0
    for size in [*sizes, *[1] * len(data)]:
        if at == len(data):
            break
        buffer = reader.buffer()
        size = max(1, min(size, len(buffer), len(data) - at))
        buffer[:size] = data[at : at + size]
        at += size
        messages += reader.advance(size)
    return messages


def test_messages_come_out_whole_however_the_stream_is_cut(rng: np.random.Generator) -> None:
    for _ in range(50):
        wanted = []
        for request_id in range(rng.integers(1, 8)):
            body = {"n": int(rng.integers(1 << 40)), "b": rng.bytes(rng.integers(0, 300))}
            payload = rng.bytes(int(rng.choice([0, 1, 100, 70_000, 200_000])))
            wanted.append((request_id, body, payload))
        stream = b"".join(message(Verb.GET, 1, 0, i, body, payload) for i, body, payload in wanted)
        sizes = [int(rng.integers(1, 100_000)) for _ in range(40)]
        got = [(m.request_id, dict(m.body.map), m.payload.tobytes()) for m in feed(stream, sizes)]
        assert got == wanted[: len(got)]
        assert len(got) == len(wanted)


@pytest.mark.parametrize(
    "header",
    [
        (MAGIC + 1, 1, 1, 0, 1, 0, 0, 0, 0),
        (MAGIC, 0, 1, 0, 1, 0, 0, 0, 0),
        (MAGIC, 31, 1, 0, 1, 0, 0, 0, 0),
        (MAGIC, 1, 0, 0, 1, 0, 0, 0, 0),
        (MAGIC, 1, 3, 0, 1, 0, 0, 0, 0),
        (MAGIC, 1, 1, 0, 1, (1 << 20) + 1, 0, 0, 0),
        (MAGIC, 1, 1, 0, 1, 0, 33, 0, 0),
        (MAGIC, 1, 1, 0, 1, 0, 0, 1, 0),
        (MAGIC, 1, 1, 0, 1, 0, 0, 0, (1 << 30) + 1),
        (MAGIC, 1, 1, 0, 1, 0, 0, 0, (1 << 64) - 1),
    ],
)
def test_a_broken_header_is_refused_before_memory_is_taken(header: tuple[int, ...]) -> None:
    with pytest.raises(ProtocolError):
        feed(HEADER.pack(*header), [])


@pytest.mark.parametrize("body", [b"\xc1", b"\x93\x01", msgpack.packb([1]), b"\x81\xa1\xff\x01"])
def test_a_body_that_is_not_a_map_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        feed(HEADER.pack(MAGIC, 1, 1, 0, 1, len(body), 0, 0, 0) + body, [])


def test_random_bytes_end_as_messages_or_protocol_errors(rng: np.random.Generator) -> None:
    good = message(Verb.LOAD, 1, 0, 7, {"status": b"\0", "refs": bytes(40)}, b"payload")
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(rng.integers(1, 5)):
            data[rng.integers(len(data))] = rng.integers(256)
        try:
            feed(bytes(data), [int(rng.integers(1, 60))])
        except ProtocolError:
            continue


def test_a_missing_file_descriptor_is_refused() -> None:
    with pytest.raises(ProtocolError, match="file descriptors are missing"):
        feed(message(Verb.LOAD, 1, 0, 1, {}, b"", fds=1), [])


def test_fields_of_a_wrong_type_are_named() -> None:
    body = Body({"n": -1, "flag": True, "text": b"x"}, "LOOKUP")
    for read in (
        lambda: body.number("n"),
        lambda: body.number("flag"),
        lambda: body.text("text"),
        lambda: body.binary("absent"),
        lambda: body.array("n"),
        lambda: body.flag("n"),
    ):
        with pytest.raises(ProtocolError, match="LOOKUP: field '"):
            read()
    assert body.number("absent", 5) == 5


def test_a_request_over_the_limits_is_never_sent() -> None:
    with pytest.raises(ProtocolError, match="exceed the limits"):
        Request(Verb.PUT, {"x": bytes(1 << 20)}).encode(1, None)


XXH3 = (  # of (131 * i mod 251) for i < length, by xxhash 0.8
    (0, 0x2D06800538D394C2),
    (1, 0xC44BDFF4074EECDB),
    (3, 0xC3ABF7AE2E250B5A),
    (4, 0x6E5C9679D43C1E41),
    (8, 0x2C2127BBB99B325E),
    (9, 0x8436430B381F7FD6),
    (16, 0xBEA42F62EAC454D0),
    (17, 0xC5BC95C990FC83B4),
    (128, 0x3D41CAA0B80A4385),
    (129, 0x287795AEC899CB57),
    (240, 0x4DA2AB7921D06C5E),
    (241, 0x179EAD905BF75A05),
    (1024, 0x89AFEBE614A926D7),
    (1025, 0x6D6273CFFCF616F7),
    (262143, 0x101C1C891F9A0282),
)


@pytest.mark.parametrize(("length", "checksum"), XXH3)
def test_xxh3_without_the_library_gives_its_numbers(length: int, checksum: int) -> None:
    data = (np.arange(length, dtype=np.uint32) * 131 % 251).astype(np.uint8)
    assert xxh3_64_numpy(data) == checksum


def test_xxh3_without_the_library_agrees_at_all_lengths(rng: np.random.Generator) -> None:
    xxhash = pytest.importorskip("xxhash")
    for length in [*range(300), 511, 1023, 1024, 1025, 1088, 2048, 2049, 262_144, 1_048_999]:
        data = rng.integers(0, 256, length, dtype=np.uint8)
        assert xxh3_64_numpy(data) == xxhash.xxh3_64_intdigest(data.tobytes()), length
