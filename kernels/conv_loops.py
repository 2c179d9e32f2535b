"""The code of a convolution: its spec, and the loops over rows, channels and pixels around the micro-kernels."""

from dataclasses import dataclass, replace
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernel import KernelSpec, Machine, View
from mavcg.kernels.emit import Values, address, const, for_range, kernel_function, operand, repeat, scaled
from mavcg.kernels.gemm import F32_BYTES, Pointers, Sum, Tile, Weights, emit_tile, merged
from mavcg.kernels.tiling import Tiling, choose, lanes_f32

Value: TypeAlias = ir.Value

# Of the input, used for all output channels before the next: it stays in any level-2 cache, with weights beside it.
BLOCK_BYTES = 1 << 16
# Where there are fewer rows than this, threads share the output channels instead.
FEW_ROWS = 4
MANY_WEIGHTS = 1 << 18  # bytes: no longer kept in a level-2 cache between two rows
# Tiles that go on in the next row must be so much faster to be worth addresses made at run time.
CROSSING_GAIN = 0.95


@dataclass(frozen=True)
class Conv2d(KernelSpec):
    """act(bias + convolution + residual) of f32 images.

    x, out, residual: N, H, W, C. kernel, stride, dilation: height, width. packed: weights are packed in panels of
    `lanes` channels, [groups, panels, KH, KW, C/groups, lanes], else O, KH, KW, C/groups as in the graph. Operands: x,
    weights, out, then bias and residual as far as there are any. A row of work is a row of output pixels, or, where
    by_channels, `lanes` output channels of a group.
    """

    x: View
    out: View
    residual: View | None
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    lanes: int
    bias: bool
    packed: bool
    act: str
    act_args: tuple[float, ...]

    @property
    def family(self) -> str:
        return "conv2d_f32" if self.packed else "conv2d_f32_unpacked"

    @property
    def in_channels(self) -> int:
        """Of a group."""
        return self.x.shape[3] // self.groups

    @property
    def out_channels(self) -> int:
        """Of a group."""
        return self.out.shape[3] // self.groups

    @property
    def panels(self) -> int:
        """Panels of output channels of a group."""
        return -(-self.out_channels // self.lanes)

    @property
    def pixel_rows(self) -> int:
        """Rows of output pixels of all images."""
        return self.out.shape[0] * self.out.shape[1]

    @property
    def weight_bytes(self) -> int:
        """Of the packed weights."""
        return self.groups * self.panels * self.lanes * self.kernel[0] * self.kernel[1] * self.in_channels * F32_BYTES

    @property
    def by_channels(self) -> bool:
        """Whether work is cut along the output channels: where there is more of weights than of images."""
        enough = self.groups * self.panels >= FEW_ROWS
        images = (self.x.elements + self.out.elements) * F32_BYTES
        heavy = self.weight_bytes > max(MANY_WEIGHTS, images)
        return enough and (heavy or self.pixel_rows < FEW_ROWS)

    @property
    def rows(self) -> int:
        if 0 in self.out.shape:
            return 0
        return self.groups * self.panels if self.by_channels else self.pixel_rows

    @property
    def work(self) -> int:
        return 2 * self.out.elements * self.kernel[0] * self.kernel[1] * self.in_channels


def emit_conv2d(module: ir.Module, spec: Conv2d, machine: Machine) -> ir.Function:
    """The function of a spec for a machine."""
    function, b = kernel_function(module, spec, machine)
    _Emitter(b, spec, machine).emit(function.args[1], function.args[2])
    b.ret_void()
    return function


def conv_sum(spec: Conv2d) -> Sum:
    """How k runs: rows of taps, taps, channels; neighbours in memory are one level."""
    _, row, col, _ = spec.x.strides
    return merged([
        (spec.kernel[0], spec.dilation[0] * row * F32_BYTES),
        (spec.kernel[1], spec.dilation[1] * col * F32_BYTES),
        (spec.in_channels, F32_BYTES),
    ])  # fmt: skip


class _Emitter:
    """Loops around the micro-kernels of one function."""

    def __init__(self, b: ir.IRBuilder, spec: Conv2d, machine: Machine) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        self.x, self.w, self.out = (operand(b, i, name) for i, name in enumerate(("x", "weights", "out")))
        self.bias = operand(b, 3, "bias") if spec.bias else None
        self.residual = operand(b, 3 + spec.bias, "residual") if spec.residual else None
        self.lanes = lanes_f32(machine)
        self.total = conv_sum(spec)
        k = self.total.length * F32_BYTES
        if spec.packed:
            self.weights = Weights(spec.lanes * F32_BYTES, F32_BYTES, k * spec.lanes, spec.lanes, True)
        else:
            self.weights = Weights(F32_BYTES, k, k * spec.lanes, spec.lanes, False)

    def tiling(self, channels: int, pixels: int) -> Tiling:
        """For a run of so many output channels and neighbouring pixels."""
        if not self.spec.packed:
            return choose(self.machine, pixels, 1, self.total.length)
        vectors, panel = -(-channels // self.lanes), max(1, self.spec.lanes // self.lanes)
        return choose(self.machine, pixels, vectors, self.total.length, panel)

    def best(self, channels: int) -> tuple[Tiling, bool]:
        """The tiling of a run of output channels, and whether its tiles cross from a row of pixels to the next."""
        spec = self.spec
        apart = self.tiling(channels, spec.out.shape[2])
        if spec.by_channels and spec.pixel_rows > 1:
            crossing = self.tiling(channels, spec.pixel_rows * spec.out.shape[2])
            if crossing.cycles < CROSSING_GAIN * apart.cycles * spec.pixel_rows:
                return crossing, True
        return apart, False

    def emit(self, begin: Value, end: Value) -> None:
        b, spec = self.b, self.spec
        if spec.by_channels:
            self.by_channels(begin, end)
            return

        def block(first: Value) -> None:
            last = b.add(first, const(self.block_rows))
            last = b.select(b.icmp_signed("<", last, end), last, end)

            def group(index: Value) -> None:
                self.channels(index, const(0), spec.out_channels, first, last)

            repeat(b, 0, spec.groups, group, "group")

        repeat(b, begin, end, block, "block", self.block_rows)

    @property
    def block_rows(self) -> int:
        """Rows of pixels that all output channels are computed for before the next ones."""
        spec = self.spec
        row_bytes = spec.out.shape[2] * spec.stride[1] * spec.stride[0] * spec.x.shape[3] * F32_BYTES
        return max(1, BLOCK_BYTES // row_bytes)

    def by_channels(self, begin: Value, end: Value) -> None:
        """The panels from begin to end, each group's apart; whole chunks first."""
        b, spec = self.b, self.spec
        per_group = const(spec.panels)

        def turn(group: Value) -> None:
            first = b.mul(group, per_group)
            low = self.bounded(b.sub(begin, first), spec.panels)
            high = self.bounded(b.sub(end, first), spec.panels)
            self.panels(group, low, high)

        if spec.groups == 1:
            self.panels(const(0), begin, end)
        else:
            repeat(b, b.sdiv(begin, per_group), b.sdiv(b.add(end, const(spec.panels - 1)), per_group), turn, "group")

    def bounded(self, value: Value, most: int) -> Value:
        """value between 0 and most."""
        b = self.b
        low = b.select(b.icmp_signed("<", value, const(0)), const(0), value)
        return b.select(b.icmp_signed(">", low, const(most)), const(most), low)

    def panels(self, group: Value, begin: Value, end: Value) -> None:
        """A range of a group's panels, known at run time only: chunks as long as they fit, then panel by panel."""
        b, spec = self.b, self.spec
        all_rows = const(0), const(spec.pixel_rows)
        tail = spec.out_channels % spec.lanes
        whole = const(spec.panels - bool(tail))
        last_whole = b.select(b.icmp_signed("<", end, whole), end, whole)
        tiling, _ = self.best(spec.out_channels)
        together = max(1, tiling.vectors * self.lanes // spec.lanes) if spec.packed else 1
        at: Value = begin
        for count in dict.fromkeys((together, 1)):

            def chunk(index: Value, _: Values, count: int = count) -> Values:
                self.channels(group, b.mul(index, const(spec.lanes)), count * spec.lanes, *all_rows)
                return ()

            if spec.panels - bool(tail) < count:
                continue
            turns = b.sdiv(b.sub(last_whole, at), const(count))
            # Where `at` is past the last whole panel already the division gives 0 or less.
            stop = b.add(at, b.mul(turns, const(count)))
            for_range(b, at, stop, count, (), chunk, "chunk")
            at = b.select(b.icmp_signed(">", stop, at), stop, at)
        if tail:
            with b.if_then(b.and_(b.icmp_signed("<=", begin, whole), b.icmp_signed(">", end, whole))):
                self.channels(group, const((spec.panels - 1) * spec.lanes), tail, *all_rows)

    def channels(self, group: Value, first: Value, count: int, begin: Value, end: Value) -> None:
        """`count` output channels of a group from `first`, for a range of pixel rows."""
        b = self.b
        tiling, crossing = self.best(count)
        step = tiling.vectors * self.lanes
        chunks, rest = divmod(count, step)
        if chunks:

            def chunk(index: Value) -> None:
                self.rows(group, b.add(first, index), step, tiling, crossing, begin, end)

            repeat(b, 0, chunks * step, chunk, "channel", step)
        if rest:
            self.rows(group, b.add(first, const(chunks * step)), rest, tiling, crossing, begin, end)

    def rows(
        self, group: Value, channel: Value, count: int, tiling: Tiling, crossing: bool, begin: Value, end: Value
    ) -> None:
        """`count` channels, no more than a chunk, of the rows from begin to end; these are all rows where crossing."""
        b, spec = self.b, self.spec
        vectors = -(-count // self.lanes)
        used = count - (vectors - 1) * self.lanes
        k_bytes = self.total.length * F32_BYTES
        in_first = b.mul(group, const(spec.in_channels * F32_BYTES))
        out_first = b.mul(b.add(b.mul(group, const(spec.out_channels)), channel), const(F32_BYTES))
        panel_channels = spec.panels * spec.lanes if spec.packed else spec.out_channels
        w_first = b.mul(b.add(b.mul(group, const(panel_channels)), channel), const(k_bytes))
        images = [(self.x, spec.x, in_first), (self.out, spec.out, out_first)]
        if spec.residual is not None:
            images.append((self.residual, spec.residual, out_first))

        def pointers(row: Value | None) -> Pointers:
            """Of a row's first pixel, or of the first of all."""
            places = []
            for pointer, view, first in images:
                offset = first if row is None else b.add(self.row_offset(view, row), first)
                places.append(address(b, pointer, offset))
            bias = address(b, self.bias, out_first) if self.bias is not None else None
            residual = places[2] if len(places) > 2 else None
            return Pointers(places[0], address(b, self.w, w_first), places[1], bias, residual)

        if crossing:
            self.crossing(tiling, vectors, used, pointers(None))
        else:
            repeat(b, begin, end, lambda row: self.tiles(tiling, vectors, used, pointers(row)), "row")

    def row_offset(self, view: View, row: Value) -> Value:
        """Where a row of output pixels begins in a view, or its window in x; in bytes."""
        b, height = self.b, self.spec.out.shape[1]
        image, y = (b.udiv(row, const(height)), b.urem(row, const(height))) if height > 1 else (row, const(0))
        if self.spec.out.shape[0] == 1:
            image, y = const(0), row
        down = view.strides[1] * F32_BYTES * (self.spec.stride[0] if view is self.spec.x else 1)
        return b.add(scaled(b, image, view.strides[0] * F32_BYTES), scaled(b, y, down))

    def crossing(self, tiling: Tiling, vectors: int, used: int, at: Pointers) -> None:
        """All pixels of all rows, counted through."""
        b, spec = self.b, self.spec
        width, done = spec.out.shape[2], 0
        views = [spec.x, spec.out, spec.residual]
        for mr, count in tiling.widths.tiles:

            def one(pixel: Value, mr: int = mr) -> None:
                offsets: list[list[Value]] = [[], [], []]
                for p in range(mr):
                    here = b.add(pixel, const(p))
                    row, column = b.udiv(here, const(width), name="y"), b.urem(here, const(width), name="x")
                    for view, found in zip(views, offsets, strict=True):
                        if view is not None:
                            step = view.strides[2] * F32_BYTES * (spec.stride[1] if view is spec.x else 1)
                            found.append(b.add(self.row_offset(view, row), scaled(b, column, step), name="offset"))
                tile = Tile(tuple(offsets[0]), tuple(offsets[1]), tuple(offsets[2]), vectors, used)
                emit_tile(b, self.machine, self.total, self.weights, tile, at, spec.act, spec.act_args)

            repeat(b, done, done + mr * count, one, "pixel", mr)
            done += mr * count

    def tiles(self, tiling: Tiling, vectors: int, used: int, at: Pointers) -> None:
        """One row of pixels."""
        b, spec = self.b, self.spec
        steps = (
            spec.x.strides[2] * spec.stride[1] * F32_BYTES,
            spec.out.strides[2] * F32_BYTES,
            spec.residual.strides[2] * F32_BYTES if spec.residual else 0,
        )
        done = 0
        for mr, count in tiling.widths.tiles:
            offsets = [tuple(step * p for p in range(mr)) for step in steps]
            tile = Tile(offsets[0], offsets[1], offsets[2], vectors, used)

            def one(pixel: Value, tile: Tile = tile) -> None:
                here = replace(
                    at,
                    inputs=address(b, at.inputs, scaled(b, pixel, steps[0])),
                    out=address(b, at.out, scaled(b, pixel, steps[1])),
                    residual=address(b, at.residual, scaled(b, pixel, steps[2])) if at.residual is not None else None,
                )
                emit_tile(b, self.machine, self.total, self.weights, tile, here, spec.act, spec.act_args)

            if count == 1:
                one(const(done))
            else:
                repeat(b, done, done + mr * count, one, "pixel", mr)
            done += mr * count
