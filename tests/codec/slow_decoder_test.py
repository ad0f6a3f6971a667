"""Frames decoded by a decoder that was written from their page, doc/frame-format.md, alone.

usage: slow_decoder_test.py [PROGRAM]   which writes frames of the codec: see samples_of()
"""

import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

from slow_decoder import HEADER, STATIC, decode_frame, parse_frame
from slow_encoder import encode_frame, encode_tables, static_substream
from slow_samples import SEED, Sample, accepted_flips, made_payload, made_tables, samples_of
from slow_shape import SCALARS, Shape, places
from slow_static import Lane, Part, Table, lanes_of, numbers_of, parse_tables, planes_of

PAGE = pathlib.Path(__file__).parents[2] / "doc" / "frame-format.md"
SMALL_FRAME_BYTES, SMALL_FRAMES_MAX = 2048, 8  # every byte of these is flipped
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
                decoded = decode_frame(sample.frame, sample.shape, sample.tables)
                self.assertTrue(decoded == sample.payload, "another payload")

    def test_static_substreams_are_the_bytes_the_page_decides(self):
        for sample in self.samples:
            frame = parse_frame(sample.frame, sample.shape)
            tables = parse_tables(sample.tables or b"", sample.shape) if frame.static else None
            for number, entry in enumerate(frame.entries):
                if tables is not None and entry.static:
                    with self.subTest(sample=sample.name, substream=number):
                        made = static_substream(sample.payload, sample.shape, number, tables,
                                                entry.table)
                        self.assertTrue(made == frame.substreams[number], "other bytes")

    def test_any_changed_byte_of_a_small_frame_is_refused(self):
        small = [sample for sample in self.samples if len(sample.frame) <= SMALL_FRAME_BYTES]
        small.sort(key=lambda sample: (sample.frame[5] != STATIC, len(sample.frame)))
        self.assertTrue(small and small[0].frame[5] == STATIC, "no static frame is small")
        for sample in small[:SMALL_FRAMES_MAX]:
            with self.subTest(sample=sample.name):
                self.assertEqual(accepted_flips(sample.frame, sample.shape, sample.tables), [])


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
