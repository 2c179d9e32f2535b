"""exp, log and fmod of f64 as explicit polynomial and integer operations, bit-identical on every core.

Relative errors of exp and log are about 1e-15. Methods as in float_math.py.
"""

from collections.abc import Sequence
from math import factorial, inf, log, nan

from llvmlite import ir

from mavcg.kernels.builder.emit import F64, I1, I64, fma, intrinsic, lanes_of, vector

_SHIFTER = 1.5 * 2.0**52  # added to a small number it leaves the nearest integer in the last bits
_SHIFTER_BITS = 0x4338000000000000
ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # of f64
_LOG2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # 33 bits of ln 2: its product with an exponent is exact
_LOG2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")  # the rest
# exp(r) - 1 - r = r^2 (1/2 + r/6 + ..): for |r| <= ln(2)/2 the next term is below 1e-18.
_EXP_TAIL = [1 / factorial(k) for k in range(2, 15)]
# 2 atanh(s) = 2s (1 + s^2/3 + ..): for s <= 0.172 the next term is below 1e-18.
_ATANH = [1 / k for k in range(3, 25, 2)]


def _real(x: ir.Value, value: float) -> ir.Constant:
    lanes = lanes_of(x)
    return ir.Constant(vector(F64, lanes), value if lanes == 1 else [value] * lanes)


def _whole(x: ir.Value, value: int) -> ir.Constant:
    lanes = lanes_of(x)
    return ir.Constant(vector(I64, lanes), value if lanes == 1 else [value] * lanes)


def _bits(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    return b.bitcast(x, vector(I64, lanes_of(x)))


def _floats(b: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    return b.bitcast(bits, vector(F64, lanes_of(bits)))


def _series(b: ir.IRBuilder, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    total: ir.Value = _real(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = fma(b, total, x, _real(x, coefficient))
    return total


def exp64(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return e^x of f64; denormal results too."""
    x = b.select(b.fcmp_ordered("<", x, _real(x, -746.0)), _real(x, -746.0), x)
    x = b.select(b.fcmp_ordered(">", x, _real(x, 710.0)), _real(x, 710.0), x)
    shifted = fma(b, x, _real(x, 1 / log(2)), _real(x, _SHIFTER))
    n = b.sub(_bits(b, shifted), _whole(x, _SHIFTER_BITS))
    whole = b.fsub(shifted, _real(x, _SHIFTER))
    r = fma(b, whole, _real(x, -_LOG2_LOW), fma(b, whole, _real(x, -_LOG2_HIGH), x))
    value = b.fadd(fma(b, b.fmul(r, r), _series(b, r, _EXP_TAIL), r), _real(x, 1.0))
    # In two steps: 2^n alone may overflow f64 where the result does not. The i64 is made positive before the shift:
    # not every core has an arithmetic shift of i64 lanes.
    half = b.sub(b.lshr(b.add(n, _whole(x, 4096)), _whole(x, 1)), _whole(x, 2048))
    for part in (half, b.sub(n, half)):
        value = b.fmul(value, _floats(b, b.shl(b.add(part, _whole(x, 1023)), _whole(x, 52))))
    return value


def log64(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return the natural logarithm of f64; -inf at 0, NaN below."""
    tiny = b.fcmp_ordered("<", x, _real(x, 2.0**-1022))
    bits = _bits(b, b.select(tiny, b.fmul(x, _real(x, 2.0**52)), x))
    away = b.sub(bits, _whole(x, ROOT_HALF_BITS))
    exponent = b.sub(b.lshr(b.add(away, _whole(x, 1 << 62)), _whole(x, 52)), _whole(x, 1 << 10))
    mantissa = _floats(b, b.sub(bits, b.shl(exponent, _whole(x, 52))))
    exponent = b.sub(exponent, b.select(tiny, _whole(x, 52), _whole(x, 0)))
    n = b.fsub(_floats(b, b.add(exponent, _whole(x, _SHIFTER_BITS))), _real(x, _SHIFTER))
    f = b.fsub(mantissa, _real(x, 1.0))
    s = b.fdiv(f, b.fadd(f, _real(x, 2.0)))
    z = b.fmul(s, s)
    # log(1+f) = f - (f^2/2 - s (f^2/2 + R)): f enters unrounded.
    rest = b.fmul(b.fmul(z, _real(x, 2.0)), _series(b, z, _ATANH))
    square = b.fmul(b.fmul(f, f), _real(x, 0.5))
    tail = fma(b, s, b.fadd(square, rest), b.fmul(n, _real(x, _LOG2_LOW)))
    value = fma(b, n, _real(x, _LOG2_HIGH), b.fsub(f, b.fsub(square, tail)))
    value = b.select(b.fcmp_ordered("==", x, _real(x, inf)), _real(x, inf), value)
    value = b.select(b.fcmp_ordered("==", x, _real(x, 0.0)), _real(x, -inf), value)
    return b.select(b.fcmp_unordered("<", x, _real(x, 0.0)), _real(x, nan), value)


def fmod64(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return x - trunc(x / y) y of f64 scalars, exactly: NaN where y is 0 or x infinite, x where y is infinite.

    A long division of the mantissas, one bit per iteration; the difference of the exponents is the number of
    iterations.
    """
    size, divisor = intrinsic(b, "fabs", [x]), intrinsic(b, "fabs", [y])
    usable = b.and_(b.fcmp_ordered("<", size, _real(x, inf)), b.fcmp_ordered(">", divisor, _real(x, 0.0)))
    divides = b.and_(usable, b.fcmp_ordered("<", divisor, _real(x, inf)))
    # Both as mantissa * 2^exponent. Operands without a quotient are replaced by 0 and 1.
    top, top_exponent = _mantissa_exponent(b, b.select(divides, size, _real(x, 0.0)))
    bottom, bottom_exponent = _mantissa_exponent(b, b.select(divides, divisor, _real(x, 1.0)))
    iterations = b.sub(top_exponent, bottom_exponent)
    before, head = b.block, b.append_basic_block("fmod_head")
    inside, after = b.append_basic_block("fmod_iteration"), b.append_basic_block("fmod_end")
    b.branch(head)
    b.position_at_end(head)
    rest, left = b.phi(I64, name="rest"), b.phi(I64, name="left")
    rest.add_incoming(top, before)
    left.add_incoming(iterations, before)
    b.cbranch(b.icmp_signed(">", left, _whole(x, 0)), inside, after)
    b.position_at_end(inside)
    doubled = b.shl(_subtract_once(b, rest, bottom), _whole(x, 1))
    rest.add_incoming(doubled, b.block)
    left.add_incoming(b.sub(left, _whole(x, 1)), b.block)
    b.branch(head)
    b.position_at_end(after)
    divides = b.and_(divides, b.icmp_signed(">=", iterations, _whole(x, 0)))  # else x is the remainder already
    value = b.select(divides, _scale_by_power(b, _subtract_once(b, rest, bottom), bottom_exponent), size)
    return b.select(usable, intrinsic(b, "copysign", [value, x]), _real(x, nan))


def _subtract_once(b: ir.IRBuilder, remainder: ir.Value, bottom: ir.Value) -> ir.Value:
    """Return remainder - bottom where that is not negative, else remainder."""
    return b.select(b.icmp_unsigned(">=", remainder, bottom), b.sub(remainder, bottom), remainder)


def _mantissa_exponent(b: ir.IRBuilder, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return (m, e) with x = m * 2^(e - 1075) and the highest bit of m at 2^52; (0, e) for 0. x: an f64 >= 0."""
    bits = _bits(b, x)
    exponent = b.lshr(bits, _whole(x, 52))
    fraction = b.and_(bits, _whole(x, (1 << 52) - 1))
    normal = b.icmp_signed(">", exponent, _whole(x, 0))
    mantissa = b.select(normal, b.or_(fraction, _whole(x, 1 << 52)), fraction)
    missing = b.sub(b.ctlz(mantissa, ir.Constant(I1, 0)), _whole(x, 11))  # leading zeros of a denormal's mantissa
    exponent = b.select(normal, exponent, _whole(x, 1))
    return b.shl(mantissa, missing), b.sub(exponent, missing)


def _scale_by_power(b: ir.IRBuilder, mantissa: ir.Value, exponent: ir.Value) -> ir.Value:
    """Return m * 2^(e - 1075), exactly: m as f64, multiplied by two powers of 2 that are both normal f64."""
    value = b.uitofp(mantissa, F64)
    # In two steps, since 2^(e - 1075) alone may underflow; after the first step no result is a denormal yet.
    shift = b.sub(exponent, _whole(mantissa, 1075))
    half = b.ashr(shift, _whole(mantissa, 1))
    for part in (half, b.sub(shift, half)):
        value = b.fmul(value, _floats(b, b.shl(b.add(part, _whole(mantissa, 1023)), _whole(mantissa, 52))))
    return value
