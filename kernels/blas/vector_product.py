"""Kernels of matrix-vector products of any size: y += A * x and y += A' * x.

void f(i64 rows, i64 columns, ptr a, i64 column_bytes, ptr x, ptr y): see csrc/blas.h, blas_vector_product. A is
column-major; x and y are contiguous. All versions give the same bits: a sum over columns is a fused multiply-add per
column in order; a sum over rows has SUM_BYTES of partial sums, whatever the vector length, reduced by halves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from llvmlite import ir

from mavcg.kernels.blas.product_tile import TYPES, VectorEmitter, begin_function
from mavcg.kernels.builder.emit import I32, I64, PTR, Values, address, const, fma, repeat, vector
from mavcg.kernels.builder.lanes import splat
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile, TermPointers
from mavcg.specs.kernel import Machine

FUNCTION_TYPE = ir.FunctionType(ir.VoidType(), [I64, I64, PTR, I64, PTR, PTR])
ARGUMENTS = ("rows", "columns", "a", "column_bytes", "x", "y")
SUM_BYTES = 64
ROWS_UNROLLED = 4  # vectors of y in registers while a group of columns is added


@dataclass(frozen=True)
class VectorProduct:
    """A matrix-vector product. sums: y[j] += sum over rows i of A[i, j] * x[i]; else y[i] += A[i, j] * x[j] per
    column."""

    dtype: str
    sums: bool

    @property
    def symbol(self) -> str:
        """The function's name, without the suffix of a version."""
        return f"mavcg_vector_{'sums' if self.sums else 'columns'}_{self.dtype}"


def emit_vector_product(module: ir.Module, machine: Machine, product: VectorProduct) -> None:
    """Emit the product's function for a core."""
    b = begin_function(module, FUNCTION_TYPE, product.symbol, ARGUMENTS, "y")
    emitter = _VectorEmitter(b, machine, product.dtype)
    group = emitter.column_group(product.sums)
    add = emitter.add_sums if product.sums else emitter.add_columns
    columns = b.function.args[1]
    whole = b.mul(b.sdiv(columns, const(group)), const(group), name="whole")
    repeat(b, 0, whole, lambda column: add(column, group), "group", group)
    repeat(b, whole, columns, lambda column: add(column, 1), "column")
    b.ret_void()


@dataclass(frozen=True)
class _VectorEmitter(VectorEmitter):
    """Emitter of the loops over rows for a group of columns."""

    def column_group(self, sums: bool) -> int:
        """Return the number of columns of a group: as many as fit the registers beside the vectors of x or y."""
        if sums:
            return max(2, 8 * self.machine.vector_bytes // SUM_BYTES) if self.machine.vector_bytes != 16 else 4
        return 8 if self.machine.vector_registers > 16 else 4

    def load(self, base: ir.Value, element: ir.Value, lanes: int) -> ir.Value:
        """Return `lanes` neighbouring elements of an array, from number `element` on."""
        pointer = address(self.b, base, self.b.mul(element, const(self.item)))
        return self.b.load(pointer, align=self.item, typ=vector(TYPES[self.dtype], lanes))

    def store(self, value: ir.Value, base: ir.Value, element: ir.Value) -> None:
        self.b.store(value, address(self.b, base, self.b.mul(element, const(self.item))), align=self.item)

    def columns_from(self, column: ir.Value, count: int) -> list[ir.Value]:
        """Return the addresses of `count` neighbouring columns."""
        b, (_, _, a, stride, *_rest) = self.b, self.b.function.args
        first = address(b, a, b.mul(column, stride))
        return [address(b, first, b.mul(stride, const(j))) for j in range(count)]

    def multiply_add(self, total: ir.Value, element: ir.Value, factor: ir.Value, row: int, column: int) -> ir.Value:
        """Return total + element * factor, rounded once."""
        return fma(self.b, element, factor, total)

    def add_columns(self, column: ir.Value, count: int) -> None:
        """Emit y[i] += A[i, j] * x[j] for `count` columns."""
        b, (rows, _, _, _, x, y) = self.b, self.b.function.args
        sources = self.columns_from(column, count)
        factors = [self.load(x, b.add(column, const(j)), 1) for j in range(count)]

        def add_rows(row: ir.Value, vectors: int, lanes: int) -> None:
            elements = [b.add(row, const(v * lanes)) for v in range(vectors)]
            sums: Values = tuple(self.load(y, element, lanes) for element in elements)
            products: ProductLoop[TermPointers] = ProductLoop(
                b,
                SumTile(vectors, 1),
                lambda term: (self.load(term.left, element, lanes) for element in elements),
                lambda term: [splat(b, term.right, lanes)],
                self.multiply_add,
            )
            sums = products.terms(map(TermPointers, sources, factors), sums)
            for element, total in zip(elements, sums, strict=True):
                self.store(total, y, element)

        begin: ir.Value = const(0)
        for vectors, lanes in ((ROWS_UNROLLED, self.lanes), (1, self.lanes), (1, 1)):
            step = vectors * lanes
            end = b.mul(b.sdiv(rows, const(step)), const(step))
            repeat(b, begin, end, partial(add_rows, vectors=vectors, lanes=lanes), "row", step)
            begin = end

    def add_sums(self, column: ir.Value, count: int) -> None:
        """Emit y[j] += sum of A[i, j] * x[i] for `count` columns."""
        b, (rows, _, _, _, x, y) = self.b, self.b.function.args
        sources, width = self.columns_from(column, count), SUM_BYTES // self.item
        parts, typ = width // self.lanes, vector(TYPES[self.dtype], self.lanes)
        zero = ir.Constant(typ, [0.0] * self.lanes)

        def steps(row: ir.Value, _: int) -> Iterator[list[ir.Value]]:
            yield [b.add(row, const(part * self.lanes)) for part in range(parts)]

        whole = b.mul(b.sdiv(rows, const(width)), const(width))
        products: ProductLoop[list[ir.Value]] = ProductLoop(
            b,
            SumTile(count, parts),
            lambda elements: sources,
            lambda elements: [(element, self.load(x, element, self.lanes)) for element in elements],
            lambda total, source, x_at, *_: fma(b, self.load(source, x_at[0], self.lanes), x_at[1], total),
        )
        sums = products.loop(const(0), whole, width, steps, [zero] * (count * parts), "row")
        totals = [self.total(sums[j * parts : (j + 1) * parts]) for j in range(count)]
        remaining: ProductLoop[ir.Value] = ProductLoop(
            b,
            SumTile(count, 1),
            lambda row: (self.load(source, row, 1) for source in sources),
            lambda row: [self.load(x, row, 1)],
            self.multiply_add,
        )
        for j, total in enumerate(remaining.loop(whole, rows, 1, lambda row, _: [row], totals, "rest")):
            element = b.add(column, const(j))
            self.store(b.fadd(self.load(y, element, 1), total), y, element)

    def total(self, parts: Values) -> ir.Value:
        """Return the sum of the elements of SUM_BYTES: the upper half is added to the lower one until one is left."""
        b = self.b
        while len(parts) > 1:
            half = len(parts) // 2
            parts = tuple(b.fadd(low, high) for low, high in zip(parts[:half], parts[half:], strict=True))
        value, lanes = parts[0], self.lanes
        while lanes > 1:
            lanes //= 2
            undefined = ir.Constant(value.type, ir.Undefined)
            low, high = (
                b.shuffle_vector(value, undefined, ir.Constant(ir.VectorType(I32, lanes), list(range(at, at + lanes))))
                for at in (0, lanes)
            )
            value = b.fadd(low, high)
        return b.extract_element(value, const(0, I32))
