"""Scalars as cells around what was predicted, and the three streams of a chain.

By doc/linear-codec.md and doc/linear-format.md alone.
"""

import math
import struct
from collections.abc import Sequence

from slow_shape import Scalar, require

CHAIN_HEADER = struct.Struct("<III")
STATE_MIN = 1 << 16
SLOT_BITS = 12
CONTEXTS, SYMBOLS = 208, 16
CELLS_BELOW, CELLS_ABOVE = 7, 6  # of the one mu lies in; symbols 0..13
ABOVE = 14  # and 15 is below
SIGMA_CLASS_MAX = 480
WIDTH_MIN, WIDTH_MAX = -12, 3  # of sigma against a cell, in quarters of an octave
PHASES = 16
DOUBLINGS_ZEROS, DISTANCE_ZEROS = 16, 30


class Bits:
    """A stream filled from the low bits up."""

    def __init__(self, name: str, data: bytes):
        self.name, self.data, self.at = name, data, 0

    def take(self, count: int) -> int:
        """A number of so many bits."""
        begin, end = self.at, self.at + count
        require(end <= 8 * len(self.data), f"{self.name}: too short")
        self.at = end
        whole = int.from_bytes(self.data[begin // 8:(end + 7) // 8], "little")
        return whole >> begin % 8 & (1 << count) - 1

    def zeros(self, most: int) -> int:
        """How many zeros come before a one, which is taken too, unless there are `most`."""
        count = 0
        while count < most and self.take(1) == 0:
            count += 1
        return count

    def end(self) -> None:
        left = 8 * len(self.data) - self.at
        require(left < 8, f"{self.name}: bytes left over")
        require(self.take(left) == 0, f"{self.name}: ends in other bits than zeros")


class Grid:
    """The cells around one mu, D = 2^exponent wide. `sigma_class`: quarters of an octave."""

    def __init__(self, mu: float, sigma_class: int, scalar: Scalar):
        self.scalar = scalar
        mu = mu if math.isfinite(mu) else 0.0
        sigma_class = min(max(sigma_class, -SIGMA_CLASS_MAX), SIGMA_CLASS_MAX)
        self.mirrored = math.copysign(1, mu) < 0
        of_mu = max(math.frexp(mu)[1] - 1 if mu else scalar.exponent_min, scalar.exponent_min)
        self.exponent = max((sigma_class - 3) // 4, of_mu - scalar.mantissa_bits,
                            scalar.exponent_min)
        self.of_mu, phase = divmod(int(math.ldexp(abs(mu), -self.exponent) * PHASES), PHASES)
        width = min(max(sigma_class - 3 - 4 * self.exponent, WIDTH_MIN), WIDTH_MAX)
        self.context = (PHASES * (width - WIDTH_MIN) + phase if width < 0 else
                        PHASES * -WIDTH_MIN + 4 * width + phase // 4)

    def take(self, symbol: int, raw: Bits, rare: Bits) -> int:
        """The scalar's pattern: what its symbol leaves open is taken from the streams."""
        if symbol < ABOVE:
            return self.in_cell(self.of_mu + symbol - CELLS_BELOW, raw, rare)
        zeros = rare.zeros(DISTANCE_ZEROS)
        if zeros == DISTANCE_ZEROS:
            return self.mirrored_back(rare.take(8 * self.scalar.size))
        distance = 1 << zeros | rare.take(zeros)
        return self.in_cell(self.of_mu + CELLS_ABOVE + distance if symbol == ABOVE else
                            self.of_mu - CELLS_BELOW - distance, rare, rare)

    def mirrored_back(self, pattern: int) -> int:
        return pattern ^ self.mirrored << 8 * self.scalar.size - 1

    def in_cell(self, cell: int, raw: Bits, rare: Bits) -> int:
        sign, away = int(cell < 0), -1 - cell if cell < 0 else cell
        scalar = self.scalar
        if away:
            octaves = away.bit_length() - 1
            exponent, left = self.exponent + octaves, scalar.mantissa_bits - octaves
            begin = away << left if left >= 0 else away >> -left
            require(left >= 0 or begin << -left == away, f"chain: no scalar begins cell {cell}")
            mantissa = begin - (1 << scalar.mantissa_bits) + raw.take(max(left, 0))
        else:
            doublings = rare.zeros(DOUBLINGS_ZEROS)
            if doublings == DOUBLINGS_ZEROS:
                doublings = rare.take(8)
            exponent = self.exponent - 1 - doublings
            mantissa = raw.take(scalar.mantissa_bits)
        key = exponent - scalar.exponent_min + 1
        require(0 <= key < 1 << scalar.key_bits, f"chain: a scalar of key {key}")
        return self.mirrored_back(scalar.joined(sign, key, mantissa))


class Chain:
    """The coded scalars of one layer."""

    def __init__(self, data: bytes, lanes: int, frequencies: Sequence[Sequence[int]]):
        require(len(data) >= CHAIN_HEADER.size + 4 * lanes, "chain: shorter than its header")
        words, raw_bytes, rare_bytes = CHAIN_HEADER.unpack_from(data)
        at = CHAIN_HEADER.size + 4 * lanes
        require(len(data) == at + 2 * words + raw_bytes + rare_bytes,
                "chain: the lengths of its parts do not add up")
        self.states = list(struct.unpack_from(f"<{lanes}I", data, CHAIN_HEADER.size))
        require(min(self.states) >= STATE_MIN, "chain: a state below 2^16")
        self.words = list(struct.unpack_from(f"<{words}H", data, at))[::-1]  # the next one last
        at += 2 * words
        self.raw = Bits("chain: raw bits", data[at:at + raw_bytes])
        self.rare = Bits("chain: rare bits", data[at + raw_bytes:])
        self.frequencies = frequencies

    def scalar(self, token: int, grid: Grid) -> int:
        """The next one's pattern."""
        return grid.take(self.symbol(token % len(self.states), grid.context), self.raw, self.rare)

    def symbol(self, lane: int, context: int) -> int:
        state, frequencies = self.states[lane], self.frequencies[context]
        slot, symbol = state & (1 << SLOT_BITS) - 1, 0
        while slot >= frequencies[symbol]:
            slot -= frequencies[symbol]
            symbol += 1
        state = frequencies[symbol] * (state >> SLOT_BITS) + slot
        if state < STATE_MIN:
            require(bool(self.words), "chain: words: too short")
            state = state << 16 | self.words.pop()
        self.states[lane] = state
        return symbol

    def end(self) -> None:
        require(not self.words, "chain: words: left over")
        require(all(state == STATE_MIN for state in self.states), "chain: an end state")
        self.raw.end()
        self.rare.end()
