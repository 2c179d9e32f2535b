"""Sums of bf16 products in f32 by products of matrices: two rows of A by two columns of B, four terms at a time.

A packed panel has four consecutive terms of each line next to each other, 8 bytes: 16 bytes are a matrix of two rows
and four terms, which BFMMLA multiplies by one of two columns. All versions for AArch64 give the same bits, those of
BFMMLA: the products of the first two terms are added, then this sum to the total, then the same for the other two;
each addition rounds to odd, subnormal numbers count as 0, and an overflow is infinite. Where the instruction is
missing, f64 computes the same: a sum of two f32 numbers is h + e exactly (Knuth's TwoSum), and h is made odd where e is
not 0. Source: Arm Architecture Reference Manual, BFMMLA with FPCR.EBF = 0; Knuth, The Art of Computer Programming,
volume 2, section 4.2.2.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llvmlite import ir

from mavcg.kernels.blas.pair_product import BFLOAT
from mavcg.kernels.builder.arithmetic import half_of_pairs
from mavcg.kernels.builder.emit import F32, F64, I32, I64, Values, address, const, vector
from mavcg.kernels.builder.nest import shuffle
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile
from mavcg.specs.kernel import Machine

LANES = 4  # f32 lanes of a vector: a matrix of 2 x 2 sums
LINE_BYTES, MATRIX_BYTES = 8, 16  # four terms of a line, and of two
UNROLL = 2
_DISCARDED = (1 << 29) - 1  # bits of an f64's mantissa that f32 does not have
_SMALLEST, _OVERFLOW = 2.0**-126, 2.0**128


@dataclass(frozen=True)
class MatrixSums:
    """Emitter of the sums of a packed register tile. rows: a multiple of LANES."""

    b: ir.IRBuilder
    machine: Machine
    rows: int
    columns: int

    def emit(self, steps: ir.Value, a: ir.Value, second: ir.Value) -> Values:
        """Return the sums, column by column, each vector by vector. steps: groups of four terms; a, second: panels."""
        tile = SumTile(self.rows // 2, -(-self.columns // 2), holds_left=True)
        zeros = [ir.Constant(vector(F32, LANES), [0.0] * LANES)] * (tile.rows * tile.columns)

        def step_pointers(index: ir.Value, count: int) -> Iterator[tuple[ir.Value, ir.Value]]:
            for number in range(count):
                yield tuple(
                    address(self.b, address(self.b, panel, self.b.mul(index, const(size))), number * size)
                    for panel, size in ((a, self.rows * LINE_BYTES), (second, self.columns * LINE_BYTES))
                )

        products = ProductLoop(self.b, tile, self.row_pairs, self.column_pairs, self.multiply_add)
        whole = self.b.and_(steps, const(-UNROLL), "whole")
        sums = products.loop(const(0), whole, UNROLL, step_pointers, zeros)
        sums = products.loop(whole, steps, 1, step_pointers, sums, "rest")
        return tuple(self.vectors_of_columns(tile, sums))

    def row_pairs(self, at: tuple[ir.Value, ir.Value]) -> Iterator[ir.Value]:
        """Return the matrices of two rows of A."""
        return (self.matrix(at[0], pair, 2) for pair in range(self.rows // 2))

    def column_pairs(self, at: tuple[ir.Value, ir.Value]) -> Iterator[ir.Value]:
        """Return the matrices of two columns of B; the second of an odd last one is 0, and not read."""
        return (self.matrix(at[1], first // 2, min(2, self.columns - first)) for first in range(0, self.columns, 2))

    def matrix(self, panel: ir.Value, number: int, lines: int) -> ir.Value:
        """Load one or two lines of four terms, as pairs in 32 bits."""
        b, pointer = self.b, address(self.b, panel, number * MATRIX_BYTES)
        if lines == 2:
            return b.load(pointer, align=4, typ=vector(I32, LANES))
        line = b.load(pointer, align=4, typ=vector(I32, 2))
        return shuffle(b, line, ir.Constant(line.type, [0, 0]), range(LANES))

    def multiply_add(self, total: ir.Value, x: ir.Value, y: ir.Value, row: int, column: int) -> ir.Value:
        """Return total + x * y for the matrix of two rows and that of two columns."""
        b = self.b
        if self.machine.bf16_dot:
            name, terms = "llvm.aarch64.neon.bfmmla", vector(BFLOAT, 2 * LANES)
            kind = ir.FunctionType(total.type, [total.type, terms, terms])
            function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
            return b.call(function, [total, b.bitcast(x, terms), b.bitcast(y, terms)])
        return b.call(_matrix_function(b.module, total.type, x.type), [total, x, y])

    def vectors_of_columns(self, tile: SumTile, sums: Sequence[ir.Value]) -> Iterator[ir.Value]:
        """Yield the sums of each column, LANES rows in a vector."""
        for column in range(self.columns):
            side = column % 2
            for first in range(0, self.rows // 2, 2):
                upper, lower = (sums[tile.number(row, column // 2)] for row in (first, first + 1))
                yield shuffle(self.b, upper, lower, range(side, 2 * LANES, 2))


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
    small = b.fcmp_ordered("<", size, ir.Constant(x.type, [_SMALLEST] * LANES))
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
