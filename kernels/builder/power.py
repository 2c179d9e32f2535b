"""pow and fmod, for which processors have no instruction; f32 results are computed in f64.

f64 has so many more bits than f32 that a short series gives a correctly rounded f32 nearly always.
"""

from math import factorial, inf, log, nan

from llvmlite import ir

from mavcg.kernels.builder.double_math import ROOT_HALF_BITS
from mavcg.kernels.builder.emit import F32, F64, I64, fma, for_range, intrinsic, lanes_of, vector


def _number(typ: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(typ, [value] * typ.count if isinstance(typ, ir.VectorType) else value)


def _f64(x: ir.Value) -> ir.Type:
    return vector(F64, lanes_of(x))


def _series(b: ir.IRBuilder, x: ir.Value, coefficients: list[float]) -> ir.Value:
    total: ir.Value = _number(x.type, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = fma(b, total, x, _number(x.type, coefficient))
    return total


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
    shifter = 1.5 * 2.0**52
    whole = b.bitcast(b.add(exponent, _number(ints, 0x4338000000000000)), x.type)
    return fma(b, s, _series(b, b.fmul(s, s), _LOG2), b.fsub(whole, _number(x.type, shifter)))


def _exp2(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return 2^x for f64 lanes between -1000 and 1000."""
    ints = vector(I64, lanes_of(x))
    shifted = b.fadd(x, _number(x.type, 1.5 * 2.0**52))
    n = b.sub(b.bitcast(shifted, ints), _number(ints, 0x4338000000000000))
    part = b.fsub(x, b.fsub(shifted, _number(x.type, 1.5 * 2.0**52)))
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
