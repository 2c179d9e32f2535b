"""Emitter of the f32 micro-kernel: a register tile of outputs stays in registers during the loops over the terms.

Each output is bias + sum over k of input * weight, one fused multiply-add per term in the order of k, whatever the
tile, so that all tilings give the same bits. Method: Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication".

A long sum is cut into blocks of neighbouring terms (KC blocking), which are added in the order of the terms.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import Values, address, const, note_tile, repeat, scale_index
from mavcg.kernels.builder.product_loop import SumPosition, TermPointers, prefetch, term_address, window_loops
from mavcg.kernels.gemm.f32_tile import Ends, F32Products, F32Term
from mavcg.kernels.gemm.register_tile import lane_counts, lanes_f32, unroll_factor
from mavcg.kernels.gemm.tile import F32_BYTES, LINE_BYTES, Part, Pointers, RegisterTile, Sum, WeightLayout
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value


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
    lanes = lanes_f32(machine)
    used = [lanes] * (tile.vectors - 1) + [tile.used]
    counts = lane_counts(machine, tile.vectors, tile.used)
    ends = Ends(b, tile, at, used, counts, lanes)
    products = F32Products(b, machine, weights, tile.in_offsets, used, counts)
    micro = _MicroKernel(b, machine, weights, tile, at, products)
    ends.prefetch_residual(machine.arch == "x86_64")
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
    results = micro.sums(total, tuple(joined))
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
    products: F32Products

    def sums(self, total: Sum, start: Values) -> Values:
        """Emit the loops over all terms and return the sums."""
        *levels, (count, _) = total.levels

        def run(at: SumPosition, sums: Values) -> Values:
            panel = at.panel(self.b, self.at.weights, self.weights.k_step)
            steps = partial(self.steps, at, panel, count)
            return self.products.loop.run(count, unroll_factor(self.machine, count), steps, sums)

        return window_loops(self.b, levels, count, self.at.inputs, run, start)

    def steps(self, at: SumPosition, panel: Value, length: int, index: Value | int, count: int) -> Iterator[F32Term]:
        """Emit the addresses of `count` terms of a run, and prefetches; length: terms of the run."""
        b = self.b
        inputs = term_address(b, at.inputs, index, F32_BYTES, "x")
        if isinstance(index, int):
            if not index:
                self.prefetch_inputs(count, length, at.inputs, const(0))
            weights = term_address(b, panel, index, self.weights.k_step, "w")
        else:
            weights = term_address(b, panel, index, self.weights.k_step, "w")
            self.prefetch_inputs(count, length, at.inputs, index)
            self.prefetch_share(count, b.add(at.term, index))
        if self.at.ahead is None:
            self.prefetch_weights(count, weights)
        return self.products.steps(TermPointers(inputs, weights), count)

    def prefetch_inputs(self, steps: int, count: int, inputs: Value, index: Value) -> None:
        """Emit prefetches of the next tile's inputs, spread evenly over the iterations of a run.

        steps: terms per iteration; count: terms of the run. Runs are too short for the hardware prefetcher.
        """
        tile, b = self.tile, self.b
        if not tile.prefetch_next_inputs:
            return
        offsets = [offset for offset in tile.in_offsets if isinstance(offset, int)]
        pixels, gap = len(offsets), offsets[1] - offsets[0]
        if gap <= count * F32_BYTES:  # the pixels are one contiguous range
            lines = -(-pixels * gap * steps // (count * LINE_BYTES))
            first = address(b, inputs, scale_index(b, index, lines * LINE_BYTES // steps))
            offsets_ahead = [pixels * gap + line * LINE_BYTES for line in range(lines)]
        else:
            first = address(b, inputs, scale_index(b, index, F32_BYTES))
            offsets_ahead = [pixels * gap + offset for offset in offsets]
        for pointer in offsets_ahead:
            prefetch(b, first, pointer)

    def prefetch_share(self, steps: int, k: Value) -> None:
        """Emit the prefetches, for terms k .. k + steps - 1, of this tile's share of the next chunk's weights."""
        if self.at.ahead is None:
            return
        b, size = self.b, self.tile.share_bytes
        first = address(b, self.at.ahead, scale_index(b, k, size))
        for line in range(-(-steps * size // LINE_BYTES)):
            prefetch(b, first, line * LINE_BYTES)

    def prefetch_weights(self, count: int, panel: Value) -> None:
        """Emit prefetches of the weights that lie the prefetch distance after those of `count` terms, in each panel."""
        b, ws, lanes = self.b, self.weights, lanes_f32(self.machine)
        if not ws.ahead:
            return
        firsts = dict.fromkeys(v * lanes // ws.lanes * ws.lanes for v in range(self.tile.vectors))
        for first in firsts:
            for offset in range(0, count * ws.k_step, LINE_BYTES):
                prefetch(b, panel, ws.offset(first) + offset + ws.ahead)


@dataclass(frozen=True)
class SumBlock:
    """A block of neighbouring terms of a sum.

    total: the loops over its terms. in_bytes: offset of its first input. first_term: number of its first term. part:
    its position in the whole sum; None where it is the whole sum.
    """

    total: Sum
    in_bytes: Value
    first_term: Value
    part: Part | None


def cut_at(total: Sum, kc: int | None) -> tuple[int, int] | None:
    """Return (number of the loop level that is cut, its iterations per block); None where a block is the whole sum.

    A block has at most kc terms (None: any number), and at least one iteration of the innermost level.
    """
    if kc is None or kc >= total.length:
        return None
    inside = 1
    for number in range(len(total.levels) - 1, -1, -1):
        count, _ = total.levels[number]
        if kc < inside * count:
            return number, max(1, kc // inside)
        inside *= count
    return None


def block_terms(total: Sum, kc: int | None) -> tuple[int, ...]:
    """Return (terms of a whole block, terms of a shorter last block if there is one)."""
    cut = cut_at(total, kc)
    if cut is None:
        return (total.length,)
    number, iterations = cut
    inside = Sum(total.levels[number + 1 :]).length
    rest = total.levels[number][0] % iterations
    return (iterations * inside, rest * inside) if rest else (iterations * inside,)


def sum_blocks(b: ir.IRBuilder, total: Sum, kc: int | None, body: Callable[[SumBlock], None]) -> None:
    """Emit body(block) for each block, in the order of the terms."""
    cut = cut_at(total, kc)
    if cut is None:
        body(SumBlock(total, const(0), const(0), None))
        return
    number, iterations = cut

    def block(levels: tuple[tuple[int, int], ...], in_bytes: Value, first: Value) -> None:
        piece = Sum(levels)
        last = b.icmp_signed("==", first, const(total.length - piece.length))
        body(SumBlock(piece, in_bytes, first, Part(b.icmp_signed("==", first, const(0)), last)))

    def nest(level: int, in_bytes: Value, first: Value) -> None:
        count, step = total.levels[level]
        inside = Sum(total.levels[level + 1 :]).length

        def iteration(index: Value, inner: Callable[[Value, Value], None]) -> None:
            inner(b.add(in_bytes, scale_index(b, index, step)), b.add(first, scale_index(b, index, inside)))

        if level < number:
            repeat(b, 0, count, lambda i: iteration(i, lambda x, k: nest(level + 1, x, k)), "tap")
            return
        deeper, whole = total.levels[level + 1 :], count // iterations * iterations
        repeat(
            b,
            0,
            whole,
            lambda i: iteration(i, lambda x, k: block(((iterations, step), *deeper), x, k)),
            "terms",
            iterations,
        )
        if count > whole:
            iteration(const(whole), lambda x, k: block(((count - whole, step), *deeper), x, k))

    nest(0, const(0), const(0))
