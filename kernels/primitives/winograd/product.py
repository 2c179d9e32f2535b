"""Emitter of the products of transformed inputs and weights: for each plane [tiles, terms] x [terms, channels].

Each sum runs over all terms in order, whatever the register tile, so that all machines give the same bits. While a
panel of weights is multiplied with all tiles, the next panel is prefetched: with few tiles, most of the time is spent
on loading weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.arithmetic import round_to
from mavcg.kernels.builder.emit import I8, Values, address, const, note_tile, prefetch_line, repeat, scale_index
from mavcg.kernels.builder.lanes import store_vector
from mavcg.kernels.builder.nest_loops import maximum
from mavcg.kernels.builder.product_loop import TermPointers, nested_loops, term_address
from mavcg.kernels.builder.tiles import repeat_tiles, whole_and_rest
from mavcg.kernels.gemm.float_tile import FloatProducts, FloatTerm
from mavcg.kernels.gemm.loop_shape import unroll_factor
from mavcg.kernels.gemm.register_tile import RegisterTiling, choose, most_pixels, tiling_of
from mavcg.kernels.gemm.sum_blocks import SumBlock, half_sums
from mavcg.kernels.gemm.tile import Sum, WeightLayout
from mavcg.kernels.primitives.winograd.planes import Planes
from mavcg.kernels.primitives.winograd.tiles import Tiles
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value

# Size of all planes' weights up to which they stay in a level-2 cache and are not prefetched.
KEPT_BYTES = 1 << 17

TERMS_PER_PREFETCH = 4  # terms between two prefetches of weights


@dataclass(frozen=True)
class ProductPointers:
    """Pointers to the first tile and channel. ahead: pointer to the next weights. ahead_step: prefetched bytes per
    term."""

    inputs: Value
    weights: Value
    sums: Value
    ahead: Value
    ahead_step: Value


@dataclass(frozen=True)
class WinogradProduct:
    """Emitter of the products. typical_tiles: number of tiles that register tiles are chosen for."""

    b: ir.IRBuilder
    machine: Machine
    tiles: Tiles
    inputs: Planes
    sums: Planes
    typical_tiles: int

    @property
    def prefetches(self) -> bool:
        """True if weights are prefetched."""
        return self.tiles.planes * self.tiles.panels * self.tiles.panel_bytes > KEPT_BYTES

    @property
    def lanes(self) -> int:
        """Lanes of a vector of output channels."""
        return self.tiles.vector_lanes(self.machine)

    def tiling(self, channels: int) -> RegisterTiling:
        """Return the register tiles for a number of output channels; among equally fast ones, those of one panel.

        These have more pixels, so that each term reads fewer bytes.
        """
        lanes, terms, dtype = self.lanes, self.tiles.terms, self.tiles.dtype
        vectors, panel = -(-channels // lanes), max(1, self.tiles.lanes // lanes)
        wide = choose(self.machine, self.typical_tiles, vectors, terms, panel, dtype=dtype)
        narrow = tiling_of(self.machine, self.typical_tiles, vectors, min(panel, vectors), terms, dtype=dtype)
        return narrow if narrow.cycles <= wide.cycles else wide

    def emit(self, inputs: Value, weights: Value, sums: Value, count: Value | int, channels: int) -> None:
        """Emit the products of one plane: `count` tiles by `channels` output channels.

        inputs, weights, sums: pointers to the first elements. If `count` is known at run time only, up to a register
        tile more is read and written.
        """
        b, lanes = self.b, self.lanes
        tiling = self.tiling(channels)
        width = tiling.vectors * lanes
        padded = -(-channels // self.tiles.lanes) * self.tiles.lanes

        def chunk(first: Value, channels: int) -> None:
            w = address(b, weights, scale_index(b, first, self.tiles.panel_bytes // self.tiles.lanes))
            pointer = address(b, sums, scale_index(b, first, self.tiles.item_bytes))
            self.chunk(tiling, ProductPointers(inputs, w, pointer, w, const(0)), count, -(-channels // lanes))

        repeat_tiles(b, whole_and_rest(padded, width), chunk, "channel")

    def chunk(self, tiling: RegisterTiling, at: ProductPointers, count: Value | int, vectors: int) -> None:
        """Emit all tiles for the channels of one register tile."""
        b = self.b
        if isinstance(count, int):
            mr, wide, groups = (
                tiling.widths.mr,
                const(tiling.widths.count),
                const(tiling.widths.count + tiling.widths.count_less),
            )
        else:
            mr = (
                most_pixels(self.machine, tiling.vectors, self.tiles.dtype, self.tiles.terms)
                if self.typical_tiles >= 2 * tiling.widths.mr
                else tiling.widths.mr
            )
            # As few register tiles as possible, some of them narrower by one so that they end with the last tile.
            groups = b.sdiv(b.add(count, const(mr - 1)), const(mr))
            over = b.sub(b.mul(groups, const(mr)), count)
            wide = maximum(b, b.sub(groups, over), const(0)) if mr > 1 else groups
        if self.prefetches:
            panels = max(1, vectors * self.lanes // self.tiles.lanes)
            step = b.udiv(const(panels * self.tiles.lanes * self.tiles.item_bytes), maximum(b, groups, const(1)))
            at = ProductPointers(
                at.inputs, at.weights, at.sums, address(b, at.weights, panels * self.tiles.panel_bytes), step
            )
        middle = self.run(mr, vectors, at, const(0), const(0), wide)
        if mr > 1:
            self.run(mr - 1, vectors, at, middle, wide, groups)

    def run(self, mr: int, vectors: int, at: ProductPointers, start: Value, first: Value, end: Value) -> Value:
        """Emit register tiles first .. end - 1, of `mr` tiles each, from tile `start` on; return the number of the next
        tile."""
        b = self.b
        note_tile(b, mr, vectors)

        def register_tile(group: Value) -> None:
            index = b.add(start, scale_index(b, b.sub(group, first), mr))
            here = ProductPointers(
                address(b, at.inputs, scale_index(b, index, self.inputs.pitch)),
                at.weights,
                address(b, at.sums, scale_index(b, index, self.sums.pitch)),
                b.gep(at.ahead, [b.mul(b.mul(group, at.ahead_step), const(self.tiles.terms))], source_etype=I8),
                at.ahead_step,
            )
            self.tile(mr, vectors, here)

        repeat(b, first, end, register_tile, "group")
        return b.add(start, scale_index(b, b.sub(end, first), mr))

    def tile(self, mr: int, vectors: int, at: ProductPointers) -> None:
        """Emit one register tile. f16 sums are cut into blocks of terms (sum_blocks.py)."""
        b, tiles, lanes, item = self.b, self.tiles, self.lanes, self.tiles.item_bytes
        weights = WeightLayout(tiles.lanes * item, item, tiles.panel_bytes, tiles.lanes, True, dtype=tiles.dtype)
        pixels, counts = tuple(p * self.inputs.pitch for p in range(mr)), (lanes,) * vectors
        products = FloatProducts(b, self.machine, weights, pixels, counts, counts)
        taps = () if tiles.taps == 1 else ((tiles.taps, tiles.across * self.inputs.pitch),)
        total = Sum((*taps, (tiles.in_ch, item)))
        zero = ir.Constant(ir.VectorType(products.typ, lanes), [0.0] * lanes)
        zeros = (zero,) * (mr * vectors)

        def add_block(block: SumBlock) -> Values:
            return self.block(products, self.after(at, block.in_bytes, block.first_term), block.total, zeros)

        if tiles.dtype == "f16":
            sums = half_sums(b, total, zeros, add_block)
        else:
            sums = self.block(products, at, total, zeros)
        for p in range(mr):
            for v in range(vectors):
                pointer = address(b, at.sums, p * self.sums.pitch + v * lanes * item)
                store_vector(b, round_to(b, sums[p * vectors + v], tiles.dtype), pointer)

    def block(self, products: FloatProducts, at: ProductPointers, total: Sum, start: Values) -> Values:
        """Emit the sums of neighbouring terms, added to `start`. total: the loops over them."""
        *taps, (count, _) = total.levels
        item = self.tiles.item_bytes

        def row(first: ProductPointers, level: int, tap: Value) -> ProductPointers:
            step = scale_index(self.b, tap, self.tiles.across * self.inputs.pitch)
            return self.after(first, step, scale_index(self.b, tap, self.tiles.in_ch))

        def channels(first: ProductPointers, acc: Values) -> Values:
            steps = partial(self.steps, products, first, item)
            return products.loop.run(count, unroll_factor(self.machine, count, self.tiles.dtype), steps, acc)

        return nested_loops(self.b, tuple(number for number, _ in taps), at, row, channels, start)

    def after(self, at: ProductPointers, in_bytes: Value, terms: Value) -> ProductPointers:
        """Return the pointers `terms` terms later, whose inputs are in_bytes later."""
        b = self.b
        x = address(b, at.inputs, in_bytes)
        w = address(b, at.weights, scale_index(b, terms, self.tiles.lanes * self.tiles.item_bytes))
        ahead = b.gep(at.ahead, [b.mul(terms, at.ahead_step)], source_etype=I8)
        return ProductPointers(x, w, at.sums, ahead, at.ahead_step)

    def steps(
        self, products: FloatProducts, at: ProductPointers, item: int, index: Value | int, count: int
    ) -> Iterator[FloatTerm]:
        """Emit the addresses of `count` terms, and the prefetches of their share of the next weights."""
        b = self.b
        if self.prefetches and not isinstance(index, int):
            for part in range(0, count, TERMS_PER_PREFETCH):
                ahead = b.mul(b.add(index, const(part)), at.ahead_step)
                prefetch_line(b, b.gep(at.ahead, [ahead], source_etype=I8), level=2)
        x = term_address(b, at.inputs, index, item, "x")
        w = term_address(b, at.weights, index, self.tiles.lanes * item, "w")
        return products.steps(TermPointers(x, w), count)
