"""Prologue and epilogue of rows of outputs whose sums are accumulated in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.emit import (
    F32,
    address,
    const,
    f32_splat,
    load_vector,
    repeat,
    scale_index,
    splat,
    store_vector,
    vector,
)
from mavcg.kernels.gemm.register_tile import lanes_f32
from mavcg.kernels.primitives.common import Image, finish
from mavcg.kernels.primitives.matrix_product import fill_last_block
from mavcg.kernels.primitives.runs import along
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES, Epilogue, Layout

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
