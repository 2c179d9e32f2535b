"""Emitter of depthwise convolutions of floats: loops over blocks of rows, pixels, lines of channels, rows, taps."""

from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.builder.activation import output
from mavcg.kernels.builder.arithmetic import round_to, widen_half
from mavcg.kernels.builder.emit import (
    F16,
    F32,
    TYPES,
    Values,
    address,
    const,
    index_value,
    kernel_function,
    note_tile,
    repeat,
    scale_index,
    with_element,
)
from mavcg.kernels.builder.lanes import f32_splat, load_vector, store_vector
from mavcg.kernels.builder.nest_loops import maximum, minimum
from mavcg.kernels.builder.run_numbers import Number, load_numbers, multiple, one_less, times
from mavcg.kernels.builder.tiles import repeat_tiles, row_blocks, row_pixel_tiles, row_tiles, whole_and_rest
from mavcg.kernels.conv.depthwise import Depthwise, DepthwiseWindow, block_rows, by_rows, prefetch_offsets, tile_of
from mavcg.kernels.gemm.loop_shape import vector_lanes
from mavcg.kernels.gemm.register_tile import cut
from mavcg.kernels.gemm.tile import F32_BYTES
from mavcg.specs.kernel import Machine, View
from mavcg.specs.row_kernel import transpose_image

Value: TypeAlias = ir.Value
Pointers: TypeAlias = tuple[Value | None, ...]  # x, weights, out, bias, residual; None for an absent operand


def emit_depthwise(module: ir.Module, spec: Depthwise, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    function, b = kernel_function(module, spec, machine)
    _DepthwiseEmitter(b, spec, machine).emit(function.args[1], function.args[2])
    b.ret_void()
    return function


@dataclass(frozen=True)
class _Unit:
    """A unit of work: some rows of outputs, one tile of pixels wide, for one line of channels or for all channels.

    rows: their number. at: pointers of the first output. ahead: pointers to x and weights of the next unit, which are
    prefetched; None: no prefetches.
    """

    rows: Value
    at: Pointers
    ahead: tuple[Value, Value] | None
    pixels: int
    channels: int


class _DepthwiseEmitter:
    """Emitter of the loops: blocks of rows, tiles of pixels, lines of channels, rows, vectors of channels, taps.

    The rows of a column of pixels are computed as the pixels of a row, by tiles of several.
    """

    def __init__(self, b: ir.IRBuilder, spec: Depthwise, machine: Machine) -> None:
        self.in_column = spec.single_pixels
        spec = transpose_image(spec) if self.in_column else spec
        self.b, self.spec = b, spec
        self.numbers = numbers = load_numbers(b, spec.words, 3 + spec.bias + (spec.residual is not None))
        self.columns = numbers.at("out.shape.2", spec.out.shape[2])
        self.dtype, self.item, self.line_channels = spec.x.dtype, spec.item_bytes, spec.line_channels
        self.window = DepthwiseWindow(
            spec.kernel, spec.stride, spec.dilation, (self.strides("x")[1], spec.x.strides[2]), self.dtype
        )
        self.lanes = vector_lanes(machine, self.dtype)
        self.x, self.w, self.out = (numbers.operand(i, name) for i, name in enumerate(("x", "weights", "out")))
        self.bias = numbers.operand(3, "bias") if spec.bias else None
        self.residual = numbers.operand(3 + spec.bias, "residual") if spec.residual else None
        pixels, self.vectors = tile_of(spec, machine)
        self.widths = cut(spec.out.shape[2], min(spec.out.shape[2], pixels))
        self.by_rows = by_rows(spec, machine)

    def emit(self, begin: Value, end: Value) -> None:
        b, spec = self.b, self.spec
        images, number = spec.out.shape[0], self.numbers.at("out.shape.1", spec.out.shape[1])
        height, less = index_value(number), one_less(b, number)
        rows = 1 if self.by_rows else block_rows(spec)

        def image_rows(image: Value, first: Value, last: Value) -> None:
            row_blocks(b, first, last, rows, lambda lo, hi: self.block(image, lo, hi))

        def part_of_image(image: Value) -> None:
            before = b.mul(image, height)
            first, last = b.sub(begin, before), b.sub(end, before)
            first = maximum(b, first, const(0))
            image_rows(image, first, minimum(b, last, height))

        if self.in_column:
            row_tiles(
                b, begin, end, self.widths.mr, lambda pixel, mr: self.pixels(const(0), const(0), const(1), pixel, mr)
            )
        elif images == 1:
            image_rows(const(0), begin, end)
        else:
            repeat(
                b,
                b.sdiv(begin, height),
                b.sdiv(b.add(end, index_value(less)), height),
                part_of_image,
                "image",
            )

    def block(self, image: Value, lo: Value, hi: Value) -> None:
        """Emit the rows lo to hi of an image: for each tile of pixels all lines of channels."""
        rows = self.b.sub(hi, lo)

        def tile(pixel: Value, mr: int) -> None:
            self.pixels(image, lo, rows, pixel, mr)

        row_pixel_tiles(self.b, self.columns, self.widths.tiles, self.widths.mr, tile)

    def pixels(self, image: Value, lo: Value, rows: Value, pixel: Value, mr: int) -> None:
        """Emit a tile of `mr` pixels from `pixel`, of `rows` rows of an image from `lo`: all lines of channels."""
        b, spec, channels = self.b, self.spec, self.spec.out.shape[3]

        def start(pointer: Value, name: str, stride: tuple[int, int], pixel: Value) -> Value:
            strides = self.strides(name)
            down, across = (
                times(b, lo, strides[1], stride[0]),
                times(b, pixel, strides[2], stride[1]),
            )
            offset = b.add(b.add(times(b, image, strides[0]), down), across)
            return address(b, pointer, b.mul(offset, const(self.item)))

        x, out = start(self.x, "x", spec.stride, pixel), start(self.out, "out", (1, 1), pixel)
        residual = start(self.residual, "residual", (1, 1), pixel) if spec.residual is not None else None
        following = start(self.x, "x", spec.stride, b.add(pixel, const(mr)))
        first: Pointers = (x, self.w, out, self.bias, residual)

        def unit(channel: Value, count: int) -> None:
            at = self.advance(first, channel)
            ahead = None
            if not self.by_rows:
                # After the last line of channels the next unit is the next tile's first line.
                next_line = self.advance(first, b.add(channel, const(self.line_channels)))
                more = b.icmp_signed("<", b.add(channel, const(self.line_channels)), const(channels))
                ahead = b.select(more, next_line[0], following), b.select(more, next_line[1], self.w)
            self.unit(_Unit(rows, at, ahead, mr, count))

        if self.by_rows:
            unit(const(0), channels)
        else:
            repeat_tiles(b, whole_and_rest(channels, self.line_channels), unit, "line")

    def strides(self, image: str) -> tuple[Number, ...]:
        """Return the strides of x, out or residual, in elements."""
        view: View = getattr(self.spec, image)
        return self.numbers.along(f"{image}.strides", view.strides)

    def advance(self, at: Pointers, channel: Value) -> Pointers:
        """Return the pointers advanced by `channel` channels, a multiple of a line for the weights."""
        taps = self.spec.kernel[0] * self.spec.kernel[1]
        steps = (self.item, taps * self.item, self.item, F32_BYTES, self.item)
        pairs = zip(at, steps, strict=True)
        return tuple(
            address(self.b, p, scale_index(self.b, channel, step)) if p is not None else None for p, step in pairs
        )

    def unit(self, unit: _Unit) -> None:
        """Emit a unit row by row, with prefetches of the next unit's inputs and weights.

        The input rows that two neighbouring output rows share are prefetched first, then the others with each output
        row.
        """
        b, spec = self.b, self.spec
        reach = (spec.kernel[0] - 1) * spec.dilation[0] + 1
        shared = max(0, reach - spec.stride[0])
        down = self.strides("x")[1]
        residual: Number = self.strides("residual")[1] if spec.residual is not None else 0
        steps = (multiple(b, down, spec.stride[0]), 0, self.strides("out")[1], 0, residual)
        if unit.ahead is not None:
            x, weights = unit.ahead
            across = range(0, spec.kernel[1] * LINE_BYTES, LINE_BYTES)

            def prefetch_row(y: Value) -> None:
                at = address(b, x, times(b, y, down, self.item))
                self.window.prefetch(b, at, range(1), unit.pixels)

            def prefetch_weights(y: Value) -> None:
                prefetch_offsets(b, address(b, weights, scale_index(b, y, len(across) * LINE_BYTES)), across)

            repeat(b, 0, spec.kernel[0], prefetch_weights, "prefetch_weights")
            repeat(b, 0, shared, prefetch_row, "prefetch_x", spec.dilation[0])

        def row(y: Value) -> None:
            pairs = zip(unit.at, steps, strict=True)
            at = tuple(address(b, p, times(b, y, s, self.item)) if p is not None else None for p, s in pairs)
            if unit.ahead is not None:
                x = address(b, unit.ahead[0], times(b, y, steps[0], self.item))
                self.window.prefetch(b, x, range(shared, reach), unit.pixels)

            def line(channel: Value, count: int) -> None:
                self.line(self.advance(at, channel), unit.pixels, count)

            repeat_tiles(b, whole_and_rest(unit.channels, self.line_channels), line, "line")

        repeat(b, const(0), unit.rows, row, "row")

    def line(self, at: Pointers, pixels: int, channels: int) -> None:
        """Emit the tiles of a line of `channels` channels, vectors by vectors."""
        b, step = self.b, self.vectors * self.lanes
        whole = channels // step * step

        def advance(channel: Value) -> Pointers:
            sizes = zip(at, (self.item, self.item, self.item, F32_BYTES, self.item), strict=True)
            return tuple(address(b, p, scale_index(b, channel, size)) if p is not None else None for p, size in sizes)

        if whole == step:
            self.tile(at, pixels, self.vectors, self.lanes)
        elif whole:
            repeat(b, 0, whole, lambda c: self.tile(advance(c), pixels, self.vectors, self.lanes), "channel", step)
        if rest := channels - whole:
            vectors = -(-rest // self.lanes)
            self.tile(advance(const(whole)), pixels, vectors, rest - (vectors - 1) * self.lanes)

    def tile(self, at: Pointers, pixels: int, vectors: int, used: int) -> None:
        """Emit a tile of neighbouring pixels: each weight is loaded once for all pixels, each input once for all
        windows.

        used: channels in the last vector.
        """
        b, spec = self.b, self.spec
        note_tile(b, pixels, vectors)
        x, weights, out, bias, residual = at
        typ, element = ir.VectorType(F32, self.lanes), TYPES[self.dtype]
        sides = [(v * self.lanes, used if v == vectors - 1 else self.lanes) for v in range(vectors)]
        biases = [f32_splat(0.0, self.lanes)] * len(sides)
        if bias is not None:
            biases = [load_vector(b, address(b, bias, side * F32_BYTES), typ, count, "bias") for side, count in sides]
        # A sum of f16 is one block: its bias is added after it, in f16 unless a residual follows.
        in_half = element == F16
        starts = [ir.Constant(with_element(x, F16), [0.0] * self.lanes) for x in biases] if in_half else biases
        acc: Values = tuple(start for start in starts for _ in range(pixels))
        counts = tuple(count for _, count in sides)
        acc = self.window.sums(b, (x, weights), (pixels, self.lanes), counts, acc)
        added_biases = [round_to(b, x, "f16") for x in biases] if in_half and residual is None else biases
        for p in range(pixels):
            for v, (side, count) in enumerate(sides):
                value = acc[v * pixels + p]
                if residual is not None:
                    value = widen_half(b, value)
                if in_half and bias is not None:
                    value = b.fadd(value, added_biases[v], name="sum")
                if residual is not None and spec.residual is not None:
                    pointer = address(b, residual, (p * spec.residual.strides[2] + side) * self.item)
                    added = load_vector(b, pointer, ir.VectorType(element, self.lanes), count, "residual")
                    value = b.fadd(value, widen_half(b, added))
                value = output(b, spec.act, spec.act_args, self.dtype, value)
                store_vector(b, value, address(b, out, (p * spec.out.strides[2] + side) * self.item), count)
