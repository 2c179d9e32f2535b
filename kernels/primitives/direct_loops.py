"""The loops of direct convolutions around the tiles.

Register tiles are as large as the spec says that they may be and as the machine's registers make them. They change no
result: each output is one sum, in the order of the spec's terms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernel import Machine
from mavcg.kernels.emit import address, const, kernel_function, note_tile, operand, repeat, scaled
from mavcg.kernels.primitives.common import epilogue_operands, lanes_of
from mavcg.kernels.primitives.direct_conv import Along, DirectConv, Held
from mavcg.kernels.primitives.outer import Outer
from mavcg.kernels.primitives.terms import Order, terms_of
from mavcg.kernels.primitives.tile_ends import Ends
from mavcg.kernels.tiling import choose, cut, lanes_f32, most_pixels, most_vectors, step_cycles
from mavcg.primitive import F32_BYTES, Layout

Value: TypeAlias = ir.Value
LONG_UNROLL = 96  # multiply-adds of a tile's terms without a loop, where the inputs are no run of neighbours
# Terms of a turn at least. In-order cores load a term's inputs one by one: LLVM puts those of four terms in pairs, and
# then has too few registers for all sums. On an A55 (model, as built) 160 multiply-adds take 41 cycles and not 68.
TERMS_A_TURN, IN_ORDER_TERMS_A_TURN = 4, 2
COLUMN_TILES = (8, 4)  # channels of a tile of vectors along columns: divisors of a panel


def emit_direct(module: ir.Module, spec: DirectConv, machine: Machine) -> ir.Function:
    """The function of a spec for a machine."""
    function, b = kernel_function(module, spec, machine)
    repeat(b, function.args[1], function.args[2], _Emitter(b, spec, machine).row, "row")
    b.ret_void()
    return function


@dataclass(frozen=True)
class _Shape:
    """Tiles of `scalars` by `vectors`: how both sides are cut. scalars: (how many, how many such tiles)."""

    scalars: tuple[tuple[int, int], ...]
    vectors: int


@dataclass(frozen=True)
class _Run:
    """Some channels of a group, of a row of outputs: x, out and residual point at the row, out at the image's first
    channel; first: in the group."""

    x: Value
    out: Value
    residual: Value | None
    group: Value
    first: Value
    count: int


class _Emitter:
    """The loops of one function."""

    def __init__(self, b: ir.IRBuilder, spec: DirectConv, machine: Machine) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        self.x, self.w, self.out = (operand(b, i, name) for i, name in enumerate(("x", "weights", "out")))
        self.bias, self.residual = epilogue_operands(b, spec.epilogue, 3)
        self.lanes = lanes_of(machine, spec.panel) if spec.along is Along.CHANNELS else lanes_f32(machine)

    def row(self, index: Value) -> None:
        """A row of work."""
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
        x = address(b, self.x, scaled(b, y, spec.stride * spec.x.row_step * F32_BYTES))
        if spec.groups > 1:
            x = address(b, x, spec.x.channel_bytes(b, scaled(b, group, spec.in_channels)), "group_x")
        down = scaled(b, y, spec.out.row_step * F32_BYTES)
        out = address(b, self.out, down)
        residual = address(b, self.residual, down) if self.residual is not None else None

        def run(count: int) -> None:
            self.run(_Run(x, out, residual, group, scaled(b, chunk, spec.chunk), count))

        rest = spec.out_channels % spec.chunk
        if not rest or spec.chunks == 1:
            run(min(spec.chunk, spec.out_channels))
            return
        with b.if_else(b.icmp_signed("==", chunk, const(spec.chunks - 1))) as (last, whole):
            with last:
                run(rest)
            with whole:
                run(spec.chunk)

    def run(self, run: _Run) -> None:
        """All tiles of some channels of a row of outputs: the weights of a tile stay while inputs pass."""
        spec = self.spec
        if spec.along is Along.CHANNELS:
            elements = run.count
            if spec.out.layout is Layout.CHWC:
                elements = -(-run.count // spec.out.block) * spec.out.block
            total, valid, scalars = -(-elements // self.lanes), run.count, spec.out.width
        else:
            total, valid, scalars = -(-spec.out.width // self.lanes), spec.out.width, run.count
        shape = self.shape(scalars, total)
        used = tuple(max(0, min(self.lanes, valid - v * self.lanes)) for v in range(total))

        def over_scalars(body: Callable[[Value, int], None]) -> None:
            done = 0
            for count, tiles in shape.scalars:

                def tile(at: Value, count: int = count) -> None:
                    body(at, count)

                self.loop(done, tiles, count, tile)
                done += count * tiles

        def over_vectors(body: Callable[[Value, tuple[int, ...]], None]) -> None:
            whole = sum(lanes == self.lanes for lanes in used) // shape.vectors
            self.loop(0, whole, shape.vectors, lambda v: body(v, (self.lanes,) * shape.vectors))
            for v in range(whole * shape.vectors, total, shape.vectors):
                body(const(v), used[v : v + shape.vectors])

        if spec.along is Along.CHANNELS:
            over_vectors(lambda v, several: over_scalars(lambda s, count: self.tile(run, s, count, v, several)))
        else:
            over_scalars(lambda s, count: over_vectors(lambda v, several: self.tile(run, s, count, v, several)))

    def loop(self, first: int, turns: int, step: int, body: Callable[[Value], None]) -> None:
        """body(first), body(first + step), ..; no loop where there is one turn."""
        if turns == 1:
            body(const(first))
        elif turns:
            repeat(self.b, first, first + turns * step, body, "tile", step)

    def shape(self, scalars: int, vectors: int) -> _Shape:
        """How `scalars` by `vectors` are cut into tiles."""
        spec, machine = self.spec, self.machine
        if spec.along is Along.COLUMNS:
            return self.column_shape(scalars, vectors)
        if spec.held is Held.ONE_SCALAR:
            return _Shape(((1, scalars),), min(vectors, most_vectors(machine, 1)))
        if spec.held is Held.ONE_VECTOR:
            return _Shape(cut(scalars, min(scalars, most_pixels(machine, 1))).tiles, 1)
        found = choose(machine, scalars, vectors, spec.terms, max(1, spec.panel // self.lanes))
        return _Shape(found.widths.tiles, found.vectors)

    def column_shape(self, channels: int, vectors: int) -> _Shape:
        """The same for vectors along the columns: by the model of tiling.choose, tiles being parts of a panel."""
        machine, spec = self.machine, self.spec
        sizes = (1,) if spec.held is Held.ONE_SCALAR or channels == 1 else COLUMN_TILES
        most = 1 if spec.held is Held.ONE_VECTOR else vectors
        found: list[tuple[float, int, _Shape]] = []
        for size in sizes:
            tiles = tuple((n, count) for n, count in ((size, channels // size), (channels % size, 1)) if n and count)
            for nv in range(1, min(most, most_vectors(machine, size)) + 1):
                if nv > 1 and most_pixels(machine, nv) < size:
                    continue
                widths = ((nv, vectors // nv), (vectors % nv, 1))
                cycles = sum(
                    step_cycles(machine, n, v, 1) * count * times for n, count in tiles for v, times in widths if v
                )
                found.append((cycles, -size * nv, _Shape(tiles, nv)))
        return min(found, key=lambda each: each[:2])[2]

    def tile(self, run: _Run, s: Value, scalars: int, v: Value, used: tuple[int, ...]) -> None:
        """One tile: `scalars` from the s-th on, and as many vectors as `used` has from the v-th on."""
        b, spec, lanes = self.b, self.spec, self.lanes
        note_tile(b, scalars, len(used))
        start = scaled(b, v, lanes)  # the first vector's first lane
        by_channels = spec.along is Along.CHANNELS
        channel = b.add(run.first, start if by_channels else s, name="channel")
        column = s if by_channels else start
        weights = address(b, self.w, self.weight_bytes(run.group, channel, len(used) * lanes if by_channels else 0))
        across = spec.stride * spec.x.column_step if by_channels else 1
        x = address(b, run.x, scaled(b, column, across * F32_BYTES), "window")
        if by_channels:
            inputs = tuple(p * across * F32_BYTES for p in range(scalars))
            vectors = tuple(self.panel_offset(i * lanes) for i in range(len(used)))
        else:
            inputs = tuple(i * F32_BYTES for i in range(scalars))
            vectors = tuple(i * lanes * F32_BYTES for i in range(len(used)))
        readable = (lanes,) * len(used) if spec.slack else used
        outer = Outer(
            b, self.machine, lanes, inputs, vectors, spec.panel * F32_BYTES, by_channels, readable
        )  # fmt: skip
        bias_at = b.add(channel, scaled(b, run.group, spec.out_channels)) if spec.groups > 1 else channel
        ends = Ends(
            b, self.machine, spec.out, spec.epilogue, by_channels, scalars, lanes, used, bias_at, column,
            run.out, self.bias, run.residual,
        )  # fmt: skip
        terms = terms_of(
            spec.x, spec.kernel, spec.dilation, spec.in_channels, spec.order, self.unroll(scalars * len(used))
        )
        ends.finish(outer.sum(terms, x, weights, ends.start()))

    def unroll(self, held: int) -> int:
        """The most terms without a loop."""
        least = IN_ORDER_TERMS_A_TURN if self.machine.in_order else TERMS_A_TURN
        if self.spec.long_unroll or self.spec.order is Order.CHANNELS:
            return max(least, LONG_UNROLL * (2 if self.spec.long_unroll else 1) // held)
        return least

    def panel_offset(self, channel: int) -> int:
        """Of a channel's weights, from its panel-aligned or only vector's first, in bytes."""
        return channel // self.spec.panel * self.spec.panel_bytes + channel % self.spec.panel * F32_BYTES

    def weight_bytes(self, group: Value, channel: Value, channels: int) -> Value:
        """Where the weights of a tile from a channel of a group on begin."""
        b, spec = self.b, self.spec
        if channels and channels % spec.panel == 0:
            inside = scaled(b, channel, spec.panel_bytes // spec.panel)
        else:
            panel = scaled(b, b.udiv(channel, const(spec.panel)), spec.panel_bytes)
            inside = b.add(panel, scaled(b, b.urem(channel, const(spec.panel)), F32_BYTES))
        return b.add(scaled(b, group, spec.group_bytes), inside, name="weights_at") if spec.groups > 1 else inside


EMIT = {DirectConv: emit_direct}
