"""Rows of outputs whose sums are accumulated in memory: their ends, and the kernel that shifts and adds.

The kernel sums the partial results of a convolution's taps, each shifted to its outputs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.activation import finish
from mavcg.kernels.builder.emit import (
    F32,
    address,
    const,
    finish_rows,
    kernel_function,
    operand,
    repeat,
    scale_index,
    vector,
)
from mavcg.kernels.builder.lanes import f32_splat, load_vector, splat, store_vector
from mavcg.kernels.builder.nest_loops import minimum
from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.kernels.primitives.common import Image, epilogue_operands, fill_last_block
from mavcg.kernels.primitives.runs import along
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.kernel_symbol import shape_text
from mavcg.specs.primitive import F32_BYTES, Epilogue, Layout, Scenario
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import OperandBytes, WorkCounts, vector_work

Value: TypeAlias = ir.Value
Line = Callable[[Value, Value, int], None]  # (offset in the image in bytes, first channel, elements)


@dataclass(frozen=True)
class ChannelSpan:
    """A span of `count` channels of an image from `first`, the first channel of a block."""

    first: Value
    count: int


@dataclass(frozen=True)
class OutputRows:
    """Emitter of the prologue and epilogue of rows of an image; bias and residual are None if absent."""

    b: ir.IRBuilder
    machine: Machine
    image: Image
    epilogue: Epilogue
    out: Value
    bias: Value | None
    residual: Value | None

    def begin(self, row: Value, channels: ChannelSpan) -> None:
        """Emit stores of the bias, or of zeros, to a row."""
        b, planar = self.b, self.image.layout.planar

        def line(offset: Value, channel: Value, length: int) -> None:
            bias = address(b, self.bias, scale_index(b, channel, F32_BYTES)) if self.bias is not None else None
            scalar = load_vector(b, bias, F32, name="bias") if bias is not None and planar else None

            def piece(index: Value, lanes: int) -> None:
                value: Value = f32_splat(0.0, lanes)
                if scalar is not None:
                    value = splat(b, scalar, lanes)
                elif bias is not None:
                    value = load_vector(b, self.at(bias, index), vector(F32, lanes), name="bias")
                store_vector(b, value, self.at(address(b, self.out, offset), index))

            along(b, length, lanes_f32(self.machine), piece)

        self.lines(row, channels, line)

    def finish(self, row: Value, channels: ChannelSpan) -> None:
        """Emit residual, activation, and the zeros that pad a last block of channels, for a row."""
        b = self.b

        def line(offset: Value, _: Value, length: int) -> None:
            def piece(index: Value, lanes: int) -> None:
                to = self.at(address(b, self.out, offset), index)
                residual = None
                if self.residual is not None:
                    from_ = self.at(address(b, self.residual, offset), index)
                    residual = load_vector(b, from_, vector(F32, lanes), name="residual")
                value = load_vector(b, to, vector(F32, lanes), name="sum")
                store_vector(b, finish(b, self.epilogue, value, residual), to)

            along(b, length, lanes_f32(self.machine), piece)

        if self.epilogue.residual or self.epilogue.act != "none":
            self.lines(row, channels, line)
        if self.image.layout is Layout.CHWC:
            offset = b.add(self.image.channel_bytes(b, channels.first), self.row_bytes(row))
            fill_last_block(b, address(b, self.out, offset), self.image, channels.count, self.image.width)

    def row_bytes(self, row: Value) -> Value:
        """Emit the offset of a row in the image, in bytes."""
        return scale_index(self.b, row, self.image.row_step * F32_BYTES)

    def at(self, base: Value, index: Value) -> Value:
        """Emit the address of an element of a line."""
        return address(self.b, base, scale_index(self.b, index, F32_BYTES))

    def lines(self, row: Value, channels: ChannelSpan, body: Line) -> None:
        """Emit body for each contiguous run of these channels in a row: a channel's pixels or a pixel's channels."""
        b, image = self.b, self.image
        start = b.add(image.channel_bytes(b, channels.first), self.row_bytes(row))

        def run(number: Value, pixel: Value, count: int) -> None:
            offset = b.add(start, scale_index(b, number, image.block_step * F32_BYTES))
            channel = b.add(channels.first, scale_index(b, number, image.block))
            body(b.add(offset, scale_index(b, pixel, image.column_step * F32_BYTES)), channel, count)

        if image.layout.planar:
            step = image.channel_step * F32_BYTES

            def channel(index: Value) -> None:
                body(b.add(start, scale_index(b, index, step)), b.add(channels.first, index), image.width)

            repeat(b, 0, channels.count, channel, "channel")
            return
        size = image.block if image.layout is Layout.CHWC else channels.count
        whole, rest = divmod(channels.count, size)
        repeat(b, 0, whole, lambda n: repeat(b, 0, image.width, lambda pixel: run(n, pixel, size), "pixel"), "block")
        if rest:
            repeat(b, 0, image.width, lambda pixel: run(const(whole), pixel, rest), "pixel")


@spec_format("kn2_shifted_sum")
@dataclass(frozen=True)
class ShiftedSum(KernelSpec):
    """act(bias + sum over taps of partial + residual); operands: partial, out, bias?, residual?.

    partial: an image of x's size in out's layout, with taps x M channels, tap by tap. Stride 1. A row of work is a row
    of output.
    """

    scenario: Scenario
    partial: Image
    out: Image
    epilogue: Epilogue

    @property
    def family(self) -> str:
        return "kn2_shifted_sum_f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(
            self.partial.layout_text, self.out.layout_text, self.out.sizes_text, self.scenario.window_text
        )

    @property
    def rows(self) -> int:
        return self.out.height

    @property
    def work(self) -> int:
        return self.out.elements * self.scenario.taps

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        sums = self.partial.operand_bytes.size
        added = vector_work(("shifted", self.partial.values))
        return WorkCounts(vectors=added, read=OperandBytes(sums, 2 * sums), written=self.out.operand_bytes)


def emit_shifted_sum(module: ir.Module, spec: ShiftedSum, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    _, b = kernel_function(module, spec, machine)
    source, out = operand(b, 0, "partial"), operand(b, 1, "out")
    outputs = OutputRows(b, machine, spec.out, spec.epilogue, out, *epilogue_operands(b, spec.epilogue, 2))
    s, along_row, partial, lanes = spec.scenario, spec.scenario.along, spec.partial, lanes_f32(machine)
    channels = ChannelSpan(const(0), spec.out.channels)

    def row(y: Value) -> None:
        outputs.begin(y, channels)
        repeat(b, 0, s.k, lambda ky: taps(y, ky), "ky")
        outputs.finish(y, channels)

    def taps(y: Value, ky: Value) -> None:
        seen = b.add(y, b.sub(scale_index(b, ky, s.dilation), const(s.pad)))
        with b.if_then(b.icmp_unsigned("<", seen, const(s.h))):
            line = address(b, source, scale_index(b, seen, partial.row_step * F32_BYTES))
            first = scale_index(b, ky, along_row.k)
            repeat(b, 0, along_row.k, lambda kx: tap(y, line, b.add(first, kx), kx), "kx")

    def tap(y: Value, line: Value, number: Value, kx: Value) -> None:
        shift = b.sub(scale_index(b, kx, along_row.dilation), const(along_row.pad))
        zero, width = const(0), const(spec.out.width)
        low = b.select(b.icmp_signed("<", shift, zero), b.sub(zero, shift), zero)
        high = b.sub(const(s.w), shift)
        high = minimum(b, high, width)
        first = b.add(low, shift)
        from_ = address(b, line, partial.channel_bytes(b, scale_index(b, number, s.m)))
        from_ = address(b, from_, scale_index(b, first, partial.column_step * F32_BYTES))
        to = b.add(outputs.row_bytes(y), scale_index(b, low, spec.out.column_step * F32_BYTES))
        to = address(b, out, to)
        count = b.sub(high, low)
        count = b.select(b.icmp_signed("<", count, zero), zero, count)  # 0 if the tap reads only the border
        if spec.out.layout is Layout.HWC:

            def pixel(index: Value) -> None:
                target = address(b, to, scale_index(b, index, spec.out.column_step * F32_BYTES))
                addend = address(b, from_, scale_index(b, index, partial.column_step * F32_BYTES))
                along(b, s.m, lanes, lambda i, n: _add(b, target, addend, i, n))

            repeat(b, 0, count, pixel, "pixel")
            return

        def channel(index: Value) -> None:
            target = address(b, to, scale_index(b, index, spec.out.channel_step * F32_BYTES))
            addend = address(b, from_, scale_index(b, index, partial.channel_step * F32_BYTES))
            whole = b.and_(count, const(-lanes), name="whole")
            repeat(b, 0, whole, lambda i: _add(b, target, addend, i, lanes), "vector", lanes)
            repeat(b, whole, count, lambda i: _add(b, target, addend, i, 1), "element")

        repeat(b, 0, s.m, channel, "channel")

    return finish_rows(b, row)


def _add(b: ir.IRBuilder, to: Value, from_: Value, index: Value, count: int) -> None:
    """Emit to[index ..] += from_[index ..] for `count` f32 numbers."""
    typ = ir.VectorType(F32, count) if count > 1 else F32
    offset = scale_index(b, index, F32_BYTES)
    pointer = address(b, to, offset)
    value = load_vector(b, address(b, from_, offset), typ, name="partial")
    store_vector(b, b.fadd(load_vector(b, pointer, typ, name="sum"), value), pointer)
