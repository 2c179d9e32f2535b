"""exp, log, tanh and related functions of f32 vectors as explicit polynomials, bit-identical on every core.

Every function takes a builder and a value (f32 or a vector of f32) and has a relative error of about 1e-7 to 1e-6 (the
tests state each bound); infinities and NaN are handled as in IEEE 754 and C's <math.h>. Methods: Cody and Waite,
"Software Manual for the Elementary Functions" (range reduction); series truncated below half a unit in the last place.
"""

from collections.abc import Sequence
from math import factorial, inf, log, nan, pi, sqrt

import numpy as np
from llvmlite import ir

from mavcg.kernels.builder.emit import F16, F32, I32, fma, intrinsic, lanes_and_element, lanes_of, number, vector
from mavcg.kernels.builder.lanes import f32_splat, i32_lanes

ROUNDER = 12582912.0  # 1.5 * 2^23: a small number plus this has its nearest integer in the low mantissa bits


def like(x: ir.Value, value: float) -> ir.Constant:
    """Return a constant of x's type, f32 or f16, with the value, rounded to it, in all lanes."""
    if lanes_and_element(x.type)[1] == F16:
        with np.errstate(over="ignore"):  # to infinity, as a conversion of the value does
            return number(x, float(np.float64(value).astype(np.float16)))
    return f32_splat(float(np.float32(value)), lanes_of(x))


def ints_like(x: ir.Value, value: int) -> ir.Constant:
    """Return an i32 constant with as many lanes as x."""
    lanes = lanes_of(x)
    return ir.Constant(I32, value) if lanes == 1 else i32_lanes((value,) * lanes)


def _int_type(x: ir.Value) -> ir.Type:
    return vector(I32, lanes_of(x))


def as_bits(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the bits of f32 lanes as i32 lanes."""
    return b.bitcast(x, _int_type(x))


def as_floats(b: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """Return i32 lanes reinterpreted as f32 lanes."""
    return b.bitcast(bits, vector(F32, lanes_of(bits)))


def polynomial(b: ir.IRBuilder, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Return the sum of coefficients[i] * x^i, by Horner's rule with fused multiply-adds."""
    total: ir.Value = like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = fma(b, total, x, like(x, coefficient))
    return total


def _split(value: float, bits: int = 11) -> tuple[float, float]:
    """Return (high, low) with high + low = value: high has `bits` mantissa bits, so that its product with an integer is
    exact."""
    mantissa = np.float32(value).view(np.uint32) & np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)
    high = float(np.uint32(mantissa).view(np.float32))
    return high, value - high


def _power_of_two(b: ir.IRBuilder, n: ir.Value) -> ir.Value:
    """Return 2^n for i32 lanes n of -126 to 127."""
    return as_floats(b, b.shl(b.add(n, ints_like(n, 127)), ints_like(n, 23)))


def clamp(b: ir.IRBuilder, x: ir.Value, low: float, high: float) -> ir.Value:
    """Return x clamped to low .. high; NaN stays NaN."""
    x = b.select(b.fcmp_ordered("<", x, like(x, low)), like(x, low), x)
    return b.select(b.fcmp_ordered(">", x, like(x, high)), like(x, high), x)


# exp(r) - 1 - r = r^2 * (1/2 + r/6 + ..): for |r| <= ln(2)/2 the next term is below 1e-9.
_EXP_TAIL = [1 / factorial(k) for k in range(2, 9)]


def _reduce(b: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return (n as i32, r) with x = n ln 2 + r and |r| <= ln(2)/2."""
    shifted = fma(b, x, like(x, 1 / log(2)), like(x, ROUNDER))
    n = b.sub(as_bits(b, shifted), ints_like(x, int(np.float32(ROUNDER).view(np.int32))))
    whole = b.fsub(shifted, like(x, ROUNDER))
    high, low = _split(log(2))
    rest = fma(b, whole, like(x, -high), x)
    return n, fma(b, whole, like(x, -low), rest)


def exp(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return e^x; denormal results are correct too."""
    x = clamp(b, x, -104.0, 89.0)
    n, r = _reduce(b, x)
    value = b.fadd(fma(b, b.fmul(r, r), polynomial(b, r, _EXP_TAIL), r), like(x, 1.0))
    half = b.ashr(n, ints_like(x, 1))  # in two steps: 2^n alone may overflow f32 where the result does not
    return b.fmul(b.fmul(value, _power_of_two(b, half)), _power_of_two(b, b.sub(n, half)))


# Minimax polynomial of degree 6 and ln 2 in two parts, those of onnxruntime's softmax, whose results these have. The
# largest number below -127.5 ln 2 is the least argument: 2^-127 then comes out as 0.
_LEAST_EXPONENT = -88.3762626647949
_MINIMAX = [
    1.0,
    1.0,
    *map(float.fromhex, ("0x1.fffff6p-2", "0x1.55545p-3", "0x1.555b5ap-5", "0x1.125edcp-7", "0x1.694p-10")),
]
_LN2_HIGH, _LN2_LOW = 6.93145752e-1, 1.42860677e-6


def exp_of_negative(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return e^x for x of at most 0, with the bits of onnxruntime's softmax; 0 below f32's normal range."""
    x = b.select(b.fcmp_ordered("<", x, like(x, _LEAST_EXPONENT)), like(x, _LEAST_EXPONENT), x)
    shifted = fma(b, x, like(x, 1 / log(2)), like(x, ROUNDER))
    n = b.sub(as_bits(b, shifted), ints_like(x, int(np.float32(ROUNDER).view(np.int32))))
    whole = b.fsub(shifted, like(x, ROUNDER))
    rest = fma(b, whole, like(x, -_LN2_LOW), fma(b, whole, like(x, -_LN2_HIGH), x))
    return b.fmul(polynomial(b, rest, _MINIMAX), _power_of_two(b, n))


def expm1(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return e^x - 1, accurate also near 0."""
    small = fma(b, b.fmul(x, x), polynomial(b, x, [1 / factorial(k) for k in range(2, 11)]), x)
    large = b.fsub(exp(b, x), like(x, 1.0))
    return b.select(b.fcmp_ordered("<", intrinsic(b, "fabs", [x]), like(x, 0.5)), small, large)


# 2 atanh(s) = 2s (1 + s^2/3 + s^4/5 + ..): for s <= 0.172 the next term is below 1e-9.
_ATANH = [1 / k for k in range(3, 13, 2)]


def log_(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the natural logarithm; -inf at 0, NaN below."""
    tiny = b.fcmp_ordered("<", x, like(x, float(np.finfo(np.float32).tiny)))
    scaled = b.select(tiny, b.fmul(x, like(x, 2.0**23)), x)
    bits = as_bits(b, scaled)
    # Brings the mantissa between sqrt(1/2) and sqrt(2): the exponent is taken from the bits less those of sqrt(1/2).
    root_half = int(np.float32(sqrt(0.5)).view(np.int32))
    away = b.sub(bits, ints_like(x, root_half))
    exponent = b.ashr(away, ints_like(x, 23))
    mantissa = as_floats(b, b.sub(bits, b.shl(exponent, ints_like(x, 23))))
    exponent = b.sub(exponent, b.select(tiny, ints_like(x, 23), ints_like(x, 0)))
    n = b.sitofp(exponent, x.type)
    f = b.fsub(mantissa, like(x, 1.0))
    s = b.fdiv(f, b.fadd(f, like(x, 2.0)))
    z = b.fmul(s, s)
    # log(1+f) = f - (f^2/2 - s (f^2/2 + R)): f enters unrounded.
    rest = b.fmul(b.fmul(z, like(x, 2.0)), polynomial(b, z, _ATANH))
    square = b.fmul(b.fmul(f, f), like(x, 0.5))
    high, low = _split(log(2))
    tail = fma(b, s, b.fadd(square, rest), b.fmul(n, like(x, low)))
    value = fma(b, n, like(x, high), b.fsub(f, b.fsub(square, tail)))
    value = b.select(b.fcmp_ordered("==", x, like(x, inf)), like(x, inf), value)
    value = b.select(b.fcmp_ordered("==", x, like(x, 0.0)), like(x, -inf), value)
    return b.select(b.fcmp_unordered("<", x, like(x, 0.0)), like(x, nan), value)


def log1p(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return log(1 + x) for x >= 0, accurate near 0: the rounding error of 1 + x is corrected (Kahan)."""
    rounded_sum = b.fadd(x, like(x, 1.0))
    corrected = b.fmul(log_(b, rounded_sum), b.fdiv(x, b.fsub(rounded_sum, like(x, 1.0))))
    return b.select(b.fcmp_ordered("==", rounded_sum, like(x, 1.0)), x, corrected)


# tanh(x) = x + x^3 (..): Taylor's series up to x^17 with Bernoulli numbers; below 0.4 the next term is below 1e-8.
_TANH = (
    -1 / 3,
    2 / 15,
    -17 / 315,
    62 / 2835,
    -1382 / 155925,
    21844 / 6081075,
    -929569 / 638512875,
    6404582 / 10854718875,
)


def tanh(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the hyperbolic tangent."""
    size = intrinsic(b, "fabs", [x])
    z = b.fmul(x, x)
    small = fma(b, b.fmul(z, size), polynomial(b, z, _TANH), size)
    doubled = exp(b, b.fmul(size, like(x, 2.0)))
    large = b.fsub(like(x, 1.0), b.fdiv(like(x, 2.0), b.fadd(doubled, like(x, 1.0))))
    value = b.select(b.fcmp_ordered("<", size, like(x, 0.4)), small, large)
    return intrinsic(b, "copysign", [value, x])


# erf(x) = 2/sqrt(pi) sum (-1)^n x^(2n+1) / (n! (2n+1)); for |x| <= 1 the next term is below 1e-9.
_ERF = [2 / sqrt(pi) * (-1) ** n / (factorial(n) * (2 * n + 1)) for n in range(12)]
# Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26: 1 - erf(x) within 1.5e-7.
_ERFC_P = 0.3275911
_ERFC = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def erf(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the error function."""
    size = intrinsic(b, "fabs", [x])
    z = b.fmul(x, x)
    small = b.fmul(size, polynomial(b, z, _ERF))
    t = b.fdiv(like(x, 1.0), fma(b, size, like(x, _ERFC_P), like(x, 1.0)))
    decay = exp(b, b.fneg(b.fmul(size, size)))
    large = b.fsub(like(x, 1.0), b.fmul(b.fmul(t, polynomial(b, t, _ERFC)), decay))
    value = b.select(b.fcmp_ordered("<=", size, like(x, 1.0)), small, large)
    return intrinsic(b, "copysign", [value, x])


def sigmoid(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return 1 / (1 + e^-x)."""
    return b.fdiv(like(x, 1.0), b.fadd(exp(b, b.fneg(x)), like(x, 1.0)))


def softplus(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return log(1 + e^x), without overflow."""
    positive = b.select(b.fcmp_ordered("<", x, like(x, 0.0)), like(x, 0.0), x)
    return b.fadd(positive, log1p(b, exp(b, b.fneg(intrinsic(b, "fabs", [x])))))
