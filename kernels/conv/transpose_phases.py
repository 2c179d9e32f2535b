"""Spec of transposed convolutions, and the emitter of those with packed weights, phase by phase (see transpose.py)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.activation import activation
from mavcg.kernels.builder.emit import (
    TYPES,
    address,
    const,
    index_value,
    operand,
    operands,
    repeat,
    row_count,
    scale_index,
)
from mavcg.kernels.builder.lanes import load_vector, store_vector
from mavcg.kernels.builder.nest_loops import clamp
from mavcg.kernels.builder.run_numbers import Number, fixed_number, load_numbers, multiple, times
from mavcg.kernels.builder.tiles import row_tiles
from mavcg.kernels.gemm.loop_shape import vector_lanes
from mavcg.kernels.gemm.micro_kernel import emit_tile
from mavcg.kernels.gemm.register_tile import choose
from mavcg.kernels.gemm.tile import F32_BYTES, Pointers, RegisterTile, WeightLayout, merge_levels, reach
from mavcg.specs.kernel import Machine, View, Words, arithmetic_of
from mavcg.specs.row_kernel import RowKernel
from mavcg.specs.serialize import spec_format
from mavcg.specs.sums_of_products import Pair, Window

Value: TypeAlias = ir.Value


@spec_format("conv_transpose2d")
@dataclass(frozen=True)
class ConvTranspose2d(RowKernel):
    """act(bias + transposed convolution) of images of floats.

    x, out: N, H, W, C, of f32 or f16, as the weights are; the bias is f32. kernel, stride, dilation: (height, width).
    pads: (top, left); bottom and right follow from the size of out. packed: weights are in the order of
    tile.packed_phases, else [O, KH, KW, C/groups] as in the graph. counts_rows: True if an operand has the height of x
    in a run, at most that of the view. words: lengths of the images and strides of these and of rows that a run sets,
    of packed weights. Operands: x, weights, out, bias?, count?, words. A row of work is a row of output pixels.
    """

    x: View
    out: View
    kernel: Pair
    stride: Pair
    dilation: Pair
    pads: Pair
    groups: int
    lanes: int
    bias: bool
    packed: bool
    act: str
    act_args: tuple[float, ...]
    counts_rows: bool = False
    words: Words = ()

    @property
    def family(self) -> str:
        family = f"conv_transpose2d_{self.x.dtype}"
        return family if self.packed else f"{family}_unpacked"

    @property
    def window(self) -> Window:
        return replace(super().window, groups=self.groups)

    @property
    def summed_channels(self) -> int:
        return self.x.shape[3] // self.groups

    @property
    def macs(self) -> int:
        return self.work // 2

    @property
    def arithmetic(self) -> str:
        return arithmetic_of(self.x.dtype)

    @property
    def panel_channels(self) -> int:
        return self.lanes if self.packed else 0

    @property
    def taps(self) -> Pair:
        """(rows, columns) of taps of one phase, including absent ones: pixels of the image that a window spans."""
        down, across = (reach(self.kernel[i], self.stride[i], self.dilation[i]) for i in (0, 1))
        return down, across

    @property
    def first_column(self) -> int:
        """Image column that the scratch begins with; 0 or less unless large pads crop the image."""
        return self.pads[1] // self.stride[1] - self.taps[1] + 1

    @property
    def columns(self) -> int:
        """Number of columns of the scratch."""
        return (self.out.shape[2] - 1 + self.pads[1]) // self.stride[1] + 1 - self.first_column

    @property
    def scratch_bytes(self) -> int:
        return self.taps[0] * self.columns * self.x.shape[3] * self.item_bytes if self.packed else 0

    @property
    def work(self) -> int:
        taps = self.taps if self.packed else self.kernel
        return 2 * self.out.elements * taps[0] * taps[1] * self.summed_channels


class RowsOfPixels(ABC):
    """Base of the emitters of a transposed convolution: the function's operands and sizes."""

    def __init__(self, b: ir.IRBuilder, spec: ConvTranspose2d, machine: Machine) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        self.item, self.lanes = spec.item_bytes, vector_lanes(machine, spec.x.dtype)
        x, self.w, out = operands(b, "x", "weights", "out")
        self.bias = operand(b, 3, "bias") if spec.bias else None
        self.numbers = numbers = load_numbers(b, spec.words, 3 + spec.bias + spec.counts_rows)
        self.x, self.out = numbers.at_place(0, x), numbers.at_place(2, out)
        self.width = numbers.at("x.shape.2", spec.x.shape[2])
        self.out_width = numbers.at("out.shape.2", spec.out.shape[2])
        height = index_value(numbers.at("x.shape.1", spec.x.shape[1]))
        self.height = row_count(b, 3 + spec.bias) if spec.counts_rows else height
        self.scratch = b.function.args[3]
        self.in_ch, self.out_ch = spec.x.shape[3] // spec.groups, spec.out.shape[3] // spec.groups

    @abstractmethod
    def row(self, x: Value, y: Value, out: Value) -> None:
        """Emit one row of output. x: pointer to the image. y: number of the row plus the top pad. out: its first
        pixel."""


class Phases(RowsOfPixels):
    """Emitter of a transposed convolution with packed weights."""

    def row(self, x: Value, y: Value, out: Value) -> None:
        b, spec = self.b, self.spec
        down, across = spec.taps
        q = b.sdiv(y, const(spec.stride[0]), name="q")
        phase_y = b.srem(y, const(spec.stride[0]), name="phase_y")

        def fill(tap: Value) -> None:
            self.fill(x, b.add(b.sub(q, const(down - 1)), tap), tap)

        repeat(b, 0, down, fill, "tap")
        panels = -(-self.out_ch // spec.lanes)
        group_bytes = panels * spec.lanes * down * across * self.in_ch * self.item

        def phase(phase_x: Value) -> None:
            number = b.add(b.mul(phase_y, const(spec.stride[1])), phase_x)
            weights = address(b, self.w, b.mul(number, const(spec.groups * group_bytes)))
            # The first output pixel of the phase, and the scratch column that its window begins at.
            first = b.srem(b.add(b.sub(phase_x, const(spec.pads[1])), const(self.padded_start)), const(spec.stride[1]))
            window = b.sdiv(b.add(first, const(spec.pads[1])), const(spec.stride[1]))
            column = b.sub(window, const(spec.pads[1] // spec.stride[1]))
            end = b.add(first, index_value(multiple(b, self.least_pixels, spec.stride[1])))
            more = b.icmp_signed("<", end, index_value(self.out_width))
            start = address(b, self.scratch, b.mul(column, const(spec.x.shape[3] * self.item)))
            pointer = address(b, out, scale_index(b, first, spec.out.strides[2] * self.item))

            def group(index: Value) -> None:
                in_first = b.mul(index, const(self.in_ch * self.item))
                out_first = b.mul(index, const(self.out_ch * self.item))
                bias_first = out_first if self.item == F32_BYTES else b.mul(index, const(self.out_ch * F32_BYTES))
                bias = address(b, self.bias, bias_first) if self.bias is not None else None
                w = address(b, weights, b.mul(index, const(group_bytes)))
                self.channels(Pointers(address(b, start, in_first), w, address(b, pointer, out_first), bias), more)

            repeat(b, 0, spec.groups, group, "group")

        repeat(b, 0, spec.stride[1], phase, "phase_x")

    @property
    def padded_start(self) -> int:
        """The left pad rounded up to a multiple of the stride."""
        return -(-self.spec.pads[1] // self.spec.stride[1]) * self.spec.stride[1]

    @property
    def least_pixels(self) -> Number:
        """Minimum output pixels of a row per phase; some phases have one more."""
        width, stride = fixed_number(self.out_width), self.spec.stride[1]
        return self.b.udiv(self.out_width, const(stride), name="least_pixels") if width is None else width // stride

    def image_columns(self) -> tuple[Number, Number]:
        """Return the columns of the scratch before which the image ends, and before which a row's windows do."""
        b, spec = self.b, self.spec
        if fixed_number(self.width) is not None or fixed_number(self.out_width) is not None:
            return min(max(spec.x.shape[2] - spec.first_column, 0), spec.columns), spec.columns
        windows = b.sdiv(b.add(self.out_width, const(spec.pads[1] - 1)), const(spec.stride[1]))
        columns = b.add(windows, const(1 - spec.first_column), name="columns")
        return clamp(b, b.sub(self.width, const(spec.first_column)), const(0), columns), columns

    def fill(self, x: Value, row: Value, tap: Value) -> None:
        """Emit the copy of an image row into the scratch row of a tap, with zeros outside of the image."""
        b, spec = self.b, self.spec
        channels = spec.x.shape[3]
        target = address(b, self.scratch, b.mul(tap, const(spec.columns * channels * self.item)))
        begin = min(max(-spec.first_column, 0), spec.columns)
        image_end, columns = self.image_columns()
        end, all_elements = (multiple(b, count, channels) for count in (image_end, columns))
        inside = b.and_(b.icmp_signed(">=", row, const(0)), b.icmp_signed("<", row, self.height))
        with b.if_else(inside) as (there, absent):
            with there:
                self.zero(target, 0, begin * channels)
                row_step = self.numbers.at("x.strides.1", spec.x.strides[1])
                source = address(b, x, times(b, row, row_step, self.item))
                pitch = spec.x.strides[2] if spec.x.shape[2] > 1 else channels

                def column(index: Value) -> None:
                    pixel = b.add(index, const(spec.first_column))
                    column_start = address(b, source, scale_index(b, pixel, pitch * self.item))
                    self.run(address(b, target, scale_index(b, index, channels * self.item)), 0, channels, column_start)

                if pitch == channels:
                    self.run(target, begin * channels, end, source, spec.first_column * channels)
                else:
                    repeat(b, begin, index_value(image_end), column, "column")
                self.zero(target, end, all_elements)
            with absent:
                self.zero(target, 0, all_elements)

    def zero(self, target: Value, begin: Number, end: Number) -> None:
        """Emit stores of zeros to the elements begin to end."""
        self.run(target, begin, end, None)

    def run(self, target: Value, begin: Number, end: Number, source: Value | None, moved: int = 0) -> None:
        """Emit stores to the target's elements begin to end: of source[i + moved], or of zeros if source is None."""
        b, lanes = self.b, self.lanes
        typ = ir.VectorType(TYPES[self.spec.x.dtype], lanes)

        def store(index: Value, used: int) -> None:
            offset = scale_index(b, index, self.item)
            value: Value = ir.Constant(typ, [0.0] * lanes)
            if source is not None:
                pointer = address(b, source, scale_index(b, b.add(index, const(moved)), self.item))
                value = load_vector(b, pointer, typ, used, "copied")
            store_vector(b, value, address(b, target, offset), used)

        first, last = fixed_number(begin), fixed_number(end)
        if first is None or last is None:
            start, stop = index_value(begin), index_value(end)
            middle = b.sub(stop, b.urem(b.sub(stop, start), const(lanes)), name="whole")
            repeat(b, start, middle, lambda index: store(index, lanes), "element", lanes)
            repeat(b, middle, stop, lambda index: store(index, 1), "element")
            return
        whole = first + (last - first) // lanes * lanes
        if whole > first:
            repeat(b, first, whole, lambda index: store(index, lanes), "element", lanes)
        if last > whole:
            store(const(whole), last - whole)

    def channels(self, at: Pointers, extra_pixel: Value) -> None:
        """Emit all output channels of a group for one phase's pixels. extra_pixel: i1, true if the row has one more."""
        b, spec = self.b, self.spec
        lanes, dtype = self.lanes, spec.x.dtype
        vectors, panel = -(-self.out_ch // lanes), max(1, spec.lanes // lanes)
        down, across = spec.taps
        pixel = spec.x.shape[3] * self.item
        total = merge_levels([(down, spec.columns * pixel), (across, pixel), (self.in_ch, self.item)], self.item)
        pixels_of_row = max(1, spec.out.shape[2] // spec.stride[1])
        tiling = choose(self.machine, pixels_of_row, vectors, total.length, panel, dtype=dtype)
        step = tiling.vectors * lanes
        weights = WeightLayout(
            spec.lanes * self.item, self.item, total.length * spec.lanes * self.item, spec.lanes, True, dtype=dtype
        )
        pitch = spec.out.strides[2] * spec.stride[1] * self.item

        def chunk(first: Value, count: int) -> None:
            offset = scale_index(b, first, self.item)
            bias_offset = offset if self.item == F32_BYTES else scale_index(b, first, F32_BYTES)
            bias = address(b, at.bias, bias_offset) if at.bias is not None else None
            w = address(b, at.weights, scale_index(b, first, total.length * self.item))
            number = -(-count // lanes)

            def tile(start: Value, pixels: int) -> None:
                pointers = Pointers(
                    address(b, at.inputs, scale_index(b, start, pixel)),
                    w,
                    address(b, at.out, b.add(scale_index(b, start, pitch), offset)),
                    bias,
                )
                steps = (tuple(p * pixel for p in range(pixels)), tuple(p * pitch for p in range(pixels)))
                shape = RegisterTile(*steps, (0,) * pixels, number, count - (number - 1) * lanes)
                emit_tile(
                    b, self.machine, total, weights, shape, pointers, activation(b, spec.act, spec.act_args, dtype)
                )

            pixels_of_phase = self.least_pixels
            least = fixed_number(pixels_of_phase)
            if least is None:
                row_tiles(b, const(0), pixels_of_phase, tiling.widths.mr, tile)
                with b.if_then(extra_pixel):
                    tile(pixels_of_phase, 1)
                return
            done = 0
            for mr, tiles in tiling.widths.tiles if least else ():
                repeat(b, done, done + mr * tiles, lambda start, mr=mr: tile(start, mr), "pixel", mr)  # type: ignore[misc]
                done += mr * tiles
            if spec.out.shape[2] % spec.stride[1]:
                with b.if_then(extra_pixel):
                    tile(const(least), 1)

        whole = self.out_ch // step * step
        if whole:
            repeat(b, 0, whole, lambda first: chunk(first, step), "channel", step)
        if self.out_ch > whole:
            chunk(const(whole), self.out_ch - whole)
