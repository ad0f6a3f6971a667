"""Frames decoded by what their pages alone say: doc/frame-format.md, doc/linear-codec.md and
doc/linear-format.md.

usage: slow_decoder_test.py [PROGRAM]   which writes frames of the codec: see samples_of()
"""

import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from fractions import Fraction

import numpy as np
from slow_cell import CONTEXTS, SYMBOLS
from slow_decoder import ENTRY, HEADER, LINEAR, STATIC, decode_frame, parse_frame
from slow_encoder import encode_frame, encode_tables, sealed, static_substream
from slow_float import fma
from slow_linear import MODEL_HEADER, parse_model
from slow_samples import SEED, Sample, accepted_flips, made_payload, made_tables, samples_of
from slow_shape import SCALARS, FrameError, Shape, Unsupported, places, sum_of
from slow_static import Lane, Part, Table, lanes_of, numbers_of, parse_tables, planes_of

PAGE = pathlib.Path(__file__).parents[2] / "doc" / "frame-format.md"
SMALL_FRAME_BYTES, SMALL_FRAMES_MAX = 2048, 8  # every byte of these is flipped
LINEAR_FLIPS = 10  # in a frame of each dtype
LAYOUTS = [
    {"layout": "LSPHTC"},
    {"layout": "LPHSCT", "layout_v": "LPHSTC", "page_tokens": 8},
    {"layout": "SPLTHC", "page_tokens": 4},
    {"layout": "TLSHPC", "page_tokens": 12},
]


def example(kind: str) -> bytes:
    found = re.findall(rf"^```hex {kind}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"),
                       re.M | re.S)
    assert len(found) == 1, f"{len(found)} examples of {kind}"
    return bytes.fromhex(found[0])


class WorkedExamples(unittest.TestCase):
    def test_the_raw_frame_of_the_page_is_read_and_written_byte_for_byte(self):
        shape, payload = Shape("bf16", opaque_bytes=5), bytes([1, 2, 3, 4, 5])
        self.assertEqual(decode_frame(example("frame"), shape), payload)
        self.assertEqual(encode_frame(payload, shape), example("frame"))

    def test_the_tables_of_the_page_are_read_and_written_byte_for_byte(self):
        shape = Shape("bf16", opaque_bytes=2 * 4096)
        tables = parse_tables(example("tables"), shape)
        only = Table(bytes([254, *[0] * 13, 1, 1]), bytes([127, *[0] * 15]), 0x8000, True)
        self.assertEqual((tables.tables, tables.index), ([only], b""))
        self.assertEqual(encode_tables([only], b"", shape), example("tables"))

    def test_ones_coded_with_the_tables_of_the_page_come_back(self):
        shape, payload = Shape("bf16", opaque_bytes=2 * 4096), b"\x80\x3f" * 4096
        frame = encode_frame(payload, shape, parse_tables(example("tables"), shape))
        self.assertEqual(frame[5], STATIC)
        self.assertEqual(decode_frame(frame, shape, example("tables")), payload)


class Order(unittest.TestCase):
    """What the encoder of these tests takes from the decoder, and so can't find wrong in it."""

    def test_planes_are_bytes_then_four_two_and_one_bits_from_the_low_end_up(self):
        self.assertEqual(planes_of(7), [(0, 4), (4, 2), (6, 1)])
        self.assertEqual(planes_of(11), [(0, 8), (8, 2), (10, 1)])
        self.assertEqual(planes_of(24), [(0, 8), (8, 8), (16, 8)])

    def test_a_plane_of_four_bits_has_lane_64_above_lane_0(self):
        lanes = [Lane(Table(b"", b"", 0, False), at) for at in range(128)]
        states = [256] * 128  # the last step's, so they have all 64 bytes
        states[0], states[63] = 256 + 0x21, 256 + 0x43
        numbers = numbers_of(lanes, SCALARS["int8"], states, Part("raw bits", b""))
        self.assertEqual({lane: numbers[lane] for lane in (0, 63, 64, 127)},
                         {0: 1, 63: 3, 64: 2, 127: 4})
        self.assertEqual(sum(numbers), 1 + 2 + 3 + 4)

    def test_lanes_go_by_table_and_are_padded_to_units_and_steps(self):
        coded, one, two = (Table(bytes([at]), b"", 0, at == 0) for at in range(3))
        lanes = lanes_of([coded, one, two], [2, 0, 1, 2], tokens=3)
        wanted = [(coded, at) for at in (3, 4, 5)] + [(coded, None)] * 125
        wanted += [(one, at) for at in (6, 7, 8)] + [(one, None)] * 13
        wanted += [(two, at) for at in (0, 1, 2, 9, 10, 11)] + [(two, None)] * 106
        self.assertEqual([(lane.table, lane.scalar) for lane in lanes], wanted)

    def test_scalars_lie_where_the_axes_say(self):
        shape = Shape("bf16", layers=2, kv_heads=2, head_dim_k=3, head_dim_v=5, tokens=8,
                      layout="LPHSCT", layout_v="LPHSTC", page_tokens=4)
        first = [(layer * 2 + page) * 2 * 4 * 8 + head * 4 * 8
                 for layer in range(2) for head in range(2) for page in range(2)][4:]  # layer 1
        k = [first[2 * head + token // 4] + channel * 4 + token % 4
             for head in range(2) for channel in range(3) for token in range(8)]
        v = [first[2 * head + token // 4] + 3 * 4 + token % 4 * 5 + channel
             for head in range(2) for channel in range(5) for token in range(8)]
        self.assertEqual((places(shape, 2), places(shape, 3)), (k, v))


class RoundTrips(unittest.TestCase):
    def there_and_back(self, shape: Shape, coded: int = 3, raw: int = 3) -> None:
        rng = random.Random(f"{SEED} {shape}")
        payload = made_payload(shape, rng)
        tables_data = made_tables(payload, shape, rng, coded, raw)
        tables = parse_tables(tables_data, shape)
        count = len(tables.tables)
        frame = encode_frame(payload, shape, tables, lambda piece: piece % count)
        self.assertEqual(frame[5], STATIC)
        self.assertEqual(decode_frame(frame, shape, tables_data), payload)

    def test_every_dtype_comes_back_in_every_layout(self):
        for dtype in SCALARS:
            for layout in LAYOUTS:
                shape = Shape(dtype, layers=2, kv_heads=3, head_dim_k=12, head_dim_v=8, tokens=72,
                              **layout)
                with self.subTest(shape=shape):
                    self.there_and_back(shape)

    def test_channels_outside_the_side_come_back(self):
        self.there_and_back(Shape("bf16", layers=2, kv_heads=3, head_dim_k=16, head_dim_v=16,
                                  tokens=48, layout="CHSPLT", layout_v="CHSLPT", page_tokens=16))

    def test_k_without_v_comes_back_with_coded_and_with_raw_signs(self):
        for coded, raw in ((2, 0), (0, 2), (2, 2)):
            with self.subTest(coded=coded, raw=raw):
                self.there_and_back(
                    Shape("fp16", layers=3, kv_heads=1, head_dim_k=50, tokens=33), coded, raw)

    def test_opaque_values_of_every_dtype_come_back_with_their_tails(self):
        for dtype in SCALARS:
            for tail in range(SCALARS[dtype].size):
                with self.subTest(dtype=dtype, tail=tail):
                    self.there_and_back(Shape(dtype, opaque_bytes=20_004 + tail))

    def test_an_opaque_value_of_two_pieces_comes_back(self):
        self.there_and_back(Shape("fp32", opaque_bytes=(1 << 20) + 30_003))

    def test_an_empty_opaque_value_is_a_header_alone(self):
        shape = Shape("bf16")
        frame = encode_frame(b"", shape)
        self.assertEqual((len(frame), decode_frame(frame, shape)), (HEADER.size, b""))


class WrittenByTheCodec(unittest.TestCase):
    samples: list[Sample] = []

    def setUp(self):
        if not self.samples:
            self.skipTest("no program that writes frames was given")

    def test_frames_decode_to_their_payloads(self):
        for sample in self.samples:
            with self.subTest(sample=sample.name):
                decoded = decode_frame(sample.frame, sample.shape, sample.parameters)
                self.assertTrue(decoded == sample.payload, "another payload")

    def test_static_substreams_are_the_bytes_the_page_decides(self):
        for sample in self.samples:
            frame = parse_frame(sample.frame, sample.shape)
            tables = parse_tables(sample.parameters or b"", sample.shape) if frame.static else None
            for number, entry in enumerate(frame.entries):
                if tables is not None and entry.static:
                    with self.subTest(sample=sample.name, substream=number):
                        made = static_substream(sample.payload, sample.shape, number, tables,
                                                entry.table)
                        self.assertTrue(made == frame.substreams[number], "other bytes")

    def test_any_changed_byte_of_a_small_frame_is_refused(self):
        small = [sample for sample in self.samples
                 if len(sample.frame) <= SMALL_FRAME_BYTES and sample.frame[5] != LINEAR]
        small.sort(key=lambda sample: (sample.frame[5] != STATIC, len(sample.frame)))
        self.assertTrue(small and small[0].frame[5] == STATIC, "no static frame is small")
        for sample in small[:SMALL_FRAMES_MAX]:
            with self.subTest(sample=sample.name):
                self.assertEqual(accepted_flips(sample.frame, sample.shape, sample.parameters), [])


class LinearByTheCodec(unittest.TestCase):
    """Chains, and the models they need."""

    def setUp(self):
        self.samples = [sample for sample in WrittenByTheCodec.samples
                        if sample.frame[5] == LINEAR]
        if not WrittenByTheCodec.samples:
            self.skipTest("no program that writes frames was given")
        # Small, with a model of layers above others.
        self.small = min((sample for sample in self.samples if sample.shape.dtype == "bf16"),
                         key=lambda sample: len(sample.parameters or b""))

    def test_samples_have_all_that_linear_frames_can_have(self):
        kinds = set()
        for sample in self.samples:
            shape, frame = sample.shape, parse_frame(sample.frame, sample.shape)
            kinds |= {shape.dtype, shape.tokens, shape.layout}
            kinds |= {f"{shape.sides} sides"} | {f"kind {entry.kind}" for entry in frame.entries}
            kinds |= {"position"} if frame.first_position else set()
        self.assertLessEqual({"bf16", "fp16", "fp8_e4m3", "fp8_e5m2", 1, 16, 33, "LSPHTC", "LPHSCT",
                              "1 sides", "2 sides", "kind 0", "kind 2", "position"}, kinds)

    def test_a_changed_byte_is_noticed(self):
        rng = random.Random(SEED)
        for dtype in ("bf16", "fp16", "fp8_e4m3", "fp8_e5m2"):
            sample = min((sample for sample in self.samples if sample.shape.dtype == dtype),
                         key=lambda sample: len(sample.frame))
            chains = HEADER.size + ENTRY.size * sample.shape.substreams
            for at in rng.sample(range(chains, len(sample.frame)), LINEAR_FLIPS):
                damaged = bytearray(sample.frame)
                damaged[at] ^= 1 << rng.randrange(8)
                with self.subTest(sample=sample.name, at=at), self.assertRaises(FrameError):
                    decode_frame(bytes(damaged), sample.shape, sample.parameters)

    def test_another_position_gives_other_scalars(self):
        frame = bytearray(self.small.frame)
        frame[28] ^= 1
        frame[56:64] = sum_of(bytes(frame[:56])).to_bytes(8, "little")
        with self.assertRaises(FrameError):
            decode_frame(bytes(frame), self.small.shape, self.small.parameters)

    def test_a_layer_is_one_chain_or_raw(self):
        shape, parsed = self.small.shape, parse_frame(self.small.frame, self.small.shape)
        data = b"".join(parsed.substreams)
        for changes, says in (
                ({0: (0, 0), 1: (0, 0)}, "raw bytes"),
                ({1: (shape.substream_bytes(1), 0)}, "half a layer"),
                ({0: (parsed.entries[0].encoded_bytes - 1, 2), 1: (1, 2)}, "two chains"),
                ({0: (shape.substream_bytes(0) + shape.substream_bytes(1), 2)}, "longer than"),
                ({0: (parsed.entries[0].encoded_bytes, 1)}, "kind 1 in a frame of codec 2")):
            entries = [(entry.encoded_bytes, entry.kind, 0, 0, entry.decoded_sum)
                       for entry in parsed.entries]
            for number, changed in changes.items():
                entries[number] = changed + entries[number][2:]
            frame = sealed(LINEAR, shape.payload_bytes, parsed.parameters_hash, parsed.payload_sum,
                           entries, data)
            with self.subTest(says=says), self.assertRaisesRegex(FrameError, says):
                parse_frame(frame, shape)

    def resealed(self, at: int, field: bytes) -> bytes:
        """The small model with other bytes at one place, and sums that hold."""
        data = self.small.parameters or b""
        data = data[:at] + field + data[at + len(field):]
        return data[:32] + sum_of(data[MODEL_HEADER.size:]).to_bytes(8, "little") + data[40:]

    def test_every_rule_of_a_model_is_checked(self):
        shape, data = self.small.shape, self.small.parameters or b""
        count = len(parse_model(data, shape).channels)
        layer = MODEL_HEADER.size + 2 * CONTEXTS * SYMBOLS + 4 * len(parse_model(data, shape).steps)
        numbers = layer + 12  # of the lowest layer, which has no map
        sigma_class = numbers + 5 * 4 * count
        layer_bytes = 12 + 5 * 4 * count + 2 * count + 4 * sum(c % 64 for c in range(count))
        second = layer + layer_bytes
        for at, field, says in (
                (0, b"KVST", "magic"), (6, b"\1", "reserved"), (28, b"\1", "reserved"),
                (5, b"\5", "dtype 5"), (5, b"\2", "another shape"), (8, b"\3", "another shape"),
                (8, b"\0", "0 layers"), (24, b"\7", "turns 7"), (24, b"\14", "turns 12"),
                (40, b"\0\0", "frequency of 0"), (40, b"\1\0", "sum of frequencies"),
                (layer, b"\1", "1 layers below"), (layer + 6, b"\x11", "slope or offset"),
                (layer + 10, b"\x80", "slope or offset"), (numbers, b"\0\0\x80\x7f", "not finite"),
                (sigma_class - 4, b"\0\0\xc0\xff", "not finite"),
                (sigma_class, struct.pack("<h", 481), "sigma class"),
                (sigma_class, struct.pack("<2h", 1, 2), "two sigmas"),
                (second - 4, b"\0\0\x80\xff", "not finite"), (second, b"\2", "2 layers below"),
                (second + 12 + 22 * count, b"\x80", "-128"), (len(data), b"\0", "left over")):
            with self.subTest(at=at, says=says), self.assertRaisesRegex(FrameError, says):
                parse_model(self.resealed(at, field), shape)
        with self.assertRaises(Unsupported):
            parse_model(self.resealed(4, b"\2"), shape)
        with self.assertRaisesRegex(FrameError, "sum of the body"):
            parse_model(data[:-1], shape)
        for size in (0, 39, 40, layer, second, len(data) - 1):
            cut = data[:32] + sum_of(data[MODEL_HEADER.size:size]).to_bytes(8, "little") + data[40:]
            with self.subTest(size=size), self.assertRaisesRegex(FrameError, "shorter|too short"):
                parse_model(cut[:size], shape)


class Binary32(unittest.TestCase):
    def test_fma_is_rounded_once_and_to_even(self):
        rng = np.random.default_rng(SEED)
        exponents = rng.integers(-20, 20, (3, 3000))
        a, b, c = np.ldexp(rng.normal(size=(3, 3000)), exponents).astype(np.float32)
        c[:1000] = -(a[:1000] * b[:1000])  # what is left is what the product was rounded by
        a[1000:2000], c[1000:2000] = np.ldexp(a[1000:2000], -130), 0  # subnormals
        a[2000:], b[2000:] = 1 + 2**-12, 1 + 2**-12  # half way between two numbers
        c[2000:] = np.ldexp(c[2000:], -90)  # and so little more or less that binary64 has no room
        for one, two, three, found in zip(a, b, c, fma(a, b, c)):
            exact = Fraction(float(one)) * Fraction(float(two)) + Fraction(float(three))
            away = abs(Fraction(float(found)) - exact)
            for other in np.nextafter(found, np.array([np.inf, -np.inf], np.float32)):
                other_away = abs(Fraction(float(other)) - exact)
                even = found.view(np.uint32) % 2 == 0
                self.assertTrue(away < other_away or (away == other_away and even))


def main() -> int:
    print(f"KVSTRATA_SEED={SEED}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 1:
            subprocess.run([sys.argv[1], folder, str(SEED)], check=True)
            WrittenByTheCodec.samples = samples_of(pathlib.Path(folder))
            assert WrittenByTheCodec.samples, f"{sys.argv[1]} wrote no frames"
        outcome = unittest.main(argv=[sys.argv[0], "-v"], exit=False)
    return 0 if outcome.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
