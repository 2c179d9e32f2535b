"""Products of bf16 in a register tile by pairs of terms: an instruction adds two products to a sum.

A pixel's inputs are read in place, two neighbouring channels in all lanes; packed weights have the same two of each
output channel next to each other. The bits are those of VDPBF16PS on every core (kernels/builder/bf16_products.py).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from llvmlite import ir

from mavcg.kernels.builder.bf16_products import add_pair_products
from mavcg.kernels.builder.emit import I32, Values, address, vector
from mavcg.kernels.builder.lanes import load_vector, splat
from mavcg.kernels.builder.product_loop import ProductLoop, SumTile, TermPointers, neighbouring_terms
from mavcg.kernels.builder.run_numbers import offset_pointer
from mavcg.kernels.gemm.loop_shape import keeps_inputs, vector_lanes
from mavcg.kernels.gemm.tile import WeightLayout
from mavcg.specs.kernel import Machine


@dataclass(frozen=True)
class PairProducts:
    """A pair of a pixel's inputs in all lanes is a left value, pairs of weights of a vector of channels a right value.

    weights: packed, of BF16_PAIRS. in_offsets: of each pixel, in bytes. counts: lanes that are computed of each vector.
    """

    b: ir.IRBuilder
    machine: Machine
    weights: WeightLayout
    in_offsets: tuple[int | ir.Value, ...]
    counts: Sequence[int]

    @property
    def loop(self) -> ProductLoop[TermPointers]:
        """The emitter of the tile's terms."""
        pixels, vectors = len(self.in_offsets), len(self.counts)
        tile = SumTile(pixels, vectors, keeps_inputs(self.machine, pixels, vectors))
        return ProductLoop(self.b, tile, self.inputs, self.weight_vectors, self.multiply_add)

    def run(
        self, count: int, unroll: int, pointers: Callable[[ir.Value | int, int], TermPointers], sums: Values
    ) -> Values:
        """Emit `count` neighbouring pairs, `unroll` in each iteration. pointers: to some pairs, by their first one."""
        steps = neighbouring_terms(self.b, pointers, self.weights.item_bytes, self.weights.k_step)
        return self.loop.run(count, unroll, steps, sums)

    def inputs(self, at: TermPointers) -> Iterator[dict[int, ir.Value]]:
        """Return each pixel's pair of inputs in all lanes, by the number of lanes."""
        for offset in self.in_offsets:
            pointer = offset_pointer(self.b, at.left, offset)
            pair = load_vector(self.b, pointer, I32, name="x2", align=self.weights.item_bytes // 2)
            yield {lanes: splat(self.b, pair, lanes) for lanes in dict.fromkeys(self.counts)}

    def weight_vectors(self, at: TermPointers) -> Iterator[ir.Value]:
        """Return the pairs of weights, a vector of channels after the other."""
        lanes = vector_lanes(self.machine, self.weights.dtype)
        for number, count in enumerate(self.counts):
            pointer = address(self.b, at.right, self.weights.offset(number * lanes))
            yield load_vector(self.b, pointer, vector(I32, count), name="w2", align=self.weights.item_bytes)

    def multiply_add(
        self, total: ir.Value, x: dict[int, ir.Value], weights: ir.Value, pixel: int, column: int
    ) -> ir.Value:
        """Return the sums with the two products of a pair more."""
        return add_pair_products(self.b, self.machine, total, x[self.counts[column]], weights)
