"""Emits the kernel of a register tile of a matrix product: passes over the terms, with the sums in registers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from llvmlite import ir

from mavcg.kernels.blas.matrix_sums import MatrixSums
from mavcg.kernels.blas.product_tile import PACKED, TERMS, TYPES, ProductTile, begin_function, pass_shape
from mavcg.kernels.builder.bf16_products import add_pair_products
from mavcg.kernels.builder.emit import I1, I32, I64, PTR, Values, address, const, fma, type_suffix, vector
from mavcg.kernels.builder.lanes import broadcast_lane, splat
from mavcg.kernels.builder.product_loop import CHAINS, COLUMNS, ROWS, ProductLoop, SumTile, prefetch
from mavcg.kernels.gemm.loop_shape import by_lane
from mavcg.specs.blas_blocks import MATRIX_TERMS
from mavcg.specs.kernel import Machine

TILE_TYPE = ir.FunctionType(ir.VoidType(), [I64, PTR, PTR, PTR, PTR, I64])
ARGUMENTS = ("terms", "a", "b", "c", "steps", "last_rows")
# Terms of an iteration. With more than two, compilers rename an in-order core's accumulators by moves, and spill them.
UNROLL, UNROLL_IN_ORDER = 4, 2
# Offsets in struct blas_steps of csrc/blas.h, in bytes.
A_STEP, B_STEP, B_COLUMN, C_COLUMN, ALPHA, BETA = 0, 8, 16, 24, 32, 40


def emit_product_tile(module: ir.Module, machine: Machine, tile: ProductTile) -> None:
    """Emit the tile's function for a core, with as many passes over the terms as its registers need for the sums."""
    emit_passes(module, machine, tile, min(machine.vector_bytes // tile.item, tile.unit_rows), TilePass)


def emit_passes(module: ir.Module, machine: Machine, tile: ProductTile, lanes: int, of_sums: type["TilePass"]) -> None:
    """Emit the tile's function by passes of a class. lanes: of a vector of rows."""
    b = begin_function(module, TILE_TYPE, tile.symbol, ARGUMENTS, "c")
    vectors = tile.rows // lanes
    rows_each, columns_each = pass_shape(machine, vectors, tile.columns)
    for first_column in range(0, tile.columns, columns_each):
        for first_vector in range(0, vectors, rows_each):
            numbers = range(first_vector, min(vectors, first_vector + rows_each))
            columns = range(first_column, min(tile.columns, first_column + columns_each))
            of_sums(b, machine, tile, lanes, numbers, columns).emit()
    b.ret_void()


@dataclass(frozen=True)
class PassTerm:
    """A term of the sums. a_row: address of its row of A. elements: function that yields its elements of B."""

    a_row: ir.Value
    elements: Callable[[], Iterator[ir.Value]]


@dataclass(frozen=True)
class TilePass:
    """Emitter of one pass over the terms: the vectors and columns of a tile whose sums are in registers."""

    b: ir.IRBuilder
    machine: Machine
    tile: ProductTile
    lanes: int
    vectors: range
    columns: range

    @property
    def item(self) -> int:
        return self.tile.item

    @property
    def type(self) -> ir.Type:
        return vector(TYPES[self.tile.sums], self.lanes)

    def emit(self) -> None:
        """Emit the sums, then the update of C."""
        b = self.b
        if self.tile.form == PACKED:
            self.prefetch_results()
            self.finish(self.sums(None))
            return
        if not self.has_last_unit():
            self.finish(self.sums(None))
            return
        if self.masks_are_free():
            self.finish(self.sums(self.masks()))
            return
        whole = b.icmp_signed("==", b.function.args[5], const(self.tile.unit_rows), "whole")
        with b.if_else(whole) as (full, partial):
            with full:
                full_sums, full_block = self.sums(None), b.block
            with partial:
                part_sums, part_block = self.sums(self.masks()), b.block
        joined = []
        for number, (full_sum, partial_sum) in enumerate(zip(full_sums, part_sums, strict=True)):
            phi = b.phi(full_sum.type, name=f"sum_{number}")
            phi.add_incoming(full_sum, full_block)
            phi.add_incoming(partial_sum, part_block)
            joined.append(phi)
        self.finish(tuple(joined))

    def has_last_unit(self) -> bool:
        """Return True if the pass has vectors of the last unit, whose rows may be fewer than its lanes."""
        return bool(self.vectors[-1] * self.lanes >= (self.tile.units - 1) * self.tile.lanes)

    def masks_are_free(self) -> bool:
        """Return True if masked loads and stores cost no more than plain ones: AVX-512 has mask registers."""
        return self.machine.vector_bytes == 64

    def masks(self) -> dict[int, ir.Value]:
        """Return the row masks of the vectors in the last unit, by the vector's number."""
        b, first = self.b, (self.tile.units - 1) * self.tile.lanes
        left = b.function.args[5]
        masks = {}
        for number in self.vectors:
            row = number * self.lanes - first
            if row < 0:
                continue
            if self.lanes == 1:
                masks[number] = b.icmp_signed("<", const(row), left)
                continue
            rows = ir.Constant(ir.VectorType(I32, self.lanes), [row + lane for lane in range(self.lanes)])
            masks[number] = b.icmp_signed("<", rows, splat(b, b.trunc(left, I32), self.lanes), "mask")
        return masks

    def sums(self, masks: dict[int, ir.Value] | None) -> Values:
        """Emit the loop over terms; return the sums A * B of the pass, column by column, each vector by vector."""
        b = self.b
        if self.tile.step_terms == MATRIX_TERMS:
            assert (len(self.vectors), len(self.columns)) == (self.tile.rows // self.lanes, self.tile.columns)
            matrices = MatrixSums(b, self.machine, self.tile.rows, self.tile.columns)
            return matrices.emit(*b.function.args[:3])
        zero = ir.Constant(self.type, [0.0] * self.lanes)
        start = [zero] * (len(self.vectors) * len(self.columns))
        terms, steps = b.function.args[0], partial(self.terms, self.operands())
        tile = SumTile(len(self.vectors), len(self.columns), holds_left=True, order=(CHAINS, COLUMNS, ROWS))
        products = ProductLoop(b, tile, partial(self.rows, masks or {}), self.elements, self.multiply_add)
        unroll = UNROLL_IN_ORDER if self.machine.in_order else UNROLL
        whole = b.and_(terms, const(-unroll), "whole")
        begun = products.loop(const(0), whole, unroll, steps, start)
        return products.loop(whole, terms, 1, steps, begun, "rest")

    def operands(self) -> tuple[ir.Value, ...]:
        """Return the addresses of every third column of B: the two columns after it are one and two steps away."""
        b, first = self.b, self.b.function.args[2]
        if self.tile.form != TERMS:
            return ()
        step = self.step(B_COLUMN)
        return tuple(address(b, first, b.mul(step, const(j)), "b_column") for j in self.columns[::3])

    def terms(self, columns: tuple[ir.Value, ...], index: ir.Value, count: int) -> Iterator[PassTerm]:
        """Emit the addresses of A's rows of some terms, and of B's where both are packed. columns: as of `operands`."""
        b, tile = self.b, self.tile
        a, second = b.function.args[1:3]
        a_step, b_step = tile.units * tile.lanes * self.item, tile.columns * self.item
        for step in range(count):
            if tile.form == PACKED:
                a_row = address(b, address(b, a, b.mul(index, const(a_step))), step * a_step)
                b_row = address(b, address(b, second, b.mul(index, const(b_step))), step * b_step)
                yield PassTerm(a_row, partial(self.adjacent_columns, b_row))
                continue
            term = b.add(index, const(step)) if step else index
            a_row = address(b, a, b.mul(term, self.step(A_STEP)))
            if tile.form == TERMS:
                yield PassTerm(a_row, partial(self.distant_columns, columns, index, step * self.item))
            else:
                yield PassTerm(a_row, partial(self.columns_of_term, term))

    def columns_of_term(self, term: ir.Value) -> Iterator[ir.Value]:
        """Yield the elements of a row of B, not packed, whose columns are contiguous."""
        return self.adjacent_columns(address(self.b, self.b.function.args[2], self.b.mul(term, self.step(B_STEP))))

    def rows(self, masks: dict[int, ir.Value], term: PassTerm) -> list[ir.Value]:
        """Return the vectors of A's rows, and prefetch a later term's."""
        first, item = term.a_row, self.lanes * self.item
        xs = [self.load(address(self.b, first, v * item), masks.get(v)) for v in self.vectors]
        if self.tile.form != PACKED:
            self.prefetch_rows(first)
        return xs

    def elements(self, term: PassTerm) -> Iterator[ir.Value]:
        """Yield the elements of B, each broadcast, so that one is live for a column only."""
        yield from term.elements()  # its address is computed after A's loads

    def multiply_add(self, total: ir.Value, x: ir.Value, element: ir.Value, row: int, column: int) -> ir.Value:
        """Return total + x * element, rounded once; for pairs of bf16 the sum with two products."""
        if self.tile.step_terms == 2:
            return add_pair_products(self.b, self.machine, total, x, element)
        return fma(self.b, x, element, total)

    def prefetch_rows(self, row: ir.Value) -> None:
        """Prefetch the rows of a later term of A: terms are too far from each other for the hardware prefetcher."""
        b, tile = self.b, self.tile
        if tile.prefetched_terms:
            later = address(b, row, b.mul(self.step(A_STEP), const(tile.prefetched_terms)))
            for first in range(
                self.vectors[0] * self.lanes * self.item, (self.vectors[-1] + 1) * self.lanes * self.item, 64
            ):
                prefetch(b, later, first)

    def adjacent_columns(self, row: ir.Value) -> Iterator[ir.Value]:
        """Yield the elements of a row of B that are contiguous, each broadcast to all lanes."""
        b, element = self.b, TYPES[self.tile.sums]
        together = 16 // self.item
        columns = list(self.columns)
        while columns:
            if by_lane(self.machine) and len(columns) >= together:
                kind = vector(element, together)
                vector_of_elements = b.load(address(b, row, columns[0] * self.item), align=self.item, typ=kind)
                yield from (broadcast_lane(b, vector_of_elements, lane, self.lanes) for lane in range(together))
                columns = columns[together:]
            else:
                single = b.load(address(b, row, columns[0] * self.item), align=self.item, typ=element)
                yield splat(b, single, self.lanes)
                columns = columns[1:]

    def distant_columns(self, columns: tuple[ir.Value, ...], index: ir.Value, offset: int) -> Iterator[ir.Value]:
        """Yield the elements of a row of B whose columns are B_COLUMN apart, each broadcast to all lanes."""
        b, element = self.b, TYPES[self.tile.sums]
        first, step = b.mul(index, const(self.item)), self.step(B_COLUMN)
        for number in range(len(self.columns)):
            row = address(b, columns[number // 3], first)
            for _ in range(number % 3):
                row = address(b, row, step)
            yield splat(b, b.load(address(b, row, offset), align=self.item, typ=element), self.lanes)

    def finish(self, sums: Values) -> None:
        """Emit C = alpha * sums + beta * C; C is not read where beta is 0."""
        b = self.b
        element = TYPES[self.tile.sums]
        alpha, beta = (
            b.load(address(b, b.function.args[4], offset), align=self.item, typ=element) for offset in (ALPHA, BETA)
        )
        alphas, betas = splat(b, alpha, self.lanes), splat(b, beta, self.lanes)
        partial = not self.has_last_unit()
        if partial:
            self.store(sums, alphas, betas, beta, {})
            return
        if self.masks_are_free():
            self.store(sums, alphas, betas, beta, self.masks())
            return
        with b.if_else(b.icmp_signed("==", b.function.args[5], const(self.tile.unit_rows))) as (full, cut):
            with full:
                self.store(sums, alphas, betas, beta, {})
            with cut:
                self.store(sums, alphas, betas, beta, self.masks())

    def store(
        self, sums: Values, alphas: ir.Value, betas: ir.Value, beta: ir.Value, masks: dict[int, ir.Value]
    ) -> None:
        """Store the pass's part of C. alphas, betas: alpha and beta in all lanes; masks: rows to store, by vector."""
        b = self.b
        nothing = b.fcmp_ordered("==", beta, ir.Constant(beta.type, 0.0), "overwrites")
        with b.if_else(nothing) as (overwrite, add):
            with overwrite:
                for pointer, mask, total in self.results(sums, masks):
                    self.put(b.fmul(alphas, total), pointer, mask)
            with add:
                for pointer, mask, total in self.results(sums, masks):
                    before = self.load(pointer, mask)
                    self.put(fma(b, alphas, total, b.fmul(betas, before)), pointer, mask)

    def results(self, sums: Values, masks: dict[int, ir.Value]) -> list[tuple[ir.Value, ir.Value | None, ir.Value]]:
        """Return (address, mask, sum) of each vector of C."""
        b, step = self.b, self.step(C_COLUMN)
        results = []
        for j, column in enumerate(self.columns):
            top = address(b, b.function.args[3], b.mul(step, const(column)), "c_column")
            for v, number in enumerate(self.vectors):
                pointer = address(b, top, number * self.lanes * self.item)
                results.append((pointer, masks.get(number), sums[j * len(self.vectors) + v]))
        return results

    def prefetch_results(self) -> None:
        """Prefetch C, which is not in the caches as a rule; the loop over terms hides its latency."""
        b, step = self.b, self.step(C_COLUMN)
        for column in self.columns:
            top = address(b, b.function.args[3], b.mul(step, const(column)))
            for first in range(
                self.vectors[0] * self.lanes * self.item, (self.vectors[-1] + 1) * self.lanes * self.item, 64
            ):
                prefetch(b, top, first)

    def step(self, offset: int) -> ir.Value:
        """Return the field of struct blas_steps at a byte offset."""
        return self.b.load(address(self.b, self.b.function.args[4], offset), align=8, typ=I64)

    def load(self, pointer: ir.Value, mask: ir.Value | None) -> ir.Value:
        """Return a vector of A or C, with 0 in the lanes whose mask is false."""
        b = self.b
        if mask is None:
            return b.load(pointer, align=self.item, typ=self.type)
        zero = ir.Constant(self.type, [0.0] * self.lanes)
        full = f"llvm.masked.load.{type_suffix(self.type)}.p0"
        kind = ir.FunctionType(self.type, [PTR, vector(I1, self.lanes), self.type])
        function = b.module.globals.get(full) or ir.Function(b.module, kind, full)
        return b.call(function, [pointer, mask, zero])

    def put(self, value: ir.Value, pointer: ir.Value, mask: ir.Value | None) -> None:
        """Store the lanes of a vector whose mask is true."""
        b = self.b
        if mask is None:
            b.store(value, pointer, align=self.item)
            return
        full = f"llvm.masked.store.{type_suffix(self.type)}.p0"
        kind = ir.FunctionType(ir.VoidType(), [self.type, PTR, vector(I1, self.lanes)])
        function = b.module.globals.get(full) or ir.Function(b.module, kind, full)
        b.call(function, [value, pointer, mask])
