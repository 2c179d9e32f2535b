"""Kernel of average pooling of 8-bit numbers: exact sums in 32 bits, requantized by one f32 product."""

from collections.abc import Mapping
from dataclasses import dataclass

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
    finish_rows,
    for_range,
    index_value,
    kernel_function,
    repeat,
    scale_index,
)
from mavcg.kernels.builder.lanes import load_lanes, store_lanes
from mavcg.kernels.builder.nest_loops import Line, along_line, decode, maximum, minimum
from mavcg.kernels.builder.quantize import widen
from mavcg.kernels.builder.run_numbers import Number, RunNumbers, load_numbers, times
from mavcg.kernels.int8.means import Requantize, emit_quantized_mean, requantize_of, zero_sums
from mavcg.kernels.tensor.pool import PooledRows, pooled_lengths, pooled_window, window_start
from mavcg.specs.kernel import Machine, Operand, Packing, Step, View, Words
from mavcg.specs.serialize import spec_format


@spec_format("q_avg_pool2d")
@dataclass(frozen=True)
class QAvgPoolSpec(PooledRows):
    """A mean over windows of x. words: as in Pool."""

    to: Requantize
    x: View
    out: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: tuple[int, int, int, int]
    count_pads: tuple[int, int, int, int]
    counts_rows: bool = False
    words: Words = ()

    @property
    def family(self) -> str:
        return f"qavg_pool_{self.to.dtype}"


def _lower_pool(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    x, out = views[node.inputs[0]], views[node.output]
    if out.elements == 0:
        return ()
    spec = QAvgPoolSpec(requantize_of(node, x), x, out, **pooled_window(node))
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


def _taps(
    b: ir.IRBuilder, spec: QAvgPoolSpec, axis: int, at: ir.Value, before: int, end: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Return (first, end) of a window's taps from `before` elements before the image on to the element `end`.

    at: position of the window's first tap along the axis.
    """
    dilation = spec.dilation[axis]
    # The quotient is rounded up; for a negative dividend the division's rounding towards 0 rounds up already.
    first = b.sdiv(b.sub(const(dilation - 1 - before), at), const(dilation))
    last = b.sdiv(b.sub(b.add(end, const(dilation - 1)), at), const(dilation))
    return maximum(b, first, const(0)), minimum(b, maximum(b, last, const(0)), const(spec.kernel[axis]))


def emit_pool(module: ir.Module, spec: QAvgPoolSpec, machine: Machine) -> ir.Function:
    """Emit the loops over rows, pixels, vectors of channels, and taps inside of the image."""
    _, b = kernel_function(module, spec, machine)
    lanes = machine.vector_bytes // 4 if spec.x.strides[3] == spec.out.strides[3] == 1 else 1
    numbers = load_numbers(b, spec.words, 2 + spec.counts_rows)
    x, out = numbers.operand(0, "x"), numbers.operand(1, "out")
    emitter = _EightBitPoolEmitter(b, spec, x, out, pooled_lengths(b, spec, numbers), lanes, numbers)
    return finish_rows(b, emitter.row)


@dataclass(frozen=True)
class _MeanWindow:
    """A window along one axis: its first element, the taps first .. end - 1 inside the image, and how many count."""

    start: ir.Value
    first: ir.Value
    end: ir.Value
    counted: ir.Value


@dataclass(frozen=True)
class _EightBitPoolEmitter:
    """Emits the rows of a mean over windows.

    x, out: pointers. lengths: height and width of x. lanes: channels of a vector. numbers: of the run.
    """

    b: ir.IRBuilder
    spec: QAvgPoolSpec
    x: ir.Value
    out: ir.Value
    lengths: tuple[ir.Value, ir.Value]
    lanes: int
    numbers: RunNumbers

    def row(self, index: ir.Value) -> None:
        """Emit a row of output pixels."""
        b, spec = self.b, self.spec
        image, y = decode(b, index, self.numbers.along("out.shape", spec.out.shape)[:2])
        x_strides, out_strides = self.strides("x"), self.strides("out")
        rows = self._window(0, y)
        x_image = address(b, self.x, times(b, image, x_strides[0]))
        out_offset = b.add(times(b, image, out_strides[0]), times(b, y, out_strides[1]))
        out_row = address(b, self.out, out_offset)

        def pixel(column: ir.Value) -> None:
            columns = self._window(1, column)
            self._pixel(rows, columns, x_image, address(b, out_row, scale_index(b, column, spec.out.strides[2])))

        repeat(b, 0, index_value(self.numbers.at("out.shape.2", spec.out.shape[2])), pixel, "pixel")

    def strides(self, image: str) -> tuple[Number, ...]:
        """Return the strides of x or out, in bytes."""
        view: View = getattr(self.spec, image)
        return self.numbers.along(f"{image}.strides", view.strides)

    def _window(self, axis: int, index: ir.Value) -> _MeanWindow:
        """Return the window of an output index along an axis: 0 for rows, 1 for columns."""
        b, spec = self.b, self.spec
        start = window_start(b, spec, self.numbers, axis, index)
        length = self.lengths[axis]
        first, end = _taps(b, spec, axis, start, 0, length)
        counted_end = b.add(length, const(spec.count_pads[axis + 2]))
        low, high = _taps(b, spec, axis, start, spec.count_pads[axis], counted_end)
        return _MeanWindow(start, first, end, b.sub(high, low))

    def _pixel(self, rows: _MeanWindow, columns: _MeanWindow, x_image: ir.Value, out_pixel: ir.Value) -> None:
        """Emit all channels of an output pixel."""
        b, spec, lanes = self.b, self.spec, self.lanes
        inside = b.trunc(b.mul(b.sub(rows.end, rows.first), b.sub(columns.end, columns.first)), I32)
        count = b.sitofp(b.mul(rows.counted, columns.counted), F64)
        factor = b.fptrunc(b.fdiv(ir.Constant(F64, spec.to.multiplier), count), F32)

        def emit_vectors(channel: ir.Value, vectors: int, used: int) -> None:
            def tap_row(ky: ir.Value, acc: Values) -> Values:
                y = b.add(rows.start, scale_index(b, ky, spec.dilation[0]))
                line = address(b, x_image, times(b, y, self.strides("x")[1]))

                def tap(kx: ir.Value, acc: Values) -> Values:
                    x = b.add(columns.start, scale_index(b, kx, spec.dilation[1]))
                    pointer = address(b, line, scale_index(b, x, spec.x.strides[2]))
                    pointer = address(b, pointer, scale_index(b, channel, spec.x.strides[3]))
                    return _add_vectors(b, pointer, spec.to.dtype, lanes, used, acc)

                return for_range(b, columns.first, columns.end, 1, acc, tap, "kx")

            totals = for_range(b, rows.first, rows.end, 1, (zero_sums(lanes),) * vectors, tap_row, "ky")
            pointer = address(b, out_pixel, scale_index(b, channel, spec.out.strides[3]))
            for i, total in enumerate(totals):
                result = emit_quantized_mean(b, spec.to, total, inside, factor, lanes)
                store_lanes(b, result, address(b, pointer, i * lanes), lanes, used)

        channels = spec.x.shape[3]
        along_line(b, Line(const(0), channels, channels), lanes, 4 if lanes > 1 else 1, emit_vectors)


def _add_vectors(b: ir.IRBuilder, pointer: ir.Value, dtype: str, lanes: int, used: int, acc: Values) -> Values:
    """Return the accumulators, i32 vectors, with successive vectors of 8-bit numbers added. used: lanes that count."""
    loaded = [load_lanes(b, address(b, pointer, i * lanes), I8, lanes, used) for i in range(len(acc))]
    return tuple(b.add(a, widen(b, value, dtype)) for a, value in zip(acc, loaded, strict=True))


LOWER = {"qavg_pool2d": _lower_pool}
EMIT = {QAvgPoolSpec: emit_pool}
