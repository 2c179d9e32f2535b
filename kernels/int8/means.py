"""Kernels of means of 8-bit numbers: exact sums in 32 bits, requantized by one f32 product."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from llvmlite import ir

from mavcg.graph import Graph, Node
from mavcg.kernels.builder.emit import (
    F32,
    F64,
    I8,
    I32,
    Values,
    address,
    const,
    for_range,
    kernel_function,
    operand,
    repeat,
    scale_index,
    splat,
    vector,
)
from mavcg.kernels.builder.nest import (
    Line,
    Nest,
    along_line,
    collapse,
    decode,
    load_lanes,
    maximum,
    minimum,
    nest_rows,
    store_lanes,
)
from mavcg.kernels.builder.quantize import requantize_value, widen
from mavcg.kernels.tensor.reduce import walk
from mavcg.specs.kernel import KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.specs.kernel_symbol import shape_text, sizes_text, window_text
from mavcg.specs.serialize import spec_format


@spec_format("requantize")
@dataclass(frozen=True)
class Requantize:
    """The requantization of an exact sum: clamp(round(sum * multiplier / count) + out_zero, lo, hi).

    dtype, zero: type and zero point of the summed numbers.
    """

    dtype: str
    zero: int
    multiplier: float
    out_zero: int
    lo: int
    hi: int


def _requantize(node: Node, x: View) -> Requantize:
    names = ("x_zero", "multiplier", "out_zero", "lo", "hi")
    zero, multiplier, out_zero, lo, hi = (node.attr(name) for name in names)
    return Requantize(x.dtype, zero, float(np.float32(multiplier)), out_zero, lo, hi)


def _emit_mean(
    b: ir.IRBuilder, to: Requantize, total: ir.Value, inside: ir.Value, factor: ir.Value, lanes: int
) -> ir.Value:
    """Return the 8-bit mean. total: sums, i32 lanes. inside: number of terms, i32. factor: multiplier / count, f32."""
    shift = splat(b, b.mul(inside, const(to.zero, I32)), lanes) if to.zero else None
    exact = b.sub(total, shift) if shift is not None else total
    real = b.fmul(b.sitofp(exact, vector(F32, lanes)), splat(b, factor, lanes))
    return requantize_value(b, real, to.out_zero, to.lo, to.hi)


@spec_format("q_mean")
@dataclass(frozen=True)
class QMeanSpec(KernelSpec):
    """A mean over axes. kept: loops over the outputs, with strides of x and out. reduced: loops over the terms."""

    to: Requantize
    kept: Nest
    reduced: Nest

    @property
    def family(self) -> str:
        return f"qmean_{self.to.dtype}"

    @property
    def symbol_shape(self) -> str:
        return shape_text(sizes_text(*self.kept.shape), f"k{self.reduced.elements}")

    @property
    def rows(self) -> int:
        return self.kept.rows

    @property
    def work(self) -> int:
        return self.kept.elements * self.reduced.elements


def _lower_mean(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    x, out = views[node.inputs[0]], views[node.output]
    if out.elements == 0:
        return ()
    axes = node.attr("axes")
    kept = [i for i in range(len(x.shape)) if i not in axes]
    positions = kept if node.attr("keepdims") else range(len(kept))
    shape = [x.shape[i] for i in kept]
    spec = QMeanSpec(
        _requantize(node, x),
        collapse(shape, ([x.strides[i] for i in kept], [out.strides[i] for i in positions])),
        collapse([x.shape[i] for i in axes], ([x.strides[i] for i in axes],)),
    )
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


def emit_mean(module: ir.Module, spec: KernelSpec, machine: Machine) -> ir.Function:
    """Emit the loops: vectors along the outputs if these are contiguous, a sum per lane; else one output at a time."""
    assert isinstance(spec, QMeanSpec)
    function, b = kernel_function(module, spec, machine)
    x_step, out_step = (strides[-1] for strides in spec.kept.strides)
    lanes = machine.vector_bytes // 4
    count = spec.reduced.elements
    factor = ir.Constant(F32, float(np.float32(spec.to.multiplier / count)))

    def mean(addresses: list[ir.Value], vectors: int, wide: int, used: int) -> None:
        """Emit the means of `vectors` vectors of outputs. addresses: of the first input and output."""

        def term(at: ir.Value, acc: Values) -> Values:
            loaded = [load_lanes(b, address(b, at, i * wide), I8, wide, used, "x") for i in range(vectors)]
            return tuple(b.add(a, widen(b, value, spec.to.dtype)) for a, value in zip(acc, loaded, strict=True))

        zero = _zeros(wide)
        totals = walk(b, spec.reduced, 1, addresses[0], (zero,) * vectors, term)
        for i, total in enumerate(totals):
            result = _emit_mean(b, spec.to, total, const(count, I32), factor, wide)
            store_lanes(b, result, address(b, addresses[1], i * wide), wide, used)

    def line(addresses: list[ir.Value], run: Line) -> None:
        if x_step == out_step == 1:

            def emit_vectors(i: ir.Value, vectors: int, used: int) -> None:
                mean([address(b, pointer, i) for pointer in addresses], vectors, lanes, used)

            along_line(b, run, lanes, 4, emit_vectors)
            return

        def emit_element(i: ir.Value) -> None:
            steps = (x_step, out_step)
            mean([address(b, p, scale_index(b, i, step)) for p, step in zip(addresses, steps, strict=True)], 1, 1, 1)

        repeat(b, run.begin, run.end(b), emit_element, "output")

    nest_rows(b, spec.kept, (operand(b, 0, "x"), operand(b, 1, "out")), (1, 1), line)
    b.ret_void()
    return function


@spec_format("q_avg_pool2d")
@dataclass(frozen=True)
class QAvgPoolSpec(KernelSpec):
    """A mean over windows of x [N, H, W, C]. A row of work is a row of output pixels.

    kernel, stride, dilation: (height, width). pads: (top, left, bottom, right); count_pads: the part of pads that
    counts in the divisor.
    """

    to: Requantize
    x: View
    out: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int, int, int]
    count_pads: tuple[int, int, int, int]

    @property
    def family(self) -> str:
        return f"qavg_pool_{self.to.dtype}"

    @property
    def symbol_shape(self) -> str:
        return shape_text("nhwc", sizes_text(*self.out.shape), window_text(self.kernel, self.stride, self.dilation))

    @property
    def out_view(self) -> View:
        return self.out

    @property
    def rows(self) -> int:
        return self.out.shape[0] * self.out.shape[1]

    @property
    def work(self) -> int:
        return self.out.elements * prod(self.kernel)


def _lower_pool(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    x, out = views[node.inputs[0]], views[node.output]
    if out.elements == 0:
        return ()
    names = ("kernel", "stride", "dilation", "pads", "count_pads")
    spec = QAvgPoolSpec(_requantize(node, x), x, out, *(tuple(node.attr(name)) for name in names))
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


def _taps(
    b: ir.IRBuilder, spec: QAvgPoolSpec, axis: int, at: ir.Value, before: int, after: int
) -> tuple[ir.Value, ir.Value]:
    """Return (first, end) of a window's taps that are within `before` elements before and `after` behind the image.

    at: position of the window's first tap along the axis.
    """
    dilation, length = spec.dilation[axis], spec.x.shape[1 + axis]
    # The quotient is rounded up; for a negative dividend the division's rounding towards 0 rounds up already.
    first = b.sdiv(b.sub(const(dilation - 1 - before), at), const(dilation))
    last = b.sdiv(b.sub(const(dilation - 1 + length + after), at), const(dilation))
    return maximum(b, first, const(0)), minimum(b, maximum(b, last, const(0)), const(spec.kernel[axis]))


def emit_pool(module: ir.Module, spec: KernelSpec, machine: Machine) -> ir.Function:
    """Emit the loops over rows, pixels, vectors of channels, and taps inside of the image."""
    assert isinstance(spec, QAvgPoolSpec)
    function, b = kernel_function(module, spec, machine)
    x, out = operand(b, 0, "x"), operand(b, 1, "out")
    channels = spec.x.shape[3]
    lanes = machine.vector_bytes // 4 if spec.x.strides[3] == spec.out.strides[3] == 1 else 1

    def window(axis: int, index: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
        """Return (start of the window, first tap inside, end of the taps inside, number of taps that count)."""
        at = b.sub(scale_index(b, index, spec.stride[axis]), const(spec.pads[axis]))
        first, last = _taps(b, spec, axis, at, 0, 0)
        low, high = _taps(b, spec, axis, at, spec.count_pads[axis], spec.count_pads[axis + 2])
        return at, first, last, b.sub(high, low)

    def row(index: ir.Value) -> None:
        image, y = decode(b, index, spec.out.shape[:2])
        top, row_first, row_last, rows_counted = window(0, y)
        x_image = address(b, x, scale_index(b, image, spec.x.strides[0]))
        out_row = address(
            b, out, b.add(scale_index(b, image, spec.out.strides[0]), scale_index(b, y, spec.out.strides[1]))
        )

        def pixel(column: ir.Value) -> None:
            left, first, last, counted = window(1, column)
            to = address(b, out_row, scale_index(b, column, spec.out.strides[2]))
            inside = b.trunc(b.mul(b.sub(row_last, row_first), b.sub(last, first)), I32)
            count = b.sitofp(b.mul(rows_counted, counted), F64)
            factor = b.fptrunc(b.fdiv(ir.Constant(F64, spec.to.multiplier), count), F32)

            def emit_vectors(channel: ir.Value, vectors: int, used: int) -> None:
                def tap_row(ky: ir.Value, acc: Values) -> Values:
                    y_at = b.add(top, scale_index(b, ky, spec.dilation[0]))
                    line = address(b, x_image, scale_index(b, y_at, spec.x.strides[1]))

                    def tap(kx: ir.Value, acc: Values) -> Values:
                        x_at = b.add(left, scale_index(b, kx, spec.dilation[1]))
                        pointer = address(b, line, scale_index(b, x_at, spec.x.strides[2]))
                        pointer = address(b, pointer, scale_index(b, channel, spec.x.strides[3]))
                        loaded = [
                            load_lanes(b, address(b, pointer, i * lanes), I8, lanes, used) for i in range(vectors)
                        ]
                        return tuple(
                            b.add(a, widen(b, value, spec.to.dtype)) for a, value in zip(acc, loaded, strict=True)
                        )

                    return for_range(b, first, last, 1, acc, tap, "kx")

                zero = _zeros(lanes)
                totals = for_range(b, row_first, row_last, 1, (zero,) * vectors, tap_row, "ky")
                pointer = address(b, to, scale_index(b, channel, spec.out.strides[3]))
                for i, total in enumerate(totals):
                    result = _emit_mean(b, spec.to, total, inside, factor, lanes)
                    store_lanes(b, result, address(b, pointer, i * lanes), lanes, used)

            along_line(b, Line(const(0), channels, channels), lanes, 4 if lanes > 1 else 1, emit_vectors)

        repeat(b, 0, spec.out.shape[2], pixel, "pixel")

    repeat(b, function.args[1], function.args[2], row, "row")
    b.ret_void()
    return function


def _zeros(lanes: int) -> ir.Constant:
    """Return a vector of i32 zeros."""
    return ir.Constant(I32, 0) if lanes == 1 else ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)


LOWER = {"qmean": _lower_mean, "qavg_pool2d": _lower_pool}
EMIT = {QMeanSpec: emit_mean, QAvgPoolSpec: emit_pool}
