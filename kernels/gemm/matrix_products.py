"""Products of bf16 in a register tile by matrices: two pixels by two channels, four terms at a time.

A pixel's inputs are read in place, four neighbouring channels at a time; packed weights have the same four of each
output channel next to each other. The bits are those of BFMMLA on every core (kernels/builder/bf16_products.py).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from llvmlite import ir

from mavcg.kernels.builder.bf16_products import LANES, add_matrix_products
from mavcg.kernels.builder.emit import F32, I32, Values, address, vector
from mavcg.kernels.builder.lanes import load_vector, shuffle
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile, TermPointers, neighbouring_terms
from mavcg.kernels.builder.run_numbers import offset_pointer
from mavcg.kernels.gemm.tile import WeightLayout
from mavcg.specs.kernel import Machine


@dataclass(frozen=True)
class MatrixProducts:
    """Four inputs of two pixels are a left value, four weights of two channels are a right value.

    weights: packed, of BF16_MATRIX. in_offsets: of each pixel, in bytes. vectors: of LANES channels.
    """

    b: ir.IRBuilder
    machine: Machine
    weights: WeightLayout
    in_offsets: tuple[int | ir.Value, ...]
    vectors: int

    @property
    def tile(self) -> SumTile:
        """The sums: pairs of pixels by pairs of channels; the values of which there are fewer stay in registers."""
        pairs, columns = -(-len(self.in_offsets) // 2), 2 * self.vectors
        return SumTile(pairs, columns, holds_left=pairs <= columns)

    @property
    def loop(self) -> ProductLoop[TermPointers]:
        """The emitter of the tile's terms."""
        return ProductLoop(self.b, self.tile, self.pixel_pairs, self.channel_pairs, self.multiply_add)

    def begin(self) -> Values:
        """Return the initial values of the sums."""
        return (ir.Constant(vector(F32, LANES), [0.0] * LANES),) * (self.tile.rows * self.tile.columns)

    def run(
        self, count: int, unroll: int, pointers: Callable[[ir.Value | int, int], TermPointers], sums: Values
    ) -> Values:
        """Emit `count` neighbouring terms, `unroll` in each iteration. pointers: to some terms, by their first one."""
        steps = neighbouring_terms(self.b, pointers, self.weights.item_bytes, self.weights.k_step)
        return self.loop.run(count, unroll, steps, sums)

    def pixel_pairs(self, at: TermPointers) -> Iterator[ir.Value]:
        """Return the inputs of two pixels each; those of an odd last one are followed by zeros."""
        b, four = self.b, vector(I32, 2)
        for first in range(0, len(self.in_offsets), 2):
            pair = [
                load_vector(b, offset_pointer(b, at.left, offset), four, name="x4", align=2)
                for offset in self.in_offsets[first : first + 2]
            ]
            yield shuffle(b, pair[0], pair[1] if len(pair) == 2 else ir.Constant(four, [0, 0]), range(LANES))

    def channel_pairs(self, at: TermPointers) -> Iterator[ir.Value]:
        """Return the weights of two channels each, also of those that only fill a panel."""
        for first in range(0, self.vectors * LANES, 2):
            pointer = address(self.b, at.right, self.weights.offset(first))
            yield load_vector(self.b, pointer, vector(I32, LANES), name="w4", align=2 * self.weights.item_bytes)

    def multiply_add(self, total: ir.Value, x: ir.Value, weights: ir.Value, row: int, column: int) -> ir.Value:
        """Return the sums of two pixels and two channels with four products more of each."""
        return add_matrix_products(self.b, self.machine, total, x, weights)

    def by_pixel(self, sums: Sequence[ir.Value]) -> Values:
        """Return the sums as vectors of channels: by pixel, then vector."""
        return tuple(
            shuffle(self.b, *self._pairs(sums, pixel // 2, v), [2 * (pixel % 2) + i for i in (0, 1, LANES, LANES + 1)])
            for pixel in range(len(self.in_offsets))
            for v in range(self.vectors)
        )

    def _pairs(self, sums: Sequence[ir.Value], row: int, v: int) -> tuple[ir.Value, ir.Value]:
        tile = self.tile
        return sums[tile.number(row, 2 * v)], sums[tile.number(row, 2 * v + 1)]
