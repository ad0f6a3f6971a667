"""What tests decode slowly: payloads and tables made up here, damaged frames, those of a folder."""

import dataclasses
import json
import os
import pathlib
import random

from slow_decoder import decode_frame
from slow_encoder import encode_tables, fitted_table
from slow_shape import FrameError, Shape, places

SEED = int(os.environ.get("KVSTRATA_SEED") or random.randrange(1 << 32))


def made_payload(shape: Shape, rng: random.Random) -> bytes:
    """Scalars whose keys are close to each other, most with the sign of their channel; a few are
    anything, NaN too."""
    scalar = shape.scalar

    def value(base: int, sign: int) -> int:
        if rng.random() < 0.02:
            return rng.getrandbits(8 * scalar.size)
        key = min(max(base + int(rng.gauss(0, 0.7)), 0), (1 << scalar.key_bits) - 1)
        sign = sign if rng.random() < 0.97 else 1 - sign
        return scalar.joined(sign & scalar.sign_bits, key, rng.getrandbits(scalar.mantissa_bits))

    if shape.opaque:
        count = shape.opaque_bytes // scalar.size
        whole = b"".join(value(5, 1).to_bytes(scalar.size, "little") for _ in range(count))
        return whole + rng.randbytes(shape.opaque_bytes % scalar.size)
    payload = bytearray(shape.payload_bytes)
    for index in range(shape.substreams):
        at = places(shape, index)
        for first in range(0, len(at), shape.tokens):
            base, sign = 5 + rng.randrange(3), rng.getrandbits(1)
            for place in at[first:first + shape.tokens]:
                payload[place * scalar.size:(place + 1) * scalar.size] = value(base, sign).to_bytes(
                    scalar.size, "little")
    return bytes(payload)


def made_tables(payload: bytes, shape: Shape, rng: random.Random, coded: int, raw: int) -> bytes:
    """`coded` tables that code the sign, then `raw` that don't; each channel takes any of them."""
    scalar, size = shape.scalar, shape.scalar.size
    coded = coded if scalar.sign_bits else 0
    counts: list[dict[tuple[int, int], int]] = [{} for _ in range(coded + raw)]
    index = bytearray()

    def count(data: bytes, table: int) -> None:
        sign, key, _ = scalar.cut(int.from_bytes(data, "little"))
        counts[table][sign, key] = counts[table].get((sign, key), 0) + 1

    if shape.opaque:
        for at in range(0, len(payload) - size + 1, size):
            count(payload[at:at + size], rng.randrange(coded + raw))
    else:
        for substream in range(shape.substreams):
            of_substream = places(shape, substream)
            for first in range(0, len(of_substream), shape.tokens):
                index.append(rng.randrange(coded + raw))
                for place in of_substream[first:first + shape.tokens]:
                    count(payload[place * size:(place + 1) * size], index[-1])
    fitted = [fitted_table(table_counts or {(0, 0): 1}, number < coded)
              for number, table_counts in enumerate(counts)]
    return encode_tables(fitted, bytes(index), shape)


def flips_of(data: bytes) -> list[tuple[int, bytes]]:
    """Each byte changed in one bit."""
    return [(at, data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:])
            for at in range(len(data))]


def accepted_flips(frame: bytes, shape: Shape, parameters: bytes | None) -> list[int]:
    """Which bytes can change in one bit and nothing is noticed."""
    found = []
    for at, damaged in flips_of(frame):
        try:
            decode_frame(damaged, shape, parameters)
        except FrameError:
            continue
        found.append(at)
    return found


@dataclasses.dataclass(frozen=True)
class Sample:
    """A frame somebody else wrote, and what it must decode to."""

    name: str
    shape: Shape
    frame: bytes
    parameters: bytes | None
    payload: bytes


def samples_of(folder: pathlib.Path) -> list[Sample]:
    """NAME.json has the fields of Shape, those with a default if they matter; beside it lie
    NAME.frame, NAME.payload and, for frames that need parameters, NAME.parameters."""
    found = []
    for path in sorted(folder.glob("*.json")):
        parameters = path.with_suffix(".parameters")
        found.append(Sample(
            path.stem, Shape(**json.loads(path.read_text(encoding="utf-8"))),
            path.with_suffix(".frame").read_bytes(),
            parameters.read_bytes() if parameters.exists() else None,
            path.with_suffix(".payload").read_bytes()))
    return found
