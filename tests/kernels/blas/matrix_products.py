"""Products of matrix instructions."""

from fractions import Fraction
from math import copysign, floor, inf, isfinite, isnan, log2

import numpy as np


def number(bits: int) -> float:
    """A bfloat16; a subnormal one counts as 0."""
    value = float(np.array(bits << 16, np.uint32).view(np.float32))
    return value if isnan(value) or abs(value) >= 2.0**-126 else copysign(0.0, value)


def in_range(value: float, size: Fraction) -> float:
    """Value, 0 where its size is below f32's normal numbers, and infinity where it is above."""
    if size < Fraction(2) ** -126:
        return copysign(0.0, value)
    return value if size < Fraction(2) ** 128 else copysign(inf, value)


def product(x: float, y: float) -> float:
    """The product, which f32 holds but for its range."""
    value = x * y  # exact in f64
    return in_range(value, abs(Fraction(value))) if isfinite(value) else value


def added_to_odd(x: float, y: float) -> float:
    """The sum, whose last bit is 1 if it is not exact."""
    if not (isfinite(x) and isfinite(y)) or Fraction(x) + Fraction(y) == 0:
        return x + y
    exact = Fraction(x) + Fraction(y)
    size = abs(exact)
    exponent = floor(log2(size))
    exponent += (size >= Fraction(2) ** (exponent + 1)) - (size < Fraction(2) ** exponent)
    unit = Fraction(2) ** (exponent - 23)
    units = size // unit
    if units * unit != size:
        units |= 1
    return in_range(copysign(float(units * unit), exact), size)
