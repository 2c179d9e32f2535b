"""sin, cos and tan of f32 lanes, within 2 units in the last place for all finite arguments, bit-identical on every
core.

Arguments up to LARGEST are reduced by the method of Cody and Waite, in three fused steps. For larger ones, infinities
and NaN, a rare branch multiplies by the relevant bits of 2/pi (Payne and Hanek, "Radian Reduction for Trigonometric
Functions", SIGNUM 1983). A lane's result does not depend on whether the branch is taken.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import factorial, inf, nan, pi
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from mavcg.kernels.builder.emit import F64, I1, I32, I64, fma, intrinsic, lanes_of, vector
from mavcg.kernels.builder.float_math import ROUNDER, as_bits, as_floats, ints_like, like, polynomial

Reduced: TypeAlias = tuple[ir.Value, ir.Value]
LARGEST = 131072.0  # the largest |x| whose product with 2/pi, rounded to f32, has an error below 0.01
# pi/2 to 272 bits, enough to compute the first 192 bits of 2/pi.
_HALF_PI = Fraction(0xC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A, 1 << 271)
_DOUBLE_ROUNDER = 1.5 * 2.0**52  # a small number plus this has its nearest integer in the low mantissa bits
_SIN = [(-1) ** k / factorial(2 * k + 1) for k in range(1, 6)]
_COS = [(-1) ** k / factorial(2 * k) for k in range(1, 7)]


def _parts(value: Fraction, count: int) -> list[float]:
    """Return `count` f32 numbers whose sum approximates the value; each is the f32 nearest to the remainder."""
    parts = []
    for _ in range(count):
        parts.append(float(np.float32(float(value))))
        value -= Fraction(parts[-1])
    return parts


_HALF_PI_PARTS = _parts(_HALF_PI, 3)
# The fraction bits of 2/pi in words of 32 bits, after a word of zeros for the bits above the binary point.
_WORDS = [0, *(int((1 << 192) / _HALF_PI) >> shift & 0xFFFFFFFF for shift in range(160, -1, -32))]


def sin(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return sin x; sin(-0) is -0 (IEEE 754, 9.2.1)."""
    return _keep_signed_zero(b, x, _sin_cos(b, x, 0))


def cos(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return cos x."""
    return _sin_cos(b, x, 1)


def tan(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return tan x: sine over cosine of the reduced argument, or minus its inverse.

    The quotient is computed in f64; in f32 it would have an error of three units in the last place.
    """
    n, r = _merge(b, x, *_reduce_double(b, x), lambda n, r: (n, r))
    z = b.fmul(r, r)
    sine = fma(b, b.fmul(z, r), _double_series(b, z, _SIN), r)
    cosine = fma(b, z, _double_series(b, z, _COS), _doubles(x, 1.0))
    odd = _bit(b, n, 1)
    quotient = b.fptrunc(b.fdiv(b.select(odd, cosine, sine), b.select(odd, sine, cosine)), x.type)
    return _keep_signed_zero(b, x, as_floats(b, b.xor(as_bits(b, quotient), b.shl(n, ints_like(x, 31)))))


def _keep_signed_zero(b: ir.IRBuilder, x: ir.Value, value: ir.Value) -> ir.Value:
    """Return the value, but x where x is +0 or -0: the argument reduction loses the sign of zero."""
    return b.select(b.fcmp_ordered("==", x, like(x, 0.0)), x, value)


def _sin_cos(b: ir.IRBuilder, x: ir.Value, quarter: int) -> ir.Value:
    """Return sin(x + quarter * pi/2)."""
    n, r = _reduce(b, x)
    sine, cosine = _sin_cos_of_reduced(b, r)
    n = b.add(n, ints_like(x, quarter)) if quarter else n
    value = b.select(_bit(b, n, 1), cosine, sine)
    flip = b.shl(b.and_(n, ints_like(x, 2)), ints_like(x, 30))
    return as_floats(b, b.xor(as_bits(b, value), flip))


def _sin_cos_of_reduced(b: ir.IRBuilder, r: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return (sin r, cos r) for |r| <= 0.8, by their series."""
    z = b.fmul(r, r)
    sine = fma(b, b.fmul(z, r), polynomial(b, z, _SIN), r)
    return sine, fma(b, z, polynomial(b, z, _COS), like(r, 1.0))


def _bit(b: ir.IRBuilder, n: ir.Value, bit: int) -> ir.Value:
    return b.icmp_signed("!=", b.and_(n, ints_like(n, bit)), ints_like(n, 0))


def _reduce(b: ir.IRBuilder, x: ir.Value) -> Reduced:
    """Return (n, r) with x = n pi/2 + r and |r| <= pi/4 + 0.01; r is NaN for infinities and NaN.

    n: i32, of which only the last two bits are meaningful.
    """
    shifted = fma(b, x, like(x, 2 / pi), like(x, ROUNDER))
    n = b.sub(as_bits(b, shifted), ints_like(x, int(np.float32(ROUNDER).view(np.int32))))
    whole = b.fsub(shifted, like(x, ROUNDER))
    r = x
    # The first difference is exact: both operands are multiples of the last bit of pi/2's first part, and it is below
    # 1.
    for part in _HALF_PI_PARTS:
        r = fma(b, whole, like(x, -part), r)
    return _merge(b, x, n, r, lambda n, r: (n, b.fptrunc(r, x.type)))


def _reduce_double(b: ir.IRBuilder, x: ir.Value) -> Reduced:
    """Return (n, r) as _reduce does, with r in f64, for |x| <= LARGEST only."""
    wide = b.fpext(x, vector(F64, lanes_of(x)))
    shifted = fma(b, wide, _doubles(x, 2 / pi), _doubles(x, _DOUBLE_ROUNDER))
    whole = b.fsub(shifted, _doubles(x, _DOUBLE_ROUNDER))
    high = float(_HALF_PI)
    r = fma(b, whole, _doubles(x, -high), wide)
    r = fma(b, whole, _doubles(x, -float(_HALF_PI - Fraction(high))), r)
    lanes = b.bitcast(shifted, vector(I64, lanes_of(x)))
    return b.trunc(lanes, vector(I32, lanes_of(x))), r


def _merge(
    b: ir.IRBuilder, x: ir.Value, n: ir.Value, r: ir.Value, narrow: Callable[[ir.Value, ir.Value], Reduced]
) -> Reduced:
    """Return (n, r), in lanes beyond LARGEST replaced by narrow(_reduce_large(x)), which a rare branch computes."""
    ordinary = b.fcmp_ordered("<=", intrinsic(b, "fabs", [x]), like(x, LARGEST))
    before = b.block
    with b.if_then(b.not_(_all_lanes(b, ordinary)), likely=False):
        large_n, large_r = narrow(*_reduce_large(b, x))
        large_n, large_r = b.select(ordinary, n, large_n), b.select(ordinary, r, large_r)
        rare = b.block
    merged = b.phi(n.type), b.phi(r.type)
    for phi, common, seldom in zip(merged, (n, r), (large_n, large_r), strict=True):
        phi.add_incoming(common, before)
        phi.add_incoming(seldom, rare)
    return merged


def _all_lanes(b: ir.IRBuilder, flags: ir.Value) -> ir.Value:
    """Return an i1 that is true if all lanes are."""
    lanes = lanes_of(flags)
    if lanes == 1:
        return flags
    name = f"llvm.vector.reduce.and.v{lanes}i1"
    kind = ir.FunctionType(I1, [vector(I1, lanes)])
    return b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), [flags])


def _reduce_large(b: ir.IRBuilder, x: ir.Value) -> Reduced:
    """Return (n, r) as _reduce does, with r in f64, for |x| >= 2, infinities and NaN.

    Let x = m 2^(e - 31) with m of 32 bits, and let w be 96 bits of 2/pi, from fraction bit e - 32 on. Then m w 2^-94
    differs from x 2/pi by a multiple of 4 (the bits before w), which does not change the result, and by less than
    2^-62 (the bits after w). The smallest distance of an f32 from a multiple of pi/2 is above 2^-30.
    """
    lanes = lanes_of(x)
    long = vector(I64, lanes)

    def longs(value: int) -> ir.Constant:
        return ir.Constant(long, value if lanes == 1 else [value] * lanes)

    bits = as_bits(b, x)
    exponent = b.and_(b.lshr(bits, ints_like(x, 23)), ints_like(x, 255))
    m = b.or_(b.shl(bits, ints_like(x, 8)), ints_like(x, 0x80000000))
    at = b.sub(exponent, ints_like(x, 128))  # e - 1: the number of w's first bit, counted from the word of zeros
    shift = b.and_(at, ints_like(x, 31))
    odd_word, two = _bit(b, at, 32), _bit(b, at, 64)

    def word(i: int) -> ir.Value:
        """Return _WORDS[i + at / 32]; at / 32 is 0 to 3."""
        low, high = (b.select(odd_word, ints_like(x, _WORDS[j + 1]), ints_like(x, _WORDS[j])) for j in (i, i + 2))
        return b.select(two, high, low)

    words = [word(i) for i in range(4)]
    high, middle, low = (intrinsic(b, "fshl", [words[i], words[i + 1], shift]) for i in range(3))
    m_long = b.zext(m, long)
    product = b.lshr(b.mul(m_long, b.zext(low, long)), longs(32))
    product = b.add(b.mul(m_long, b.zext(middle, long)), product)
    product = b.add(b.shl(b.zext(b.mul(m, high), long), longs(32)), product)  # x 2/pi modulo 4, with 62 fraction bits
    quarters = b.lshr(b.add(product, longs(1 << 61)), longs(62))
    rest = b.sub(product, b.shl(quarters, longs(62)))
    r = b.fmul(b.sitofp(rest, vector(F64, lanes)), _doubles(x, pi / 2 * 2.0**-62))
    n = b.trunc(quarters, bits.type)
    negative = b.icmp_signed("<", bits, ints_like(x, 0))
    n, r = b.select(negative, b.neg(n), n), b.select(negative, b.fneg(r), r)
    finite = b.fcmp_ordered("<", intrinsic(b, "fabs", [x]), like(x, inf))
    return n, b.select(finite, r, _doubles(x, nan))


def _doubles(x: ir.Value, value: float) -> ir.Constant:
    """Return an f64 constant with as many lanes as x."""
    lanes = lanes_of(x)
    return ir.Constant(vector(F64, lanes), value if lanes == 1 else [value] * lanes)


def _double_series(b: ir.IRBuilder, z: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Return the sum of coefficients[i] * z^i of f64 lanes."""
    total: ir.Value = _doubles(z, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = fma(b, total, z, _doubles(z, coefficient))
    return total
