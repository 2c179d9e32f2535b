"""Emitter of the micro-kernel of floats: a register tile of outputs stays in registers during the loops over the terms.

Each output is bias + sum over k of input * weight, one fused multiply-add per term in the order of k, whatever the
tile, so that all tilings give the same bits. Method: Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication".

A long f32 sum is cut into blocks of neighbouring terms (KC blocking), which are added in the order of the terms; their
partial sums lie in the output. f16 terms are added in f16 within short blocks, these within groups, and groups in f32
(sum_blocks.py), and the bias to their sum; f16 outputs hold no partial sums. bf16 terms are widened to f32 and added as
f32 are, without blocks, or multiplied in pairs (pair_products.py); by matrices and by blocks they are added from 0 on,
and the bias to their sum (matrix_products.py, tile_products.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from llvmlite import ir

from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.builder.emit import Values, address, const, note_tile, scale_index
from mavcg.kernels.builder.product_loop import SumPosition, TermPointers, prefetch, term_address, window_loops
from mavcg.kernels.gemm.float_tile import Ends, FloatProducts
from mavcg.kernels.gemm.loop_shape import lane_counts, unroll_factor, vector_lanes
from mavcg.kernels.gemm.matrix_products import MatrixProducts
from mavcg.kernels.gemm.pair_products import PairProducts
from mavcg.kernels.gemm.product_types import BF16_MATRIX, BF16_PAIRS, in_blocks, tensor_type
from mavcg.kernels.gemm.sum_blocks import SumBlock, begins_with_products, half_sums
from mavcg.kernels.gemm.tile import Part, Pointers, RegisterTile, Sum, WeightLayout
from mavcg.kernels.gemm.tile_products import BlockProducts, TileProducts, block_products
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value
Products: TypeAlias = FloatProducts | PairProducts | MatrixProducts | BlockProducts | TileProducts


def emit_tile(
    b: ir.IRBuilder,
    machine: Machine,
    total: Sum,
    weights: WeightLayout,
    tile: RegisterTile,
    at: Pointers,
    activate: Callable[[Value], Value],
    part: Part | None = None,
) -> None:
    """Emit the computation and the stores of one register tile.

    activate: emits the activation of a vector of outputs. part: position of a block of terms, if `total` and the
    pointers cover only a block of the sum; None: the whole sum.
    """
    note_tile(b, len(tile.in_offsets), tile.vectors)
    lanes, dtype = vector_lanes(machine, weights.dtype), weights.dtype
    used = [lanes] * (tile.vectors - 1) + [tile.used]
    counts = lane_counts(machine, tile.vectors, tile.used) if dtype != "f16" else (lanes,) * tile.vectors
    ends = Ends(b, tile, at, used, counts, lanes, tensor_type(dtype))
    products: Products
    if dtype == BF16_MATRIX:
        products = MatrixProducts(b, machine, weights, tile.in_offsets, tile.vectors)
    elif in_blocks(dtype):
        products = block_products(b, machine, weights, tile, counts)
    elif dtype == BF16_PAIRS:
        products = PairProducts(b, machine, weights, tile.in_offsets, counts)
    else:
        products = FloatProducts(b, machine, weights, tile.in_offsets, used, counts)
    micro = _MicroKernel(b, machine, weights, tile, at, products, total)
    ends.prefetch_residual(machine.arch == "x86_64")
    if dtype == "f16":
        ends.finish(ends.with_bias(micro.half_sums(total, ends.zeros())), activate)
        return
    if part is None:
        ends.finish(micro.sums(total, ends.start()), activate)
        return
    with b.if_else(part.first) as (fresh, further):
        with fresh:
            initial, initial_block = ends.start(), b.block
        with further:
            partial_sums, partial_block = ends.load_sums(), b.block
    joined = []
    for number, (initial_sum, partial_sum) in enumerate(zip(initial, partial_sums, strict=True)):
        phi = b.phi(partial_sum.type, name=f"sum_{number}")
        phi.add_incoming(initial_sum, initial_block)
        phi.add_incoming(partial_sum, partial_block)
        joined.append(phi)
    results = tuple(micro.sums(total, tuple(joined)))
    with b.if_else(part.last) as (whole, partial):
        with whole:
            ends.finish(results, activate)
        with partial:
            ends.store(results)


@dataclass(frozen=True)
class _MicroKernel:
    """Emitter of the loops over the terms of one register tile, with their prefetches."""

    b: ir.IRBuilder
    machine: Machine
    weights: WeightLayout
    tile: RegisterTile
    at: Pointers
    products: Products
    total: Sum

    def sums(self, total: Sum, start: Values) -> Iterable[Value]:
        """Emit the loops over all terms and return the sums, some of them emitted one by one."""
        first = SumPosition(self.at.inputs, const(0))
        if isinstance(self.products, FloatProducts | PairProducts):
            return self.loops(total, first, start)
        sums = self.products.by_pixel(self.loops(total, first, self.products.begin()))
        return (self.b.fadd(bias, more, name="sum") for bias, more in zip(start, sums, strict=True))

    def half_sums(self, total: Sum, zeros: Values) -> Values:
        """Emit the loops over all terms of f16, and return the sums, f16 or f32, without a bias."""

        def add_block(block: SumBlock) -> Values:
            inputs = address(self.b, self.at.inputs, block.in_bytes, "block")
            first = SumPosition(inputs, block.first_term)
            # Tiles of one pixel wait for their weights, whose prefetcher follows each load instruction.
            if len(self.tile.in_offsets) > 1 and begins_with_products(self.machine, total, block.total):
                return self.run(first, block.total.length, None)
            return self.loops(block.total, first, zeros)

        return half_sums(self.b, total, zeros, add_block)

    def loops(self, total: Sum, first: SumPosition, start: Values) -> Values:
        """Emit the loops over neighbouring terms, added to `start`."""
        *levels, (count, _) = total.levels

        def run(at: SumPosition, sums: Values) -> Values:
            return self.run(at, count, sums)

        return window_loops(self.b, levels, count, first.inputs, run, start, first.term)

    def run(self, at: SumPosition, count: int, sums: Values | None) -> Values:
        """Emit the loop over `count` neighbouring terms. sums: so far; None where the first products of floats begin
        them.
        """
        panel = at.panel(self.b, self.at.weights, self.weights.k_step)
        pointers = partial(self.pointers, at, panel, count)
        unroll = unroll_factor(self.machine, count, self.weights.dtype)
        if sums is None:
            assert isinstance(self.products, FloatProducts)
            self.prefetch_share(min(count, unroll), at.term)
            return self.products.run(count, unroll, pointers, None)
        return self.products.run(count, unroll, pointers, sums)

    def pointers(self, at: SumPosition, panel: Value, length: int, index: Value | int, count: int) -> TermPointers:
        """Emit the address of `count` terms of a run, and prefetches; length: terms of the run."""
        b = self.b
        inputs = term_address(b, at.inputs, index, self.weights.item_bytes, "x")
        if isinstance(index, int):
            if not index:
                self.prefetch_inputs(count, length, at, const(0))
            weights = term_address(b, panel, index, self.weights.k_step, "w")
        else:
            weights = term_address(b, panel, index, self.weights.k_step, "w")
            self.prefetch_inputs(count, length, at, index)
            self.prefetch_share(count, b.add(at.term, index))
        if self.at.ahead is None:
            self.prefetch_weights(count, weights)
        return TermPointers(inputs, weights)

    def prefetch_inputs(self, steps: int, count: int, at: SumPosition, index: Value) -> None:
        """Emit prefetches of the next tile's inputs, spread evenly over the iterations of a run.

        steps: terms per iteration; count: terms of the run. Runs are too short for the hardware prefetcher. A run may
        be a block of an f16 sum whose terms lie side by side: then the iterations of all blocks share the prefetches.
        """
        tile, b = self.tile, self.b
        if not tile.prefetch_next_inputs:
            return
        offsets = [offset for offset in tile.in_offsets if isinstance(offset, int)]
        pixels, gap = len(offsets), offsets[1] - offsets[0]
        item, inputs = self.weights.item_bytes, at.inputs
        if gap > count * item and len(self.total.levels) == 1 and gap <= self.total.length * item:
            count, inputs, index = self.total.length, self.at.inputs, b.add(at.term, index)
        if gap <= count * item:  # the pixels are one contiguous range
            lines = -(-pixels * gap * steps // (count * LINE_BYTES))
            first = address(b, inputs, scale_index(b, index, lines * LINE_BYTES // steps))
            offsets_ahead = [pixels * gap + line * LINE_BYTES for line in range(lines)]
        else:
            first = address(b, inputs, scale_index(b, index, item))
            offsets_ahead = [pixels * gap + offset for offset in offsets]
        for pointer in offsets_ahead:
            prefetch(b, first, pointer)

    def prefetch_share(self, steps: int, k: Value) -> None:
        """Emit the prefetches, for terms k .. k + steps - 1, of this tile's share of the next chunk's weights."""
        if self.at.ahead is None:
            return
        b, size, of_run = self.b, self.tile.share_bytes, self.tile.share_of_run
        first = address(b, self.at.ahead, scale_index(b, k, size) if of_run is None else b.mul(k, of_run))
        for line in range(-(-steps * size // LINE_BYTES)):
            prefetch(b, first, line * LINE_BYTES)

    def prefetch_weights(self, count: int, panel: Value) -> None:
        """Emit prefetches of the weights that lie the prefetch distance after those of `count` terms, in each panel."""
        b, ws, lanes = self.b, self.weights, vector_lanes(self.machine, self.weights.dtype)
        if not ws.ahead:
            return
        firsts = dict.fromkeys(v * lanes // ws.lanes * ws.lanes for v in range(self.tile.vectors))
        for first in firsts:
            for offset in range(0, count * ws.k_step, LINE_BYTES):
                prefetch(b, panel, ws.offset(first) + offset + ws.ahead)
