"""Emitter of transposed convolutions with unpacked weights, such as weights computed at run time."""

from functools import partial
from typing import Any, TypeAlias

from llvmlite import ir

from mavcg.kernels.builder.activation import activate
from mavcg.kernels.builder.emit import F32, address, const, f32_splat, fma, for_range, repeat, scale_index
from mavcg.kernels.builder.product_loop import single_products
from mavcg.kernels.conv.transpose_spec import RowsOfPixels
from mavcg.kernels.gemm.tile import F32_BYTES

Value: TypeAlias = ir.Value


class Plain(RowsOfPixels):
    """Emitter of a transposed convolution by its definition, a output after the w_k."""

    def row(self, x: Value, y: Value, out: Value) -> None:
        b, spec = self.b, self.spec
        width = spec.out.shape[2]

        def pixel(index: Value) -> None:
            pointer = address(b, out, scale_index(b, index, spec.out.strides[2] * F32_BYTES))
            column = b.add(index, const(spec.pads[1]))

            def channel(out_channel: Value) -> None:
                offset = scale_index(b, out_channel, F32_BYTES)
                start = b.load(address(b, self.bias, offset), align=4, typ=F32) if self.bias else f32_splat(0.0, 1)
                value = activate(b, spec.act, spec.act_args, self.total(x, y, column, out_channel, start))
                b.store(value, address(b, pointer, offset), align=4)

            repeat(b, 0, spec.out.shape[3], channel, "channel")

        repeat(b, 0, width, pixel, "pixel")

    def total(self, x: Value, y: Value, column: Value, channel: Value, start: Value) -> Value:
        """Emit a output's sum over rows of taps, taps and input channels, added to start."""
        b, spec = self.b, self.spec
        taps = spec.kernel[0] * spec.kernel[1]
        w = address(b, self.w, scale_index(b, channel, taps * self.in_ch * F32_BYTES))
        group = b.sdiv(channel, const(self.out_ch))
        image = address(b, x, scale_index(b, group, self.in_ch * F32_BYTES))

        def products(at: Value, weights: Value, acc: Value) -> Value:
            def load(pointer: Value, k: Value) -> Value:
                return b.load(address(b, pointer, scale_index(b, k, 4)), align=4, typ=F32)

            of_channel = single_products(
                b, partial(load, at), partial(load, weights), lambda total, a, w_k: fma(b, a, w_k, total)
            )
            return of_channel.loop(const(0), const(self.in_ch), 1, lambda k, _: [k], (acc,))[0]

        def across(at: Value, row_weights: Value, acc: Value) -> Value:
            def iteration(k: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
                weights = address(b, row_weights, scale_index(b, k, self.in_ch * F32_BYTES))
                return (self.where_tap_reads(1, column, k, at, weights, carried[0], products),)

            return for_range(b, const(0), const(spec.kernel[1]), 1, (acc,), iteration, "kx")[0]

        def down(k: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
            weights = address(b, w, scale_index(b, k, spec.kernel[1] * self.in_ch * F32_BYTES))
            return (self.where_tap_reads(0, y, k, image, weights, carried[0], across),)

        return for_range(b, const(0), const(spec.kernel[0]), 1, (start,), down, "ky")[0]

    def where_tap_reads(
        self, axis: int, at: Value, k: Value, image: Value, weights: Value, acc: Value, visit: Any
    ) -> Value:
        """Return visit(pointer to the pixel that tap k reads along the axis, weights, acc); acc where it reads no
        pixel."""
        b, spec = self.b, self.spec
        distance = b.sub(at, scale_index(b, k, spec.dilation[axis]))
        index, rest = b.sdiv(distance, const(spec.stride[axis])), b.srem(distance, const(spec.stride[axis]))
        inside = b.and_(
            b.icmp_signed(">=", distance, const(0)), b.icmp_signed("<", index, const(spec.x.shape[1 + axis]))
        )
        before = b.block
        with b.if_then(b.and_(inside, b.icmp_signed("==", rest, const(0)))):
            moved = address(b, image, scale_index(b, index, spec.x.strides[1 + axis] * F32_BYTES))
            total = visit(moved, weights, acc)
            after = b.block
        result = b.phi(F32, name="seen")
        result.add_incoming(acc, before)
        result.add_incoming(total, after)
        return result
