"""Sums of bf16 products in f32 by products of matrices: two rows of A by two columns of B, four terms at a time.

A packed panel has four consecutive terms of each line next to each other, 8 bytes: 16 bytes are a matrix of two rows
and four terms, which BFMMLA multiplies by one of two columns (kernels/builder/bf16_products.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llvmlite import ir

from mavcg.kernels.builder.bf16_products import LANES, add_matrix_products
from mavcg.kernels.builder.emit import F32, I32, Values, address, const, vector
from mavcg.kernels.builder.lanes import shuffle
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile
from mavcg.specs.kernel import Machine

LINE_BYTES, MATRIX_BYTES = 8, 16  # four terms of a line, and of two
UNROLL = 2


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
        return add_matrix_products(self.b, self.machine, total, x, y)

    def vectors_of_columns(self, tile: SumTile, sums: Sequence[ir.Value]) -> Iterator[ir.Value]:
        """Yield the sums of each column, LANES rows in a vector."""
        for column in range(self.columns):
            side = column % 2
            for first in range(0, self.rows // 2, 2):
                upper, lower = (sums[tile.number(row, column // 2)] for row in (first, first + 1))
                yield shuffle(self.b, upper, lower, range(side, 2 * LANES, 2))
