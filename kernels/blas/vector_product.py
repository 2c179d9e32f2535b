"""Kernels of matrix-vector products of any size: y += A * x and y += A' * x.

void f(i64 rows, i64 columns, ptr a, i64 column_bytes, ptr x, ptr y): see csrc/blas.h, blas_vector_product. A is
column-major; x and y are contiguous. All versions give the same bits: a sum over columns is a fused multiply-add per
column in order; a sum over rows has SUM_BYTES of partial sums, whatever the vector length, reduced by halves.
"""

from dataclasses import dataclass
from functools import partial

from llvmlite import ir

from mavcg.kernels.blas.product_tile import TYPES
from mavcg.kernels.builder.emit import (
    I32,
    I64,
    PTR,
    Values,
    address,
    const,
    fma,
    for_range,
    repeat,
    splat,
    vector,
)
from mavcg.specs.blas_blocks import ITEM_BYTES
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
    function = ir.Function(module, FUNCTION_TYPE, product.symbol)
    for argument, name in zip(function.args, ARGUMENTS, strict=True):
        argument.name = name
    function.args[5].add_attribute("noalias")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    emitter = _VectorEmitter(b, machine, product.dtype)
    group = emitter.column_group(product.sums)
    add = emitter.add_sums if product.sums else emitter.add_columns
    columns = function.args[1]
    whole = b.mul(b.sdiv(columns, const(group)), const(group), name="whole")
    repeat(b, 0, whole, lambda column: add(column, group), "group", group)
    repeat(b, whole, columns, lambda column: add(column, 1), "column")
    b.ret_void()


@dataclass(frozen=True)
class _VectorEmitter:
    """Emitter of the loops over rows for a group of columns."""

    b: ir.IRBuilder
    machine: Machine
    dtype: str

    @property
    def item(self) -> int:
        return ITEM_BYTES[self.dtype]

    @property
    def lanes(self) -> int:
        return self.machine.vector_bytes // self.item

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

    def add_columns(self, column: ir.Value, count: int) -> None:
        """Emit y[i] += A[i, j] * x[j] for `count` columns."""
        b, (rows, _, _, _, x, y) = self.b, self.b.function.args
        sources = self.columns_from(column, count)
        factors = [self.load(x, b.add(column, const(j)), 1) for j in range(count)]

        def add_rows(row: ir.Value, vectors: int, lanes: int) -> None:
            elements = [b.add(row, const(v * lanes)) for v in range(vectors)]
            sums = [self.load(y, element, lanes) for element in elements]
            for source, factor in zip(sources, factors, strict=True):
                wide = splat(b, factor, lanes)
                sums = [
                    fma(b, self.load(source, element, lanes), wide, total)
                    for element, total in zip(elements, sums, strict=True)
                ]
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

        def step(row: ir.Value, carried: Values) -> Values:
            elements = [b.add(row, const(part * self.lanes)) for part in range(parts)]
            factors = [self.load(x, element, self.lanes) for element in elements]
            return tuple(
                fma(b, self.load(source, element, self.lanes), factor, carried[j * parts + part])
                for j, source in enumerate(sources)
                for part, (element, factor) in enumerate(zip(elements, factors, strict=True))
            )

        whole = b.mul(b.sdiv(rows, const(width)), const(width))
        sums = for_range(b, const(0), whole, width, [zero] * (count * parts), step, "row")
        totals = [self.total(sums[j * parts : (j + 1) * parts]) for j in range(count)]

        def remaining_row(row: ir.Value, carried: Values) -> Values:
            factor = self.load(x, row, 1)
            return tuple(
                fma(b, self.load(source, row, 1), factor, total) for source, total in zip(sources, carried, strict=True)
            )

        for j, total in enumerate(for_range(b, whole, rows, 1, totals, remaining_row, "rest")):
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
