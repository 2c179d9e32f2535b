"""Transposed convolutions of floats, computed by phases: output pixels a stride apart use the same taps of the filter.

With a stride of 2, the even pixels of a row are a plain convolution of the image with every second tap, the odd pixels
one with the other taps. Each output row is computed from a few image rows, which are copied into scratch with a border
of zeros, phase by phase with the micro-kernel of conv2d.

Weights that are not packed, such as those computed at run time, have an emitter of their own.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.builder.activation import output
from mavcg.kernels.builder.arithmetic import widen_half
from mavcg.kernels.builder.emit import (
    F32,
    TYPES,
    address,
    const,
    finish_rows,
    fma,
    for_range,
    index_value,
    kernel_function,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.lanes import f32_splat
from mavcg.kernels.builder.product_loop import single_products
from mavcg.kernels.builder.run_numbers import times
from mavcg.kernels.conv.conv2d import PRODUCT_TYPES, check_bias
from mavcg.kernels.conv.transpose_phases import ConvTranspose2d, Phases, RowsOfPixels
from mavcg.kernels.gemm.tile import F32_BYTES, packed_phases, reach
from mavcg.specs.kernel import Array, Machine, Operand, Packing, Step, View

Value: TypeAlias = ir.Value


class Plain(RowsOfPixels):
    """Emitter of a transposed convolution by its definition, one output after the other; its sums are f32."""

    def row(self, x: Value, y: Value, out: Value) -> None:
        b, spec = self.b, self.spec
        width = spec.out.shape[2]

        def pixel(index: Value) -> None:
            pointer = address(b, out, scale_index(b, index, spec.out.strides[2] * self.item))
            column = b.add(index, const(spec.pads[1]))

            def channel(out_channel: Value) -> None:
                bias_offset = scale_index(b, out_channel, F32_BYTES)
                start = b.load(address(b, self.bias, bias_offset), align=4, typ=F32) if self.bias else f32_splat(0.0, 1)
                total = self.total(x, y, column, out_channel, start)
                value = output(b, spec.act, spec.act_args, spec.out.dtype, total)
                offset = bias_offset if self.item == F32_BYTES else scale_index(b, out_channel, self.item)
                b.store(value, address(b, pointer, offset), align=self.item)

            repeat(b, 0, spec.out.shape[3], channel, "channel")

        repeat(b, 0, width, pixel, "pixel")

    def total(self, x: Value, y: Value, column: Value, channel: Value, start: Value) -> Value:
        """Emit a output's sum over rows of taps, taps and input channels, added to start."""
        b, spec = self.b, self.spec
        taps = spec.kernel[0] * spec.kernel[1]
        w = address(b, self.w, scale_index(b, channel, taps * self.in_ch * self.item))
        group = b.sdiv(channel, const(self.out_ch))
        image = address(b, x, scale_index(b, group, self.in_ch * self.item))

        def products(at: Value, weights: Value, acc: Value) -> Value:
            def load(pointer: Value, k: Value) -> Value:
                place = address(b, pointer, scale_index(b, k, self.item))
                return widen_half(b, b.load(place, align=self.item, typ=TYPES[spec.x.dtype]))

            of_channel = single_products(
                b, partial(load, at), partial(load, weights), lambda total, a, w_k: fma(b, a, w_k, total)
            )
            return of_channel.loop(const(0), const(self.in_ch), 1, lambda k, _: [k], (acc,))[0]

        def across(at: Value, row_weights: Value, acc: Value) -> Value:
            def iteration(k: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
                weights = address(b, row_weights, scale_index(b, k, self.in_ch * self.item))
                return (self.where_tap_reads(1, column, k, at, weights, carried[0], products),)

            return for_range(b, const(0), const(spec.kernel[1]), 1, (acc,), iteration, "kx")[0]

        def down(k: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
            weights = address(b, w, scale_index(b, k, spec.kernel[1] * self.in_ch * self.item))
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
        length = const(spec.x.shape[2]) if axis else self.height
        inside = b.and_(b.icmp_signed(">=", distance, const(0)), b.icmp_signed("<", index, length))
        before = b.block
        with b.if_then(b.and_(inside, b.icmp_signed("==", rest, const(0)))):
            moved = address(b, image, scale_index(b, index, spec.x.strides[1 + axis] * self.item))
            total = visit(moved, weights, acc)
            after = b.block
        result = b.phi(F32, name="seen")
        result.add_incoming(acc, before)
        result.add_incoming(total, after)
        return result


# Weights are not packed by phases if that multiplies the taps by more than MOST_ABSENT, because of zeros for absent
# taps, and takes more than LARGE_BYTES.
MOST_ABSENT = 16
LARGE_BYTES = 1 << 20


def lower_conv_transpose2d(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a conv_transpose2d node. Pads and output_pads only select the output pixels.

    Raises: MavcgError for a type other than PRODUCT_TYPES; as check_bias.
    """
    x, out, name = views[node.inputs[0]], views[node.output], node.inputs[1]
    if x.dtype not in PRODUCT_TYPES:
        known = ", ".join(PRODUCT_TYPES)
        raise MavcgError(f"node '{node.origin}' (conv_transpose2d): its type is {x.dtype}; supported: {known}")
    check_bias(node, views)
    weights, shape = graph.constants.get(name), graph.shape(name)
    stride, dilation, pads, groups = (node.attr(n) for n in ("stride", "dilation", "pads", "groups"))
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    kernel = shape[1], shape[2]
    if weights is not None and _mostly_absent(weights, stride, dilation):
        weights = None  # read unpacked: packed by phases, most taps would be zeros
    spec = ConvTranspose2d(
        x,
        out,
        kernel,
        tuple(stride),
        tuple(dilation),
        tuple(pads[:2]),
        groups,
        packing.lanes,
        bool(bias),
        weights is not None,
        node.attr("act"),
        tuple(node.attr("act_args")),
    )
    packed = Operand(name)
    if weights is not None:
        packed = Operand(
            constant=packed_phases(name, shape, spec.stride, spec.dilation, groups, packing.lanes, x.dtype)
        )
    operands = [Operand(node.inputs[0]), packed, Operand(node.output, written=True)]
    return (Step(spec, (*operands, *([Operand(bias)] if bias else [])), node.origin),)


def _mostly_absent(weights: Array, stride: Sequence[int], dilation: Sequence[int]) -> bool:
    """Return True if packing by phases would add too many zeros for absent taps. weights: [O, KH, KW, I]."""
    shape = weights.shape
    taps = prod(stride[i] * reach(shape[1 + i], stride[i], dilation[i]) for i in (0, 1))
    return bool(
        taps > MOST_ABSENT * shape[1] * shape[2] and taps * shape[0] * shape[3] * weights.itemsize > LARGE_BYTES
    )


def emit_conv_transpose2d(module: ir.Module, spec: ConvTranspose2d, machine: Machine) -> ir.Function:
    """Emit the function of a spec for a machine."""
    _, b = kernel_function(module, spec, machine)
    emitter = Phases(b, spec, machine) if spec.packed else Plain(b, spec, machine)
    numbers = emitter.numbers
    height = index_value(numbers.at("out.shape.1", spec.out.shape[1]))
    out_steps, x_step = numbers.along("out.strides", spec.out.strides), numbers.at("x.strides.0", spec.x.strides[0])

    def row(index: Value) -> None:
        image, y = b.sdiv(index, height, name="image"), b.srem(index, height, name="y")
        offset = b.add(times(b, image, out_steps[0]), times(b, y, out_steps[1]))
        x = address(b, emitter.x, times(b, image, x_step, spec.item_bytes))
        out = address(b, emitter.out, b.mul(offset, const(spec.item_bytes)))
        emitter.row(x, b.add(y, const(spec.pads[0])), out)

    return finish_rows(b, row)


LOWER = {"conv_transpose2d": lower_conv_transpose2d}
EMIT = {ConvTranspose2d: emit_conv_transpose2d}
HALF = {"conv_transpose2d": (2,)}
