"""Emitter of the products of transformed inputs and weights: for each plane [tiles, terms] x [terms, channels].

Each sum runs over all terms in order, whatever the register tile, so that all machines give the same bits. While a
panel of weights is multiplied with all tiles, the next panel is prefetched: with few tiles, most of the time is spent
on loading weights.
"""

from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    F32,
    I8,
    I32,
    PTR,
    Values,
    address,
    const,
    f32_splat,
    fma,
    for_range,
    load_vector,
    note_tile,
    repeat,
    scale_index,
    splat,
    store_vector,
)
from mavcg.kernels.builder.nest import maximum, shuffle
from mavcg.kernels.gemm.register_tile import (
    RegisterTiling,
    by_lane,
    choose,
    keeps_inputs,
    lanes_f32,
    most_pixels,
    tiling_of,
    unroll_factor,
)
from mavcg.kernels.primitives.winograd.tiles import Planes, Tiles
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES

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

    def tiling(self, channels: int) -> RegisterTiling:
        """Return the register tiles for a number of output channels; among equally fast ones, those of one panel.

        These have more pixels, so that each term reads fewer bytes.
        """
        lanes = lanes_f32(self.machine)
        vectors, panel = -(-channels // lanes), max(1, self.tiles.lanes // lanes)
        wide = choose(self.machine, self.typical_tiles, vectors, self.tiles.terms, panel)
        narrow = tiling_of(self.machine, self.typical_tiles, vectors, min(panel, vectors), self.tiles.terms)
        return narrow if narrow.cycles <= wide.cycles else wide

    def emit(self, inputs: Value, weights: Value, sums: Value, count: Value | int, channels: int) -> None:
        """Emit the products of one plane: `count` tiles by `channels` output channels.

        inputs, weights, sums: pointers to the first elements. If `count` is known at run time only, up to a register
        tile more is read and written.
        """
        b, lanes = self.b, lanes_f32(self.machine)
        tiling = self.tiling(channels)
        width = tiling.vectors * lanes
        chunks, rest = divmod(-(-channels // self.tiles.lanes) * self.tiles.lanes, width)

        def chunk(first: Value, vectors: int) -> None:
            w = address(b, weights, scale_index(b, first, self.tiles.panel_bytes // self.tiles.lanes))
            pointer = address(b, sums, scale_index(b, first, F32_BYTES))
            self.chunk(tiling, ProductPointers(inputs, w, pointer, w, const(0)), count, vectors)

        if chunks == 1:
            chunk(const(0), tiling.vectors)
        elif chunks:
            repeat(b, 0, chunks * width, lambda first: chunk(first, tiling.vectors), "channel", width)
        if rest:
            chunk(const(chunks * width), -(-rest // lanes))

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
                most_pixels(self.machine, tiling.vectors)
                if self.typical_tiles >= 2 * tiling.widths.mr
                else tiling.widths.mr
            )
            # As few register tiles as possible, some of them narrower by one so that they end with the last tile.
            groups = b.sdiv(b.add(count, const(mr - 1)), const(mr))
            over = b.sub(b.mul(groups, const(mr)), count)
            wide = maximum(b, b.sub(groups, over), const(0)) if mr > 1 else groups
        if self.prefetches:
            panels = max(1, vectors * lanes_f32(self.machine) // self.tiles.lanes)
            step = b.udiv(const(panels * self.tiles.lanes * F32_BYTES), maximum(b, groups, const(1)))
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
        """Emit one register tile."""
        b, tiles, lanes = self.b, self.tiles, lanes_f32(self.machine)
        start = tuple(f32_splat(0.0, lanes) for _ in range(mr * vectors))

        def row(tap: Value, carried: Values) -> Values:
            x = address(b, at.inputs, scale_index(b, tap, tiles.across * self.inputs.pitch))
            k = scale_index(b, tap, tiles.in_ch)
            w = address(b, at.weights, scale_index(b, k, tiles.lanes * F32_BYTES))
            ahead = b.gep(at.ahead, [b.mul(k, at.ahead_step)], source_etype=I8)
            return self.terms(mr, vectors, ProductPointers(x, w, at.sums, ahead, at.ahead_step), carried)

        if tiles.taps == 1:
            sums = self.terms(mr, vectors, at, start)
        else:
            sums = for_range(b, const(0), const(tiles.taps), 1, start, row, "tap")
        for p in range(mr):
            for v in range(vectors):
                pointer = address(b, at.sums, p * self.sums.pitch + v * lanes * F32_BYTES)
                store_vector(b, sums[p * vectors + v], pointer)

    def terms(self, mr: int, vectors: int, at: ProductPointers, acc: Values) -> Values:
        """Emit the loop over the terms of contiguous channels."""
        b, count = self.b, self.tiles.in_ch
        unroll = unroll_factor(self.machine, count)
        whole = count - count % unroll
        k_bytes = self.tiles.lanes * F32_BYTES

        def iteration(k: Value, carried: Values) -> Values:
            if self.prefetches:
                for part in range(0, unroll, TERMS_PER_PREFETCH):
                    ahead = b.mul(b.add(k, const(part)), at.ahead_step)
                    prefetch_to_l2(b, b.gep(at.ahead, [ahead], source_etype=I8))
            x = address(b, at.inputs, scale_index(b, k, F32_BYTES), "x")
            return self.steps(unroll, mr, vectors, x, address(b, at.weights, scale_index(b, k, k_bytes), "w"), carried)

        if whole:
            acc = for_range(b, const(0), const(whole), unroll, acc, iteration, "k")
        if count % unroll:
            x, w = address(b, at.inputs, whole * F32_BYTES), address(b, at.weights, whole * k_bytes)
            acc = self.steps(count % unroll, mr, vectors, x, w, acc)
        return acc

    def steps(self, count: int, mr: int, vectors: int, x: Value, w: Value, acc: Values) -> Values:
        """Emit `count` terms without a loop."""
        b, lanes, tiles = self.b, lanes_f32(self.machine), self.tiles
        new = list(acc)
        typ = ir.VectorType(F32, lanes)
        pitch = self.inputs.pitch
        together = by_lane(self.machine) and count == 4
        x4 = [
            load_vector(b, address(b, x, p * pitch), ir.VectorType(F32, 4), name="x4")
            for p in (range(mr) if together else ())
        ]
        inputs_inside = keeps_inputs(self.machine, mr, vectors)
        for u in range(count):

            def weight(v: int, u: int = u) -> Value:
                panel, lane = divmod(v * lanes, tiles.lanes)
                offset = panel * tiles.panel_bytes + (u * tiles.lanes + lane) * F32_BYTES
                return load_vector(b, address(b, w, offset), typ, name="w")

            def value(p: int, u: int = u) -> Value:
                if together:
                    return shuffle(b, x4[p], x4[p], [u] * lanes)
                scalar = b.load(address(b, x, p * pitch + u * F32_BYTES), name="x1", align=4, typ=F32)
                return splat(b, scalar, lanes)

            inner = [value(p) for p in range(mr)] if inputs_inside else [weight(v) for v in range(vectors)]
            for first in range(vectors if inputs_inside else mr):
                outer = weight(first) if inputs_inside else value(first)
                for second, factor in enumerate(inner):
                    p, v = (second, first) if inputs_inside else (first, second)
                    i = p * vectors + v
                    x1, w1 = (factor, outer) if inputs_inside else (outer, factor)
                    new[i] = fma(b, x1, w1, new[i], f"acc_{p}_{v}")
        return tuple(new)


def prefetch_to_l2(b: ir.IRBuilder, pointer: Value) -> None:
    """Emit a prefetch of a cache line into level 2; the address may be invalid."""
    full = "llvm.prefetch.p0"
    kind = ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32])
    function = b.module.globals.get(full) or ir.Function(b.module, kind, full)
    b.call(function, [pointer, const(0, I32), const(2, I32), const(1, I32)])  # for a read, into level 2, data
