"""IEEE binary32 as doc/linear-codec.md asks for it, and the numbers that scalars stand for.

numpy's float32 adds, subtracts and multiplies rounded to nearest even, and keeps subnormals.
"""

import math

import numpy as np
import numpy.typing as npt
from slow_shape import Scalar

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

STEPS_OF_SCALE = np.array([1, 1.1892071, 1.4142135, 1.6817929], np.float32)
TURN_BITS = 32
COSINE_BITS = 10


def fma(a: Floats, b: Floats, c: Floats) -> Floats:
    """a * b + c, rounded once: the sum in binary64 is rounded to odd, then to binary32."""
    product = a.astype(np.float64) * b.astype(np.float64)  # exact
    addend = c.astype(np.float64)
    total = product + addend
    of_addend = total - product
    error = (product - (total - of_addend)) + (addend - of_addend)
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    inexact = np.isfinite(total) & (error != 0) & (total.view(np.int64) & 1 == 0)
    return np.where(inexact, odd, total).astype(np.float32)


def to_int8(x: Floats) -> Integers:
    """Whole numbers within +-127."""
    return np.rint(np.clip(x, -127, 127)).astype(np.int64)


def scale(k: Integers) -> Floats:
    """2^(k / 4)."""
    return np.ldexp(STEPS_OF_SCALE[k % 4], k // 4).astype(np.float32)


def numbers_of(patterns: Integers, scalar: Scalar) -> Floats:
    """What scalars stand for; infinities and NaN go on as the numbers after the largest."""
    mantissa = patterns & (1 << scalar.mantissa_bits) - 1
    key = patterns >> scalar.mantissa_bits & (1 << scalar.key_bits) - 1
    negative = patterns >> (scalar.mantissa_bits + scalar.key_bits) == 1
    whole = np.where(key > 0, mantissa + (1 << scalar.mantissa_bits), mantissa)
    exponent = np.maximum(key, 1) - 1 + scalar.exponent_min - scalar.mantissa_bits
    size = np.ldexp(whole.astype(np.float64), exponent)
    return np.where(negative, -size, size).astype(np.float32)


def cosines() -> Floats:
    """Of the steps of a turn and one more: of the first eighth and its mirrors, so that quarters
    are exactly 0 and 1."""
    quarter, unit = 1 << COSINE_BITS - 2, 2 * math.pi / (1 << COSINE_BITS)

    def cosine(i: int) -> float:
        if i > quarter:
            return -cosine(2 * quarter - i)
        return math.cos(i * unit) if i <= quarter // 2 else math.sin((quarter - i) * unit)

    half = [cosine(i) for i in range(2 * quarter + 1)]
    return np.array(half + half[-2::-1], np.float32)


COSINES = cosines()


def cosine_of(angles: Integers) -> Floats:
    """By linear interpolation; a turn is 2^32."""
    below = TURN_BITS - COSINE_BITS
    at, rest = angles >> below, angles & (1 << below) - 1
    fraction = np.ldexp(rest.astype(np.float32), -below)
    return fma(fraction, COSINES[at + 1] - COSINES[at], COSINES[at])


def turn(pair: Floats, cosine: Floats, sine: Floats) -> Floats:
    """[2][tokens]."""
    a, b = pair
    return np.array([fma(a, cosine, -(b * sine)), fma(b, cosine, a * sine)])
