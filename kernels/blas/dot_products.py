"""Kernel of dot products of columns: sums[j][i] += dot product of A's column i and B's column j.

void f(i64 steps, i64 tails, i64 a_columns, i64 b_columns, ptr a, i64 a_bytes, ptr b, i64 b_bytes, ptr a_tail,
ptr b_tail, ptr sums): see csrc/blas.h, blas_dot_products. All versions give the same bits: each dot product has
SUM_BYTES of partial sums, whatever the vector length, which are reduced by adding the upper to the lower half.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llvmlite import ir

from mavcg.kernels.blas.product_tile import TYPES, VectorEmitter, begin_function
from mavcg.kernels.blas.vector_product import SUM_BYTES
from mavcg.kernels.builder.emit import I32, I64, PTR, Values, address, const, fma, repeat, vector
from mavcg.kernels.builder.product_loop import CHAINS, COLUMNS, ROWS, ProductLoop, SumTile, prefetch
from mavcg.specs.kernel import Machine

FUNCTION_TYPE = ir.FunctionType(ir.VoidType(), [I64, I64, I64, I64, PTR, I64, PTR, I64, PTR, PTR, PTR])
ARGUMENTS = ("steps", "tails", "a_columns", "b_columns", "a", "a_bytes", "b", "b_bytes", "a_tail", "b_tail", "sums")
SUMS_COLUMN = 8  # elements from one column of B to the next in `sums`: DOT_GROUP of csrc/blas_dots.c
GROUPS = ((4, 6), (2, 3), (2, 2), (1, 2), (1, 1))  # (columns of A, of B) per group, most multiply-adds per load first


@dataclass(frozen=True)
class DotProducts:
    """The dot-product kernel of an element type. dtype: "f32" or "f64"."""

    dtype: str

    @property
    def symbol(self) -> str:
        """The function's name, without the suffix of a version."""
        return f"mavcg_dot_products_{self.dtype}"


def vectors_of_sum(machine: Machine) -> int:
    """Return the number of vectors that hold the partial sums of one dot product."""
    return max(1, SUM_BYTES // machine.vector_bytes)


def dot_group(machine: Machine) -> tuple[int, int]:
    """Return (columns of A, columns of B) of a group: most multiply-adds per load among those whose sums fit
    registers."""
    parts = vectors_of_sum(machine)
    fitting = (group for group in GROUPS if group[0] * group[1] * parts + group[0] + 1 <= machine.vector_registers)
    return next(fitting, GROUPS[-1])


def emit_dot_products(module: ir.Module, machine: Machine, products: DotProducts) -> None:
    """Emit the kernel's function for a core: all groups of columns of B, each with all groups of columns of A."""
    b = begin_function(module, FUNCTION_TYPE, products.symbol, ARGUMENTS, "sums")
    emitter = _DotEmitter(b, machine, products.dtype)
    a_group, b_group = dot_group(machine)
    a_columns, b_columns = b.function.args[2:4]

    def add_for(j: ir.Value, columns: int, last: bool) -> None:
        whole = b.mul(b.sdiv(a_columns, const(a_group)), const(a_group))
        repeat(b, 0, whole, lambda i: emitter.add_dots(i, a_group, j, columns, last), "a_group", a_group)
        repeat(b, whole, a_columns, lambda i: emitter.add_dots(i, 1, j, columns, last), "a_column")

    # Whole groups of B's columns first. The last b_group + 1 to 2 * b_group columns are split into two groups of about
    # equal size: in a group of few columns each load feeds few multiply-adds.
    left = b.srem(b.sub(b_columns, const(1)), const(b_group))  # columns of a partial last group, less 1
    single_group = b.icmp_signed("<=", b_columns, const(b_group), "one")
    remaining = b.select(single_group, b_columns, b.add(left, const(b_group + 1)), "rest")
    whole = b.sub(b_columns, remaining, "whole")
    first = b.select(single_group, remaining, b.sdiv(b.add(remaining, const(1)), const(2)), "first")
    repeat(b, 0, whole, lambda j: add_for(j, b_group, last=False), "b_group", b_group)

    def add_remaining(number: ir.Value) -> None:
        is_first = b.icmp_signed("==", number, const(0))
        j = b.select(is_first, whole, b.add(whole, first), "rest_column")
        count = b.select(is_first, first, b.sub(remaining, first), "rest_columns")
        for columns in range(1, b_group + 1):
            with b.if_then(b.icmp_signed("==", count, const(columns))):
                add_for(j, columns, last=True)

    repeat(b, 0, const(2), add_remaining, "rest_group")
    b.ret_void()


@dataclass(frozen=True)
class _Part:
    """A vector of terms, `offset` bytes from the first of each column. a_lines, b_lines: addresses of the columns."""

    a_lines: Sequence[ir.Value]
    b_lines: Sequence[ir.Value]
    offset: ir.Value


@dataclass(frozen=True)
class _DotEmitter(VectorEmitter):
    """Emitter of the loop over terms for a group of columns of A and of B."""

    @property
    def parts(self) -> int:
        """Number of vectors that hold the partial sums of one dot product."""
        return vectors_of_sum(self.machine)

    def add_dots(self, i: ir.Value, a_count: int, j: ir.Value, b_count: int, last: bool) -> None:
        """Add the dot products of a_count columns of A from i and b_count columns of B from j to the sums.

        last: true if these columns of A are not read again; then the columns after them are prefetched.
        """
        b = self.b
        steps, tails, _, _, a_matrix, a_bytes, b_matrix, b_bytes, a_tail, b_tail, _ = b.function.args
        zero = ir.Constant(vector(TYPES[self.dtype], self.lanes), [0.0] * self.lanes)
        start = [zero] * (a_count * b_count * self.parts)
        a_first, b_first = address(b, a_matrix, b.mul(i, a_bytes)), address(b, b_matrix, b.mul(j, b_bytes))
        a_lines = [address(b, a_first, b.mul(a_bytes, const(n))) for n in range(a_count)]
        b_lines = [address(b, b_first, b.mul(b_bytes, const(n))) for n in range(b_count)]
        ahead = b.mul(a_bytes, const(a_count))  # bytes to the next group's columns

        def whole_steps(at: ir.Value, count: int) -> Iterator[_Part]:
            for line in a_lines if last else []:
                prefetch(b, address(b, address(b, line, ahead), b.mul(at, const(SUM_BYTES))), 0)
            return self.step(at, a_lines, b_lines)

        tile = SumTile(a_count, b_count, holds_left=True, chains=self.parts, order=(COLUMNS, ROWS, CHAINS))
        products = ProductLoop(b, tile, self.of_a, self.of_b, lambda total, x, y, *_: fma(b, x, y, total))
        sums = products.loop(const(0), steps, 1, whole_steps, start, "step")
        width = const(SUM_BYTES)
        a_ends = [address(b, a_tail, b.mul(b.add(i, const(n)), width)) for n in range(a_count)]
        b_ends = [address(b, b_tail, b.mul(b.add(j, const(n)), width)) for n in range(b_count)]
        sums = products.loop(const(0), tails, 1, lambda at, count: self.step(at, a_ends, b_ends), sums, "tail")
        self.add_totals(self.totals(sums), i, a_count, j, b_count)

    def step(self, at: ir.Value, a_lines: Sequence[ir.Value], b_lines: Sequence[ir.Value]) -> Iterator[_Part]:
        """Yield the parts of SUM_BYTES of terms, each of which has a partial sum of its own."""
        for part in range(self.parts):
            offset = self.b.add(self.b.mul(at, const(SUM_BYTES)), const(part * self.machine.vector_bytes))
            yield _Part(a_lines, b_lines, offset)

    def of_a(self, part: _Part) -> Iterator[ir.Value]:
        return (self.load(line, part.offset) for line in part.a_lines)

    def of_b(self, part: _Part) -> Iterator[ir.Value]:
        return (self.load(line, part.offset) for line in part.b_lines)

    def load(self, line: ir.Value, offset: ir.Value) -> ir.Value:
        """Return a vector of a column, `offset` bytes from its first element."""
        typ = vector(TYPES[self.dtype], self.lanes)
        return self.b.load(address(self.b, line, offset), align=self.item, typ=typ)

    def totals(self, sums: Values) -> list[ir.Value]:
        """Return vectors of the dot products. Partial sums are reduced: the upper half is added to the lower until one
        is left.

        One addition halves two vectors.
        """
        b = self.b
        vectors = []
        for n in range(0, len(sums), self.parts):
            parts = list(sums[n : n + self.parts])
            while len(parts) > 1:
                half = len(parts) // 2
                parts = [b.fadd(low, high) for low, high in zip(parts[:half], parts[half:], strict=True)]
            vectors.append(parts[0])
        length, segment = self.lanes, self.lanes  # lanes of a vector; lanes of it that belong to one dot product
        while segment > 1:
            pairs = len(vectors) > 1
            if pairs and len(vectors) % 2:
                vectors.append(ir.Constant(vectors[0].type, ir.Undefined))
            firsts, seconds = (vectors[::2], vectors[1::2]) if pairs else (vectors, vectors)
            low = [n for n in range(length * (2 if pairs else 1)) if n % segment < segment // 2]
            high = [n + segment // 2 for n in low]
            vectors = [
                b.fadd(self.shuffle(x, y, low), self.shuffle(x, y, high)) for x, y in zip(firsts, seconds, strict=True)
            ]
            length, segment = len(low), segment // 2
        return vectors

    def shuffle(self, x: ir.Value, y: ir.Value, lanes: Sequence[int]) -> ir.Value:
        """Return a vector of the given lanes of x and y; y's lanes are numbered after x's."""
        return self.b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))

    def add_totals(self, totals: Sequence[ir.Value], i: ir.Value, a_count: int, j: ir.Value, b_count: int) -> None:
        """Add the dot products to `sums` in memory, where those of one column of B are neighbours."""
        b, length = self.b, int(totals[0].type.count)
        for n in range(b_count):
            whole, lane = totals[n * a_count // length], n * a_count % length
            values = self.shuffle(whole, whole, range(lane, lane + a_count))
            index = b.add(b.mul(b.add(j, const(n)), const(SUMS_COLUMN)), i)
            pointer = address(b, b.function.args[10], b.mul(index, const(self.item)))
            b.store(b.fadd(b.load(pointer, align=self.item, typ=values.type), values), pointer, align=self.item)
