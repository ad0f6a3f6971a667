"""Every rule of doc/frame-format.md that a decoder checks is broken once, and noticed."""

import random
import struct
import sys
import unittest
from unittest import mock

from slow_decoder import ENTRY, HEADER, RAW, STATIC, Frame, decode_frame, parse_frame
from slow_encoder import encode_frame, encode_tables, sealed
from slow_samples import SEED, accepted_flips, flips_of, made_payload, made_tables
from slow_shape import FrameError, Shape, Unsupported, sum_of
from slow_static import STREAM_HEADER, TABLES_HEADER, Table, Tables, parse_tables

# 32 tokens and 8 channels of K: two full steps, without padding, if all channels use one table.
SMALL = Shape("fp32", layers=1, kv_heads=2, head_dim_k=4, head_dim_v=1, tokens=32)


def entries_of(parsed: Frame) -> list[tuple[int, ...]]:
    """The fields of the directory as they are in the frame."""
    return [(entry.encoded_bytes, entry.kind, entry.table, 0, entry.decoded_sum)
            for entry in parsed.entries]


class Damage(unittest.TestCase):
    """Of a frame whose K is static, of whole steps, and whose V is raw."""

    @classmethod
    def setUpClass(cls):
        rng = random.Random(SEED)
        cls.shape = SMALL
        # K has one key; 16 scalars have others, of which tables have no more than 14.
        count = SMALL.substream_bytes(0) // SMALL.scalar.size
        scalars = [SMALL.scalar.joined(0, 100 + min(at, 16), rng.getrandbits(23))
                   for at in range(count)]
        cls.payload = struct.pack(f"<{count}I", *scalars) + rng.randbytes(SMALL.substream_bytes(1))
        cls.tables_data = made_tables(cls.payload, SMALL, rng, 1, 0)
        cls.tables = parse_tables(cls.tables_data, SMALL)
        cls.frame = encode_frame(cls.payload, SMALL, cls.tables)
        cls.parsed = parse_frame(cls.frame, SMALL)

    def refused(self, frame: bytes, says: str, kind: type = FrameError,
                tables: bytes | None = None) -> None:
        with self.assertRaisesRegex(kind, says):
            decode_frame(frame, self.shape, tables or self.tables_data)

    def test_the_frame_has_static_and_raw_substreams(self):
        self.assertEqual(decode_frame(self.frame, self.shape, self.tables_data), self.payload)
        self.assertEqual([entry.static for entry in self.parsed.entries], [True, False])

    def test_any_changed_byte_is_refused(self):
        self.assertEqual(accepted_flips(self.frame, self.shape, self.tables_data), [])

    def test_any_changed_byte_of_a_frame_with_padding_is_refused(self):
        shape = Shape("bf16", layers=1, kv_heads=1, head_dim_k=10, tokens=60)
        rng = random.Random(SEED)
        payload = made_payload(shape, rng)
        tables = made_tables(payload, shape, rng, 1, 1)
        frame = encode_frame(payload, shape, parse_tables(tables, shape))
        self.assertEqual(frame[5], STATIC)
        self.assertEqual(accepted_flips(frame, shape, tables), [])

    def test_any_changed_byte_of_the_tables_is_refused(self):
        for at, damaged in flips_of(self.tables_data):
            with self.subTest(at=at):
                self.refused(self.frame, "", tables=damaged)

    def test_a_frame_of_any_other_length_is_refused(self):
        for size in range(len(self.frame)):
            self.refused(self.frame[:size], "")
        self.refused(self.frame + b"\0", "its header says")

    def with_header(self, at: int, form: str, value: int) -> bytes:
        """The frame with one field of its header changed, and the header's sum made to hold."""
        frame = bytearray(self.frame)
        struct.pack_into("<" + form, frame, at, value)
        frame[56:64] = sum_of(bytes(frame[:56])).to_bytes(8, "little")
        return bytes(frame)

    def test_each_field_of_the_header_is_checked(self):
        self.refused(self.with_header(0, "I", 0), "magic")
        self.refused(self.with_header(4, "B", 2), "version 2", Unsupported)
        self.refused(self.with_header(5, "B", 3), "codec 3", Unsupported)
        self.refused(self.with_header(5, "B", 2), "kind 1 in a frame of codec 2")
        self.refused(self.with_header(5, "B", 4), "codec is 4")
        self.refused(self.with_header(5, "B", 0), "a raw one names parameters")
        self.refused(self.with_header(6, "H", 1), "reserved")
        self.refused(self.with_header(8, "Q", (1 << 30) + 1), "raw bytes")
        self.refused(self.with_header(8, "Q", len(self.payload) + 4), "another shape")
        self.refused(self.with_header(16, "Q", 1 << 40), "longer than a raw one")
        self.refused(self.with_header(16, "Q", len(self.frame) - 1), "its header says")
        self.refused(self.with_header(24, "I", 2049), "2049 sub-streams")
        self.refused(self.with_header(24, "I", 5), "another shape")
        self.refused(self.with_header(28, "I", 1), "a position")
        self.refused(self.with_header(32, "Q", 1), "other parameters")
        self.refused(self.with_header(40, "Q", 1), "sum of the payload")
        self.refused(self.with_header(48, "Q", 1), "sum of the directory")
        size = HEADER.size + ENTRY.size
        self.refused(self.with_header(16, "Q", size)[:size], "shorter than its directory")

    def test_a_header_with_a_wrong_sum_is_refused(self):
        frame = bytearray(self.frame)
        frame[63] ^= 1
        self.refused(bytes(frame), "sum of the header")

    def test_a_static_frame_needs_tables(self):
        with self.assertRaisesRegex(FrameError, "parameters are not there"):
            decode_frame(self.frame, self.shape)

    def test_the_codec_of_the_frame_says_which_kinds_it_has(self):
        raw = parse_frame(encode_frame(self.payload, self.shape), self.shape)
        self.refused(self.sealed_again(raw, STATIC), "without a sub-stream of its codec")
        self.refused(self.sealed_again(self.parsed, RAW), "kind 1 in a frame of codec 0")

    def sealed_again(self, parsed: Frame, codec: int) -> bytes:
        return sealed(codec, len(self.payload), self.tables.content_hash if codec == STATIC else 0,
                      parsed.payload_sum, entries_of(parsed), b"".join(parsed.substreams))

    def with_entry(self, number: int, *fields: int | None) -> bytes:
        """The frame with another entry, None where a field stays, and sums that hold."""
        entries = entries_of(self.parsed)
        entries[number] = tuple(old if new is None else new
                                for old, new in zip(entries[number], fields))
        return sealed(STATIC, len(self.payload), self.parsed.parameters_hash,
                      self.parsed.payload_sum, entries, b"".join(self.parsed.substreams))

    def test_each_field_of_an_entry_is_checked(self):
        size = self.parsed.entries[0].encoded_bytes
        self.assertEqual(self.with_entry(0, *[None] * 5), self.frame)
        self.refused(self.with_entry(0, size - 1, *[None] * 4), "lengths of its sub-streams")
        self.refused(self.with_entry(1, 1, *[None] * 4), "entry 1: 1 raw bytes")
        self.refused(self.with_entry(0, None, 3, None, None, None), "kind is 3")
        self.refused(self.with_entry(0, None, 2, None, None, None), "kind 2 in a frame of codec 1")
        self.refused(self.with_entry(0, None, 0, None, None, None), "entry 0: .* raw bytes")
        self.refused(self.with_entry(0, None, None, 1, None, None), "names table 1")
        self.refused(self.with_entry(0, None, None, None, 1, None), "reserved")
        self.refused(self.with_entry(0, None, None, None, None, 1), "sub-stream 0: its sum")

    def with_substream(self, data: bytes) -> bytes:
        """The frame with another first sub-stream, and sums that hold."""
        entries = entries_of(self.parsed)
        entries[0] = (len(data), *entries[0][1:])
        return sealed(STATIC, len(self.payload), self.parsed.parameters_hash,
                      self.parsed.payload_sum, entries,
                      data + b"".join(self.parsed.substreams[1:]))

    def test_each_part_of_a_substream_is_checked(self):
        data = self.parsed.substreams[0]
        rans_bytes, escapes, low, high = STREAM_HEADER.unpack_from(data)
        self.assertGreater(escapes, 0)

        def changed(rans: int, escapes: int, high: bytes, rest: bytes) -> bytes:
            return self.with_substream(STREAM_HEADER.pack(rans, escapes, low, high) + rest)

        rest = data[STREAM_HEADER.size:]
        self.assertEqual(changed(rans_bytes, escapes, high, rest), self.frame)
        self.refused(self.with_substream(data[:100]), "shorter than its header")
        self.refused(changed(rans_bytes, escapes, high, rest + b"\0"), "lengths of its parts")
        self.refused(changed(2**32 - 1, escapes, high, rest), "lengths of its parts")
        self.refused(changed(rans_bytes, escapes, bytes(128), rest), "a state below 256")
        longer = rest[:rans_bytes] + b"\0" + rest[rans_bytes:]
        self.refused(changed(rans_bytes + 1, escapes, high, longer), "rANS bytes: 1 left")
        self.refused(changed(rans_bytes - 1, escapes + 1, high, rest), "rANS bytes: too short")
        self.refused(changed(rans_bytes, escapes + 1, high, rest + b"\0"), "escaped keys: 1 left")
        self.refused(changed(rans_bytes, escapes - 1, high, rest[:-1]), "escaped keys: too short")


class StaticChecks(unittest.TestCase):
    """Of opaque values, some written by an encoder that does one thing wrong."""

    def sample(self, dtype: str) -> tuple[bytes, Shape, bytes]:
        """A frame whose table codes the sign, its shape and its tables."""
        shape, rng = Shape(dtype, opaque_bytes=4000), random.Random(SEED)
        payload = made_payload(shape, rng)
        tables = made_tables(payload, shape, rng, 1, 0)
        return encode_frame(payload, shape, parse_tables(tables, shape)), shape, tables

    def test_end_states_are_256_and_what_they_have_of_the_raw_bits(self):
        # Of bf16 with coded signs the last 16 lanes have nothing of the raw bits.
        for dtype, wrong_min, says in (("fp32", 512, "of lane 0 is [5-7].."),
                                       ("bf16", 257, "of lane ([0-9]+ is 512|112 is 257)")):
            with self.subTest(dtype=dtype):
                decode_frame(*self.sample(dtype))
                with mock.patch("slow_encoder.STATE_MIN", wrong_min):
                    wrong = self.sample(dtype)
                with self.assertRaisesRegex(FrameError, f"end state {says}"):
                    decode_frame(*wrong)

    def test_an_escaped_key_is_one_of_the_type(self):
        frame, shape, tables = self.sample("fp16")
        parsed = parse_frame(frame, shape)
        stream = bytearray(parsed.substreams[0])
        rans_bytes, escapes, _, _ = STREAM_HEADER.unpack_from(stream)
        self.assertGreater(escapes, 0)
        stream[STREAM_HEADER.size + rans_bytes] |= 32
        with self.assertRaisesRegex(FrameError, "an escaped key is"):
            decode_frame(frame[:-len(stream)] + stream, shape, tables)

    def test_an_opaque_piece_names_a_table_that_is_there(self):
        frame, shape, tables = self.sample("fp16")
        parsed = parse_frame(frame, shape)
        size, kind, _, reserved, decoded_sum = entries_of(parsed)[0]
        wrong = sealed(STATIC, 4000, parsed.parameters_hash, parsed.payload_sum,
                       [(size, kind, 1, reserved, decoded_sum)], parsed.substreams[0])
        with self.assertRaisesRegex(FrameError, "there is no table 1"):
            decode_frame(wrong, shape, tables)


class TablesChecks(unittest.TestCase):
    """Of tables of fp16 with one that codes the sign and one that doesn't."""

    shape = Shape("fp16", layers=1, kv_heads=1, head_dim_k=2, tokens=16)
    coded = Table(bytes([200, 0, 40, *[0] * 11, 8, 8]), bytes([7, 0, 7, *[0] * 13]), 0x8004, True)
    raw = Table(bytes([250, *[0] * 14, 6]), bytes([9, *[0] * 15]), 0, False)

    def refused(self, says: str, tables: list[Table], index: bytes = b"\0\0",
                shape: Shape | None = None) -> None:
        with self.assertRaisesRegex(FrameError, says):
            parse_tables(encode_tables(tables, index, shape or self.shape), self.shape)

    def changed(self, table: Table, at: int, byte: int, keys: bool = False) -> Table:
        frequencies, names = bytearray(table.frequencies), bytearray(table.keys)
        (names if keys else frequencies)[at] = byte
        return Table(bytes(frequencies), bytes(names), table.sign_mask, table.sign_coded)

    def test_good_ones_are_read(self):
        data = encode_tables([self.coded, self.raw], b"\1\0", self.shape)
        self.assertEqual(parse_tables(data, self.shape),
                         Tables([self.coded, self.raw], b"\1\0", sum_of(data)))

    def test_each_rule_of_tables_is_checked(self):
        coded, raw = self.coded, self.raw
        self.refused("sum of its frequencies", [self.changed(raw, 0, 251)])
        for table, symbol in ((raw, 15), (coded, 14), (coded, 15)):
            lacking = self.changed(self.changed(table, 1, table.frequencies[symbol]), symbol, 0)
            self.refused(f"symbol {symbol} has frequency 0", [lacking])
        self.refused("symbol 0 has frequency 0", [self.changed(self.changed(raw, 1, 250), 0, 0)])
        self.refused("symbol 1 names no key", [self.changed(raw, 1, 1, keys=True)])
        self.refused("symbol 15 names no key", [self.changed(raw, 15, 1, keys=True)])
        self.refused("wide key", [self.changed(raw, 0, 32, keys=True)])
        self.refused("mean the same", [Table(coded.frequencies, coded.keys, 0x8000, True)])
        self.refused("signs of the escapes", [Table(coded.frequencies, coded.keys, 4, True)])
        self.refused("has signs", [Table(raw.frequencies, raw.keys, 1, False)])
        self.refused("after one that does not", [raw, coded])
        self.refused("a missing table", [coded, raw], b"\0\2")
        self.refused("length", [coded], b"\0")
        self.refused("count is 0", [], b"")
        self.refused("count is 257", [raw] * 257)
        self.refused("of dtype 1", [raw], shape=Shape("bf16", 1, 1, 2, 0, 16))
        self.refused("opaque is 1", [raw], b"", shape=Shape("fp16"))
        self.refused("another shape", [raw], shape=Shape("fp16", 1, 1, 1, 1, 16))

    def test_a_type_without_a_sign_has_no_coded_signs(self):
        shape = Shape("int8", layers=1, kv_heads=1, head_dim_k=2, tokens=16)
        with self.assertRaisesRegex(FrameError, "a type without one"):
            parse_tables(encode_tables([self.coded], b"\0\0", shape), shape)

    def test_tables_of_any_other_length_are_refused(self):
        good = encode_tables([self.raw], b"\0\0", self.shape)
        for data in (*(good[:size] for size in range(len(good))), good + b"\0"):
            with self.assertRaisesRegex(FrameError, "length|shorter than their header"):
                parse_tables(data, self.shape)

    def test_reserved_bytes_and_versions_of_tables_are_checked(self):
        good = encode_tables([self.raw], b"\0\0", self.shape)
        for at, says in ((0, "magic"), (4, "version"), (7, "reserved"), (22, "reserved"),
                         (24, "sum"), (66, "sign_coded"), (67, "reserved")):
            bad = bytearray(good)
            bad[at] ^= 0x80
            if at >= TABLES_HEADER.size:
                bad[24:32] = sum_of(bytes(bad[32:])).to_bytes(8, "little")
            with self.subTest(at=at), self.assertRaisesRegex(FrameError, says):
                parse_tables(bytes(bad), self.shape)


if __name__ == "__main__":
    print(f"KVSTRATA_SEED={SEED}", flush=True)
    outcome = unittest.main(argv=[sys.argv[0], "-v"], exit=False)
    sys.exit(0 if outcome.result.wasSuccessful() else 1)
