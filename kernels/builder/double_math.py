"""exp, log, pow and fmod of f64 and f32 as explicit operations of f64, bit-identical on every core.

Processors have no instruction for these. Relative errors of exp and log are about 1e-15; methods as in float_math.py.
f64 has so many more bits than f32 that a short series gives a correctly rounded f32 power nearly always.
"""

from collections.abc import Sequence
from math import factorial, inf, log, nan

from llvmlite import ir

from mavcg.kernels.builder.emit import F32, F64, I1, I64, fma, for_range, intrinsic, lanes_of, vector

_SHIFTER = 1.5 * 2.0**52  # added to a small number it leaves the nearest integer in the last bits
_SHIFTER_BITS = 0x4338000000000000
ROOT_HALF_BITS = 0x3FE6A09E667F3BCD  # of f64
_LOG2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")  # 33 bits of ln 2: its product with an exponent is exact
_LOG2_LOW = float.fromhex("0x1.cf79abc9e3b3ap-40")  # the rest
# exp(r) - 1 - r = r^2 (1/2 + r/6 + ..): for |r| <= ln(2)/2 the next term is below 1e-18.
_EXP_TAIL = [1 / factorial(k) for k in range(2, 15)]
# 2 atanh(s) = 2s (1 + s^2/3 + ..): for s <= 0.172 the next term is below 1e-18.
_ATANH = [1 / k for k in range(3, 25, 2)]


def _number(typ: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(typ, [value] * typ.count if isinstance(typ, ir.VectorType) else value)


def _real(x: ir.Value, value: float) -> ir.Constant:
    return _number(vector(F64, lanes_of(x)), value)


def _whole(x: ir.Value, value: int) -> ir.Constant:
    return _number(vector(I64, lanes_of(x)), value)


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


def _f64(x: ir.Value) -> ir.Type:
    return vector(F64, lanes_of(x))


# log2((1+s)/(1-s)) = 2/ln 2 (s + s^3/3 + ..); for |s| <= 0.172 the next term is below 1e-14.
_LOG2 = [2 / log(2) / (2 * k + 1) for k in range(9)]
_EXP2 = [log(2) ** k / factorial(k) for k in range(12)]  # for |x| <= 1/2 the next term is below 1e-14


def _log2(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return log2 of f64 lanes that are normal and positive."""
    ints = vector(I64, lanes_of(x))
    bits = b.bitcast(x, ints)
    exponent = b.ashr(b.sub(bits, _number(ints, ROOT_HALF_BITS)), _number(ints, 52))
    mantissa = b.bitcast(b.sub(bits, b.shl(exponent, _number(ints, 52))), x.type)
    s = b.fdiv(b.fsub(mantissa, _number(x.type, 1.0)), b.fadd(mantissa, _number(x.type, 1.0)))
    # Converts a small integer to f64 through the bits of 1.5 * 2^52: not every core converts i64 lanes.
    whole = b.bitcast(b.add(exponent, _number(ints, _SHIFTER_BITS)), x.type)
    return fma(b, s, _series(b, b.fmul(s, s), _LOG2), b.fsub(whole, _number(x.type, _SHIFTER)))


def _exp2(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return 2^x for f64 lanes between -1000 and 1000."""
    ints = vector(I64, lanes_of(x))
    shifted = b.fadd(x, _number(x.type, _SHIFTER))
    n = b.sub(b.bitcast(shifted, ints), _number(ints, _SHIFTER_BITS))
    part = b.fsub(x, b.fsub(shifted, _number(x.type, _SHIFTER)))
    scale = b.bitcast(b.shl(b.add(n, _number(ints, 1023)), _number(ints, 52)), x.type)
    return b.fmul(_series(b, part, _EXP2), scale)


def power(b: ir.IRBuilder, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return x to the power y. f32: as C's pow. Integers: the exact power, truncated. Other types have no power."""
    if dtype == "f32":
        return _float_power(b, x, y)
    return _whole_power(b, dtype, x, y)


def _float_power(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    typ = _f64(x)
    zero, unity, infinite = (_number(x.type, v) for v in (0.0, 1.0, inf))
    size = intrinsic(b, "fabs", [x])
    t = b.fmul(_log2(b, b.fpext(size, typ)), b.fpext(y, typ))
    t = b.select(b.fcmp_ordered("<", t, _number(typ, 1000.0)), t, _number(typ, 1000.0))
    t = b.select(b.fcmp_ordered(">", t, _number(typ, -1000.0)), t, _number(typ, -1000.0))
    value = b.fptrunc(_exp2(b, t), x.type)
    falling = b.fcmp_ordered("<", y, zero)
    value = b.select(b.fcmp_ordered("==", size, zero), b.select(falling, infinite, zero), value)
    value = b.select(b.fcmp_ordered("==", size, infinite), b.select(falling, zero, infinite), value)
    # A negative x has a negative power if y is odd, and none (NaN) if y has a fraction.
    half = b.fmul(y, _number(y.type, 0.5))
    whole = b.fcmp_ordered("==", intrinsic(b, "trunc", [y]), y)
    odd = b.and_(whole, b.fcmp_ordered("!=", intrinsic(b, "trunc", [half]), half))
    signed = intrinsic(b, "copysign", [value, x])
    value = b.select(odd, signed, value)
    finite = b.fcmp_ordered("<", size, infinite)
    imaginary = b.and_(b.and_(b.fcmp_ordered("<", x, zero), finite), b.not_(whole))
    value = b.select(imaginary, _number(x.type, nan), value)
    value = b.select(b.fcmp_unordered("uno", x, y), _number(x.type, nan), value)
    endless = b.fcmp_ordered("==", intrinsic(b, "fabs", [y]), infinite)
    unit = b.and_(b.fcmp_ordered("==", size, unity), endless)
    unit = b.or_(unit, b.or_(b.fcmp_ordered("==", x, unity), b.fcmp_ordered("==", y, zero)))
    return b.select(unit, unity, value)


# Constant exponents that are computed by products, a root and a quotient.
EXACT_EXPONENTS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0)


def fixed_power(b: ir.IRBuilder, x: ir.Value, exponent: float) -> ir.Value:
    """Return x to the power `exponent`, one of EXACT_EXPONENTS, by products, a root and a quotient."""
    unity = _number(x.type, 1.0)
    if exponent < 0:
        return b.fdiv(unity, fixed_power(b, x, -exponent))
    if exponent == 0:
        return unity
    if exponent == 0.5:
        # pow(-0, 1/2) is 0 and pow(-inf, 1/2) is inf, unlike the roots.
        root = intrinsic(b, "sqrt", [b.fadd(x, _number(x.type, 0.0))])
        infinite = b.fcmp_ordered("==", intrinsic(b, "fabs", [x]), _number(x.type, inf))
        return b.select(infinite, _number(x.type, inf), root)
    if exponent == 1:
        return x
    square = b.fmul(x, x)
    return {2.0: lambda: square, 3.0: lambda: b.fmul(square, x), 4.0: lambda: b.fmul(square, square)}[exponent]()


def _whole_power(b: ir.IRBuilder, dtype: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return x to the power y of integer scalars by square-and-multiply; y < 0 gives 0 unless x is 1 or -1."""
    signed = dtype.startswith("i")
    typ = x.type

    def iteration(_: ir.Value, carried: tuple[ir.Value, ...]) -> tuple[ir.Value, ...]:
        result, factor, left = carried
        bit = b.icmp_signed("!=", b.and_(left, ir.Constant(typ, 1)), ir.Constant(typ, 0))
        return (
            b.select(bit, b.mul(result, factor), result),
            b.mul(factor, factor),
            b.lshr(left, ir.Constant(typ, 1)),
        )

    bits = ir.Constant(I64, typ.width)
    value = for_range(b, ir.Constant(I64, 0), bits, 1, (ir.Constant(typ, 1), x, y), iteration, "bit")[0]
    if not signed:
        return value
    unity, minus = ir.Constant(typ, 1), ir.Constant(typ, -1)
    even = b.icmp_signed("==", b.and_(y, unity), ir.Constant(typ, 0))
    inverse_of_unit = b.select(b.and_(b.icmp_signed("==", x, minus), even), unity, x)
    unit = b.or_(b.icmp_signed("==", x, unity), b.icmp_signed("==", x, minus))
    inverse = b.select(unit, inverse_of_unit, ir.Constant(typ, 0))
    return b.select(b.icmp_signed("<", y, ir.Constant(typ, 0)), inverse, value)


def fmod(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return x - trunc(x / y) y of f32 scalars, exactly: NaN where y is 0 or x infinite, x where y is infinite.

    A long division in f64, 24 bits of the quotient per iteration: the product of two numbers of 24 bits is exact in
    f64.
    """
    size = b.fpext(intrinsic(b, "fabs", [x]), F64)
    divisor = b.fpext(intrinsic(b, "fabs", [y]), F64)
    endless = ir.Constant(F64, inf)
    usable = b.and_(b.fcmp_ordered("<", size, endless), b.fcmp_ordered(">", divisor, ir.Constant(F64, 0.0)))
    start = b.select(usable, size, ir.Constant(F64, 0.0))
    before, head = b.block, b.append_basic_block("fmod_head")
    inside, after = b.append_basic_block("fmod_iteration"), b.append_basic_block("fmod_end")
    b.branch(head)
    b.position_at_end(head)
    rest = b.phi(F64, name="rest")
    rest.add_incoming(start, before)
    # A divisor of NaN or 0 gives no iteration: usable is false, so rest is 0, and an iteration needs a rest above 0.
    more = b.and_(b.fcmp_ordered(">=", rest, divisor), b.fcmp_ordered(">", rest, ir.Constant(F64, 0.0)))
    b.cbranch(more, inside, after)
    b.position_at_end(inside)
    exponent = b.sub(b.lshr(b.bitcast(b.fdiv(rest, divisor), I64), ir.Constant(I64, 52)), ir.Constant(I64, 1023 + 23))
    shift = b.select(b.icmp_signed(">", exponent, ir.Constant(I64, 0)), exponent, ir.Constant(I64, 0))
    scale = b.bitcast(b.shl(b.add(shift, ir.Constant(I64, 1023)), ir.Constant(I64, 52)), F64)
    wide = b.fmul(divisor, scale)
    quotient = intrinsic(b, "trunc", [b.fdiv(rest, wide)])
    less = fma(b, b.fneg(quotient), wide, rest)
    # The division may have rounded the quotient up to the next integer.
    less = b.select(b.fcmp_ordered("<", less, ir.Constant(F64, 0.0)), b.fadd(less, wide), less)
    rest.add_incoming(less, b.block)
    b.branch(head)
    b.position_at_end(after)
    value = intrinsic(b, "copysign", [b.fptrunc(rest, F32), x])
    return b.select(usable, value, ir.Constant(F32, nan))
