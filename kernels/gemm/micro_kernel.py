"""Emitter of the f32 micro-kernel: a register tile of outputs stays in registers during the loops over the terms.

Each output is bias + sum over k of input * weight, one fused multiply-add per term in the order of k, whatever the
tile, so that all tilings give the same bits. Method: Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    F32,
    I32,
    Values,
    address,
    const,
    f32_splat,
    fma,
    for_range,
    load_vector,
    note_tile,
    scale_index,
    splat,
)
from mavcg.kernels.builder.prefetch import LINE_BYTES, prefetch
from mavcg.kernels.gemm.register_tile import by_lane, keeps_inputs, lane_counts, lanes_f32, unroll_factor
from mavcg.kernels.gemm.tile import F32_BYTES, Part, Pointers, RegisterTile, Sum, WeightLayout
from mavcg.kernels.gemm.tile_ends import Ends, offset_pointer
from mavcg.specs.kernel import Machine

Value: TypeAlias = ir.Value


def emit_tile(
    b: ir.IRBuilder,
    machine: Machine,
    total: Sum,
    weights: WeightLayout,
    tile: RegisterTile,
    at: Pointers,
    act: str,
    act_args: tuple[float, ...],
    part: Part | None = None,
) -> None:
    """Emit the computation and the stores of one register tile.

    part: position of a block of terms, if `total` and the pointers cover only a block of the sum; None: the whole sum.
    """
    note_tile(b, len(tile.in_offsets), tile.vectors)
    lanes = lanes_f32(machine)
    used = [lanes] * (tile.vectors - 1) + [tile.used]
    counts = lane_counts(machine, tile.vectors, tile.used)
    ends = Ends(b, tile, at, used, counts, lanes)
    micro = _MicroKernel(b, machine, weights, tile, at, used, counts)
    ends.prefetch_residual(machine.arch == "x86_64")
    if part is None:
        ends.finish(micro.levels(total.levels, at.inputs, const(0), ends.start()), act, act_args)
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
    results = micro.levels(total.levels, at.inputs, const(0), tuple(joined))
    with b.if_else(part.last) as (whole, partial):
        with whole:
            ends.finish(results, act, act_args)
        with partial:
            ends.store(results)


@dataclass(frozen=True)
class _MicroKernel:
    """Emitter of the loops over the terms of one register tile."""

    b: ir.IRBuilder
    machine: Machine
    weights: WeightLayout
    tile: RegisterTile
    at: Pointers
    used: Sequence[int]
    counts: Sequence[int]

    def levels(self, levels: Sequence[tuple[int, int]], inputs: Value, k: Value, acc: Values) -> Values:
        """Emit the loops over the terms and return the sums; k: number of the first term."""
        b = self.b
        count, step = levels[0]
        if len(levels) == 1:
            return self.run(count, inputs, k, acc)
        inside = Sum(tuple(levels[1:])).length

        def iteration(index: Value, carried: Values) -> Values:
            first = address(b, inputs, scale_index(b, index, step), "taps")
            return self.levels(levels[1:], first, b.add(k, scale_index(b, index, inside)), carried)

        return for_range(b, const(0), const(count), 1, acc, iteration, "tap")

    def run(self, count: int, inputs: Value, k: Value, acc: Values) -> Values:
        """Emit the innermost loop, over `count` terms whose inputs are contiguous."""
        b, unroll = self.b, unroll_factor(self.machine, count)
        first = address(b, self.at.weights, scale_index(b, k, self.weights.k_step), "panel")
        whole = count - count % unroll

        def iteration(index: Value, carried: Values) -> Values:
            here = address(b, inputs, scale_index(b, index, F32_BYTES), "x")
            panel = address(b, first, scale_index(b, index, self.weights.k_step), "w")
            self.prefetch_inputs(unroll, count, inputs, index)
            self.prefetch_share(unroll, b.add(k, index))
            return self.steps(unroll, here, panel, carried)

        if whole:
            acc = for_range(b, const(0), const(whole), unroll, acc, iteration, "k")
        if count % unroll:
            here = address(b, inputs, whole * F32_BYTES)
            if not whole:
                self.prefetch_inputs(count, count, inputs, const(0))
            acc = self.steps(count % unroll, here, address(b, first, whole * self.weights.k_step), acc)
        return acc

    def steps(self, count: int, inputs: Value, panel: Value, acc: Values) -> Values:
        """Emit `count` terms without a loop. inputs, panel: pointers to the first term's inputs and weights."""
        b, tile = self.b, self.tile
        if self.at.ahead is None:
            self.prefetch_weights(count, panel)
        together = by_lane(self.machine) and count == 4
        vectors4 = ir.VectorType(F32, 4)
        input_vectors = (
            [load_vector(b, offset_pointer(b, inputs, o), vectors4, name="x4") for o in tile.in_offsets]
            if together
            else []
        )
        lanes, pixels = lanes_f32(self.machine), range(len(tile.in_offsets))
        short = self.counts[-1] < lanes
        for u in range(count):

            def x(p: int, u: int = u) -> list[Value]:
                """Return pixel p's input, broadcast, once for each vector of channels."""
                if together:
                    return [_lane(b, input_vectors[p], u, lanes)] * tile.vectors
                pointer = offset_pointer(b, inputs, tile.in_offsets[p], u * F32_BYTES)
                scalar = load_vector(b, pointer, F32, name="x1", align=4)
                whole = [splat(b, scalar, lanes)] * (tile.vectors - short)
                return [*whole, splat(b, scalar, self.counts[-1])] if short else whole

            new = list(acc)
            if keeps_inputs(self.machine, len(pixels), tile.vectors):
                xs = [x(p) for p in pixels]
                for v in range(tile.vectors):
                    weight = self.weight(panel, u, v)
                    for p in pixels:
                        i = p * tile.vectors + v
                        new[i] = fma(b, xs[p][v], weight, acc[i], f"acc_{p}_{v}")
            else:
                w = [self.weight(panel, u, v) for v in range(tile.vectors)]
                for p in pixels:
                    value = x(p)
                    for v in range(tile.vectors):
                        i = p * tile.vectors + v
                        new[i] = fma(b, value[v], w[v], acc[i], f"acc_{p}_{v}")
            acc = tuple(new)
        return acc

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

    def weight(self, panel: Value, step: int, vector: int) -> Value:
        """Return the weights of a term for one vector of channels."""
        b, lanes, ws = self.b, lanes_f32(self.machine), self.weights
        typ = ir.VectorType(F32, self.counts[vector])
        offset = step * ws.k_step + ws.offset(vector * lanes)
        used = self.counts[vector] if ws.padded else self.used[vector]
        if ws.n_step == F32_BYTES:
            return load_vector(b, address(b, panel, offset), typ, used, "w")
        gathered: Value = f32_splat(0.0, self.counts[vector])
        for lane in range(used):
            pointer = address(b, panel, step * ws.k_step + ws.offset(vector * lanes + lane))
            gathered = b.insert_element(gathered, b.load(pointer, align=4, typ=F32), const(lane, I32))
        return gathered


def _lane(b: ir.IRBuilder, x4: Value, lane: int, lanes: int) -> Value:
    """Return a vector of `lanes` lanes that all hold one lane of x4."""
    undefined = ir.Constant(x4.type, ir.Undefined)
    return b.shuffle_vector(x4, undefined, ir.Constant(ir.VectorType(I32, lanes), [lane] * lanes))
