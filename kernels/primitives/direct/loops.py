"""Emitter of direct convolutions: the loops around the register tiles.

Register tiles are as large as the spec and the machine's registers allow. Results do not depend on them: each output
is one sum, in the order of the spec's terms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import address, const, finish_rows, kernel_function, note_tile, operands, scale_index
from mavcg.kernels.builder.tiles import in_part, repeat_tiles
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.kernels.gemm.register_tile import choose, cut, most_pixels, most_vectors, step_cycles
from mavcg.kernels.primitives.common import epilogue_operands, lanes_of
from mavcg.kernels.primitives.direct.outer_product import OuterProduct
from mavcg.kernels.primitives.direct.spec import DirectConv, TileExtent, VectorAxis
from mavcg.kernels.primitives.direct.terms import TermOrder, terms_of
from mavcg.kernels.primitives.direct.tile_outputs import DirectTileOutputs
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES, Layout

Value: TypeAlias = ir.Value
LONG_UNROLL = 96  # maximum multiply-adds of a tile's unrolled terms, where the inputs are not contiguous
# Minimum terms per iteration. In-order cores load a term's inputs one by one; with four terms LLVM pairs these loads
# and runs out of registers for the sums. On an A55 (modelled, as built) 160 multiply-adds take 41 cycles instead of 68.
TERMS_PER_ITERATION, IN_ORDER_TERMS_PER_ITERATION = 4, 2
COLUMN_TILES = (8, 4)  # channels of a tile whose vectors run along columns: divisors of a panel


def emit_direct(module: ir.Module, spec: DirectConv, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    _, b = kernel_function(module, spec, machine)
    return finish_rows(b, _DirectEmitter(b, spec, machine).row)


@dataclass(frozen=True)
class _TileCut:
    """A cut of outputs into tiles of scalars by `vectors` vectors. scalars: (scalars of a tile, number of such
    tiles)."""

    scalars: tuple[tuple[int, int], ...]
    vectors: int


@dataclass(frozen=True)
class _ChannelRange:
    """A range of a group's output channels in a row of outputs.

    x, out, residual: pointers to the row, out and residual at the image's first channel. first: of the range, within
    the group.
    """

    x: Value
    out: Value
    residual: Value | None
    group: Value
    first: Value
    count: int


class _DirectEmitter:
    """Emitter of the loops of one function."""

    def __init__(self, b: ir.IRBuilder, spec: DirectConv, machine: Machine) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        self.x, self.w, self.out = operands(b, "x", "weights", "out")
        self.bias, self.residual = epilogue_operands(b, spec.epilogue, 3)
        self.lanes = lanes_of(machine, spec.panel) if spec.along is VectorAxis.CHANNELS else lanes_f32(machine)

    def row(self, index: Value) -> None:
        """Emit a row of work: a chunk of channels of a row of outputs."""
        b, spec = self.b, self.spec
        slices = spec.groups * spec.chunks
        outer, inner = (slices, spec.out.height) if not spec.rows_outer else (spec.out.height, slices)
        first = const(0) if outer == 1 else index if inner == 1 else b.udiv(index, const(inner))
        second = const(0) if inner == 1 else index if outer == 1 else b.urem(index, const(inner))
        y, part = (first, second) if spec.rows_outer else (second, first)
        group = b.udiv(part, const(spec.chunks)) if spec.groups > 1 else const(0)
        chunk = b.urem(part, const(spec.chunks)) if spec.chunks > 1 and spec.groups > 1 else part
        if spec.chunks == 1:
            chunk = const(0)
        x = address(b, self.x, scale_index(b, y, spec.stride * spec.x.row_step * F32_BYTES))
        if spec.groups > 1:
            x = address(b, x, spec.x.channel_bytes(b, scale_index(b, group, spec.in_channels)), "group_x")
        down = scale_index(b, y, spec.out.row_step * F32_BYTES)
        out = address(b, self.out, down)
        residual = address(b, self.residual, down) if self.residual is not None else None

        def run(count: int) -> None:
            self.run(_ChannelRange(x, out, residual, group, scale_index(b, chunk, spec.chunk), count))

        in_part(b, chunk, spec.out_channels, spec.chunk, run)

    def run(self, run: _ChannelRange) -> None:
        """Emit all tiles of a range of channels of a row of outputs; a tile's weights stay in cache for all inputs."""
        spec = self.spec
        if spec.along is VectorAxis.CHANNELS:
            elements = run.count
            if spec.out.layout is Layout.CHWC:
                elements = -(-run.count // spec.out.block) * spec.out.block
            total, valid, scalars = -(-elements // self.lanes), run.count, spec.out.width
        else:
            total, valid, scalars = -(-spec.out.width // self.lanes), spec.out.width, run.count
        shape = self.shape(scalars, total)
        used = tuple(max(0, min(self.lanes, valid - v * self.lanes)) for v in range(total))

        def over_scalars(body: Callable[[Value, int], None]) -> None:
            repeat_tiles(self.b, shape.scalars, body, "tile")

        def over_vectors(body: Callable[[Value, tuple[int, ...]], None]) -> None:
            whole = sum(lanes == self.lanes for lanes in used) // shape.vectors
            repeat_tiles(self.b, ((shape.vectors, whole),), lambda v, n: body(v, (self.lanes,) * n), "tile")
            for v in range(whole * shape.vectors, total, shape.vectors):
                body(const(v), used[v : v + shape.vectors])

        if spec.along is VectorAxis.CHANNELS:
            over_vectors(lambda v, several: over_scalars(lambda s, count: self.tile(run, s, count, v, several)))
        else:
            over_scalars(lambda s, count: over_vectors(lambda v, several: self.tile(run, s, count, v, several)))

    def shape(self, scalars: int, vectors: int) -> _TileCut:
        """Return the cut of `scalars` by `vectors` outputs into register tiles."""
        spec, machine = self.spec, self.machine
        if spec.along is VectorAxis.COLUMNS:
            return self.column_shape(scalars, vectors)
        if spec.tile_extent is TileExtent.ONE_SCALAR:
            return _TileCut(((1, scalars),), min(vectors, most_vectors(machine, 1)))
        if spec.tile_extent is TileExtent.ONE_VECTOR:
            return _TileCut(cut(scalars, min(scalars, most_pixels(machine, 1))).tiles, 1)
        tiling = choose(machine, scalars, vectors, spec.terms, max(1, spec.panel // self.lanes))
        return _TileCut(tiling.widths.tiles, tiling.vectors)

    def column_shape(self, channels: int, vectors: int) -> _TileCut:
        """Return the cut for vectors along the columns, by the model of register_tile.choose, in parts of a panel."""
        machine, spec = self.machine, self.spec
        sizes = (1,) if spec.tile_extent is TileExtent.ONE_SCALAR or channels == 1 else COLUMN_TILES
        most = 1 if spec.tile_extent is TileExtent.ONE_VECTOR else vectors
        cuts: list[tuple[float, int, _TileCut]] = []
        for size in sizes:
            tiles = tuple((n, count) for n, count in ((size, channels // size), (channels % size, 1)) if n and count)
            for nv in range(1, min(most, most_vectors(machine, size)) + 1):
                if nv > 1 and most_pixels(machine, nv) < size:
                    continue
                widths = ((nv, vectors // nv), (vectors % nv, 1))
                cycles = sum(
                    step_cycles(machine, n, v, 1) * count * times for n, count in tiles for v, times in widths if v
                )
                cuts.append((cycles, -size * nv, _TileCut(tiles, nv)))
        return min(cuts, key=lambda cut: cut[:2])[2]

    def tile(self, run: _ChannelRange, s: Value, scalars: int, v: Value, used: tuple[int, ...]) -> None:
        """Emit one tile: `scalars` scalars from number s on by len(used) vectors from number v on."""
        b, spec, lanes = self.b, self.spec, self.lanes
        note_tile(b, scalars, len(used))
        start = scale_index(b, v, lanes)  # first lane of the first vector
        by_channels = spec.along is VectorAxis.CHANNELS
        channel = b.add(run.first, start if by_channels else s, name="channel")
        column = s if by_channels else start
        weights = address(b, self.w, self.weight_bytes(run.group, channel, len(used) * lanes if by_channels else 0))
        across = spec.window_across.stride * spec.x.column_step if by_channels else 1
        x = address(b, run.x, scale_index(b, column, across * F32_BYTES), "window")
        if by_channels:
            inputs = tuple(p * across * F32_BYTES for p in range(scalars))
            vectors = tuple(self.panel_offset(i * lanes) for i in range(len(used)))
        else:
            inputs = tuple(i * F32_BYTES for i in range(scalars))
            vectors = tuple(i * lanes * F32_BYTES for i in range(len(used)))
        readable = (lanes,) * len(used) if spec.slack else used
        outer = OuterProduct(b, self.machine, lanes, inputs, vectors, spec.panel * F32_BYTES, by_channels, readable)
        bias_at = b.add(channel, scale_index(b, run.group, spec.out_channels)) if spec.groups > 1 else channel
        outputs = DirectTileOutputs(
            b,
            self.machine,
            spec.out,
            spec.epilogue,
            by_channels,
            scalars,
            lanes,
            used,
            bias_at,
            column,
            run.out,
            self.bias,
            run.residual,
        )
        terms = terms_of(
            spec.x,
            spec.kernel,
            spec.dilation,
            spec.window_across,
            spec.in_channels,
            spec.order,
            self.unroll(scalars * len(used)),
        )
        outputs.store(outer.sum(terms, x, weights, outputs.initial_sums()))

    def unroll(self, accumulators: int) -> int:
        """Return the maximum number of unrolled terms of a tile with `accumulators` accumulators."""
        least = IN_ORDER_TERMS_PER_ITERATION if self.machine.in_order else TERMS_PER_ITERATION
        if self.spec.long_unroll or self.spec.order is TermOrder.CHANNELS:
            return max(least, LONG_UNROLL * (2 if self.spec.long_unroll else 1) // accumulators)
        return least

    def panel_offset(self, channel: int) -> int:
        """Return the offset of a channel's weights from those of its tile's first channel, in bytes.

        The first channel begins a panel, or the tile has one vector only.
        """
        return channel // self.spec.panel * self.spec.panel_bytes + channel % self.spec.panel * F32_BYTES

    def weight_bytes(self, group: Value, channel: Value, channels: int) -> Value:
        """Emit the offset of the weights of a tile that begins at a channel of a group, in bytes."""
        b, spec = self.b, self.spec
        if channels and channels % spec.panel == 0:
            inside = scale_index(b, channel, spec.panel_bytes // spec.panel)
        else:
            panel = scale_index(b, b.udiv(channel, const(spec.panel)), spec.panel_bytes)
            inside = b.add(panel, scale_index(b, b.urem(channel, const(spec.panel)), F32_BYTES))
        return b.add(scale_index(b, group, spec.group_bytes), inside, name="weights_at") if spec.groups > 1 else inside
