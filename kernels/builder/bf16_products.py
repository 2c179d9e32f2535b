"""Products of bf16 added to f32: of pairs of terms, and of matrices of two rows by two columns, of four terms each.

All versions for x86-64 give the bits of VDPBF16PS, which adds the second product of a pair, then the first, each as a
fused multiply-add that rounds to nearest even and treats subnormal inputs and results as 0. Where the instruction is
missing, two f32 multiply-adds compute the same, with MXCSR.DAZ and MXCSR.FTZ set by the caller (csrc/blas_half.c,
`flushed_subnormals`): a bf16 is the upper half of an f32. Source: Intel SDM volume 2, VDPBF16PS.

All versions for AArch64 give the bits of BFMMLA: the products of the first two terms are added, then this
sum to the total, then the same for the other two; each addition rounds to odd, subnormal numbers count as 0, and an
overflow is infinite. Where the instruction is missing, f64 computes the same: a sum of two f32 numbers is h + e exactly
(Knuth's TwoSum), and h is made odd where e is not 0. Source: Arm Architecture Reference Manual, BFMMLA with FPCR.EBF =
0; Knuth, The Art of Computer Programming, volume 2, section 4.2.2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from mavcg.kernels.builder.arithmetic import half_of_pairs
from mavcg.kernels.builder.emit import BF16, F64, I32, I64, PTR, call_intrinsic, const, fma, lanes_of, vector
from mavcg.kernels.builder.lanes import shuffle
from mavcg.specs.kernel import Machine

LANES = 4  # f32 lanes of a vector: a matrix of 2 x 2 sums
_DISCARDED = (1 << 29) - 1  # bits of an f64's mantissa that f32 does not have
SMALLEST_NORMAL, _OVERFLOW = 2.0**-126, 2.0**128


class BFloatType(ir.Type):  # type: ignore[misc]
    """LLVM's type bfloat, which llvmlite lacks; it appears in signatures and casts, never in constants."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloatType)

    def __hash__(self) -> int:
        return hash(BFloatType)


BFLOAT = BFloatType()
# MXCSR: exceptions masked, round to nearest even, flush results (FTZ) and inputs (DAZ). Intel SDM volume 1, 10.2.3.
_FLUSHING = 0x1F80 | 0x8000 | 0x40


@contextmanager
def flushed_subnormals(b: ir.IRBuilder) -> Iterator[None]:
    """Emit the code of the `with` block so that subnormal numbers are 0 on x86-64, then restore the thread's mode.

    LLVM moves no load or store across the two changes of MXCSR, so arithmetic on loaded numbers stays between them.
    """
    own, flushing = b.alloca(I32, name="own_mode"), b.alloca(I32, name="flushing_mode")
    own.type = flushing.type = PTR  # llvmlite gives them types of their own
    b.store(const(_FLUSHING, I32), flushing)
    call_intrinsic(b, "llvm.x86.sse.stmxcsr", ir.VoidType(), own)
    call_intrinsic(b, "llvm.x86.sse.ldmxcsr", ir.VoidType(), flushing)
    yield
    call_intrinsic(b, "llvm.x86.sse.ldmxcsr", ir.VoidType(), own)


def round_flushed(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return vectors of f32 rounded to bf16 by VCVTNEPS2BF16, which gives 0 for the subnormal numbers that it reads."""
    lanes = lanes_of(x)
    rounded = call_intrinsic(b, f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * lanes}", vector(BFLOAT, lanes), x)
    return b.bitcast(rounded, vector(BF16, lanes))


def add_pair_products(b: ir.IRBuilder, machine: Machine, total: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return total + x[1] * y[1] + x[0] * y[0]. total: vector of f32; x, y: pairs of bf16, as vectors of f32's bits."""
    lanes = lanes_of(total)
    if machine.bf16_dot:
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
        pairs = vector(BFLOAT, 2 * lanes)
        kind = ir.FunctionType(total.type, [total.type, pairs, pairs])
        function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
        return b.call(function, [total, b.bitcast(x, pairs), b.bitcast(y, pairs)])
    (x_first, x_second), (y_first, y_second) = ([half_of_pairs(b, pairs, n) for n in (0, 1)] for pairs in (x, y))
    return fma(b, x_first, y_first, fma(b, x_second, y_second, total))


def add_matrix_products(b: ir.IRBuilder, machine: Machine, total: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return total + x * y, as BFMMLA computes it.

    total: 2 x 2 sums, row by row, in f32. x, y: four terms of each of two rows, and of two columns, in pairs as i32.
    """
    if not machine.bf16_dot:
        return b.call(_matrix_function(b.module, total.type, x.type), [total, x, y])
    name, terms = "llvm.aarch64.neon.bfmmla", vector(BFLOAT, 2 * LANES)
    kind = ir.FunctionType(total.type, [total.type, terms, terms])
    function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
    return b.call(function, [total, b.bitcast(x, terms), b.bitcast(y, terms)])


def _matrix_function(module: ir.Module, sums: ir.Type, pairs: ir.Type) -> ir.Function:
    """Return the module's function that computes what BFMMLA does, called instead of some 200 instructions in line."""
    name = "mavcg_add_matrices"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(sums, [sums, pairs, pairs]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    total, x, y = function.args
    for pair in (0, 1):
        of_rows = shuffle(b, x, x, (pair, pair, 2 + pair, 2 + pair))
        of_columns = shuffle(b, y, y, (pair, 2 + pair, pair, 2 + pair))
        total = _add_pair_to_odd(b, total, of_rows, of_columns)
    b.ret(total)
    return function


def _add_pair_to_odd(b: ir.IRBuilder, total: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return total + (x[0] * y[0] + x[1] * y[1]) with the roundings of BFDOT, without the instruction.

    total: vector of f32. x, y: pairs of bf16 in vectors of i32.
    """
    wide = vector(F64, LANES)
    products = [
        _in_range(b, b.fmul(*(b.fpext(_flush_subnormal(b, half), wide) for half in both)))
        for both in ([half_of_pairs(b, pairs, which) for pairs in (x, y)] for which in (0, 1))
    ]
    result = _add_to_odd(b, b.fpext(_flush_subnormal(b, total), wide), _add_to_odd(b, *products))
    narrow = b.fptrunc(result, total.type)
    default_nan = b.bitcast(ir.Constant(vector(I32, LANES), [0x7FC00000] * LANES), total.type)
    return b.select(b.fcmp_unordered("uno", narrow, narrow), default_nan, narrow)


def _flush_subnormal(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return f32 numbers with 0 of the same sign in place of subnormal ones."""
    bits = b.bitcast(x, vector(I32, LANES))
    exponent = b.and_(bits, ir.Constant(bits.type, [0x7F800000] * LANES))
    small = b.icmp_unsigned("==", exponent, ir.Constant(bits.type, [0] * LANES))
    zero = b.and_(bits, ir.Constant(bits.type, [0x80000000] * LANES))
    return b.bitcast(b.select(small, zero, bits), x.type)


def _in_range(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Return f64 numbers with 0 in place of those below f32's normal range, and infinity of those above it."""
    bits = b.bitcast(x, vector(I64, LANES))
    sign = b.and_(bits, ir.Constant(bits.type, [1 << 63] * LANES))
    size = b.bitcast(b.and_(bits, ir.Constant(bits.type, [(1 << 63) - 1] * LANES)), x.type)
    infinite = b.bitcast(b.or_(sign, ir.Constant(bits.type, [0x7FF << 52] * LANES)), x.type)
    small = b.fcmp_ordered("<", size, ir.Constant(x.type, [SMALLEST_NORMAL] * LANES))
    large = b.fcmp_ordered(">=", size, ir.Constant(x.type, [_OVERFLOW] * LANES))
    return b.select(small, b.bitcast(sign, x.type), b.select(large, infinite, x))


def _add_to_odd(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Return x + y of f32's values in f64, rounded to odd as f32, and brought into its range."""
    sum_ = b.fadd(x, y)
    of_y = b.fsub(sum_, x)
    error = b.fadd(b.fsub(x, b.fsub(sum_, of_y)), b.fsub(y, of_y))
    bits, error_bits = (b.bitcast(value, vector(I64, LANES)) for value in (sum_, error))

    def all_lanes(value: int) -> ir.Constant:
        return ir.Constant(bits.type, [value] * LANES)

    inexact = b.fcmp_ordered("!=", error, ir.Constant(error.type, [0.0] * LANES))  # false for NaN
    even = b.icmp_unsigned("==", b.and_(bits, all_lanes(1)), all_lanes(0))
    # The odd neighbour in the direction of the error: the sum's magnitude grows if both have one sign.
    direction = b.or_(b.ashr(b.xor(bits, error_bits), all_lanes(63)), all_lanes(1))
    odd = b.select(b.and_(inexact, even), b.add(bits, direction), bits)
    # Bits that f32 does not have make its last one odd. Infinities have none, and a NaN keeps its quiet bit.
    kept = b.and_(odd, all_lanes(~_DISCARDED & ((1 << 64) - 1)))
    sticky = b.icmp_unsigned("!=", b.and_(odd, all_lanes(_DISCARDED)), all_lanes(0))
    rounded = b.select(sticky, b.or_(kept, all_lanes(_DISCARDED + 1)), kept)
    return _in_range(b, b.bitcast(rounded, sum_.type))
