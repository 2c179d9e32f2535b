"""Kernels of max and average pooling: vectors along the channels, windows clamped at the image's edges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import DTYPES, Graph, Node
from mavcg.hardware.machine import LINE_BYTES
from mavcg.kernels.builder.arithmetic import is_float, round_to, widen_half
from mavcg.kernels.builder.emit import (
    HALVES,
    TYPES,
    Values,
    address,
    const,
    finish_rows,
    for_range,
    index_value,
    intrinsic,
    kernel_function,
    repeat,
    row_count,
    scale_index,
    vector,
)
from mavcg.kernels.builder.lanes import load_vector, splat, store_vector
from mavcg.kernels.builder.nest_loops import maximum, minimum
from mavcg.kernels.builder.product_loop import prefetch
from mavcg.kernels.builder.run_numbers import Number, RunNumbers, load_numbers, times
from mavcg.kernels.builder.tiles import repeat_tiles, whole_and_rest
from mavcg.specs.kernel import Machine, Operand, Packing, Step, View, Words
from mavcg.specs.row_kernel import RowKernel
from mavcg.specs.serialize import spec_format

Value: TypeAlias = ir.Value
_FLOATS = ("f32", *sorted(HALVES))
TOGETHER = 4  # vectors of channels that are pooled at a time, to hide the latency of an addition
# Least bytes between a window and the one whose inputs it prefetches; most, so that they stay in level 1 until then.
AHEAD_BYTES, MOST_AHEAD_BYTES = 512, 8192


class PooledRows(RowKernel):
    """Base of the specs of poolings.

    pads: (top, left, bottom, right); count_pads: the part of pads that counts in an average's divisor. counts_rows:
    True if an operand has the height of x in a run, at most that of the view. A row of work is a row of output pixels.
    Operands: x, out, rows?.
    """

    pads: tuple[int, int, int, int]
    count_pads: tuple[int, int, int, int]
    counts_rows: bool

    @property
    def work(self) -> int:
        return self.read_elements


def pooled_window(node: Node) -> dict[str, Any]:
    """Return kernel, stride, dilation, pads and count_pads of a pooling's spec."""
    window = {name: tuple(node.attr(name)) for name in ("kernel", "stride", "dilation", "pads")}
    return {**window, "count_pads": tuple(node.attr("count_pads")) if node.op != "max_pool2d" else (0, 0, 0, 0)}


def pooled_lengths(b: ir.IRBuilder, spec: PooledRows, numbers: RunNumbers) -> tuple[Value, Value]:
    """Return (height, width) of x in a run."""
    height, width = (index_value(length) for length in numbers.along("x.shape", spec.x.shape)[1:3])
    return row_count(b, 2) if spec.counts_rows else height, width


def window_start(b: ir.IRBuilder, spec: PooledRows, numbers: RunNumbers, axis: int, index: Value) -> Value:
    """Return the position of a window's first tap along an axis: 0 for rows, 1 for columns. index: of the output."""
    return b.sub(scale_index(b, index, spec.stride[axis]), index_value(numbers.at(f"pads.{axis}", spec.pads[axis])))


@spec_format("pool2d")
@dataclass(frozen=True)
class Pool(PooledRows):
    """A pooling; kind: "max" (f32, f16, i8, u8) or "avg" (f32, f16; its sums are f32).

    words: lengths and strides of the images' height and width, and pads above and left, that a run sets. Operands: x,
    out, rows?, words.
    """

    kind: str
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
        return f"{self.kind}_pool_{self.x.dtype}"

    @property
    def total_dtype(self) -> str:
        """Type of a window's sum or maximum until it is stored."""
        return "f32" if self.kind == "avg" or self.x.dtype == "bf16" else self.x.dtype


def lower_pool(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a max_pool2d or avg_pool2d node. Raises: MavcgError for a type without a kernel."""
    x, out = views[node.inputs[0]], views[node.output]
    kind = node.op.partition("_")[0]
    if x.dtype not in (*_FLOATS, *(("i8", "u8") if kind == "max" else ())):
        raise MavcgError(
            f"node '{node.origin}' ({node.op}): its type is {x.dtype}; "
            f"supported: {', '.join(_FLOATS)} (max: i8, u8 too)"
        )
    spec = Pool(kind, x, out, **pooled_window(node))
    return (Step(spec, (Operand(node.inputs[0]), Operand(node.output, written=True)), node.origin),)


@dataclass(frozen=True)
class _PoolWindow:
    """A window along one axis: taps low .. high - 1 are inside of the image; counted: taps in an average's divisor."""

    low: Value
    high: Value
    counted: Value


def emit_pool(module: ir.Module, spec: Pool, machine: Machine) -> ir.Function:
    """Emit the loops over rows, pixels, groups of vectors of channels, and taps."""
    _, b = kernel_function(module, spec, machine)
    lanes = machine.vector_bytes // spec.x.item_bytes
    numbers = load_numbers(b, spec.words, 2 + spec.counts_rows)
    lengths = pooled_lengths(b, spec, numbers)
    x, out = numbers.operand(0, "x"), numbers.operand(1, "out")
    ahead = () if spec.words else prefetched_offsets(spec, machine)
    emitter = _PoolEmitter(b, spec, x, out, lengths, lanes, ahead, numbers)
    return finish_rows(b, emitter.row)


def prefetched_offsets(spec: Pool, machine: Machine) -> tuple[int, ...]:
    """Return the offsets of what a window prefetches for a later one, in bytes from its own first input: the columns
    that the windows between them do not read.

    Only on AArch64, where it was simulated: no load of the loop over taps has a constant stride, as hardware
    prefetchers need. Of SqueezeNet's first pooling a Cortex-A55 then takes 0.31 of the cycles, a Cortex-A76 0.23.
    """
    step = spec.stride[1] * spec.x.strides[2] * spec.x.item_bytes
    windows = max(1, AHEAD_BYTES // step) if step else 0
    if machine.arch != "aarch64" or windows * step > MOST_AHEAD_BYTES or windows >= spec.out.shape[2]:
        return ()
    reach = (spec.kernel[1] - 1) * spec.dilation[1] + 1
    last = reach + windows * spec.stride[1]
    rows = (ky * spec.dilation[0] * spec.x.strides[1] for ky in range(spec.kernel[0]))
    columns = range(last - min(reach, spec.stride[1]), last)
    return tuple((row + kx * spec.x.strides[2]) * spec.x.item_bytes for row in rows for kx in columns)


@dataclass(frozen=True)
class _PoolEmitter:
    """Emits the rows of a pooling.

    x, out: pointers. lengths: height and width of x. lanes: elements per vector. ahead: prefetched_offsets. numbers: of
    the run.
    """

    b: ir.IRBuilder
    spec: Pool
    x: Value
    out: Value
    lengths: tuple[Value, Value]
    lanes: int
    ahead: tuple[int, ...]
    numbers: RunNumbers

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.spec.x.item_bytes

    def row(self, index: Value) -> None:
        """Emit a row of output pixels."""
        b, spec, size = self.b, self.spec, self.size
        height = index_value(self.numbers.at("out.shape.1", spec.out.shape[1]))
        image, y = b.sdiv(index, height), b.srem(index, height)
        x_strides, out_strides = self.strides("x"), self.strides("out")
        rows = self._window(0, y)
        top = window_start(b, spec, self.numbers, 0, y)
        x_offset = b.add(times(b, image, x_strides[0]), times(b, top, x_strides[1]))
        x_row = address(b, self.x, b.mul(x_offset, const(size)))
        out_offset = b.add(times(b, image, out_strides[0]), times(b, y, out_strides[1]))
        out_row = address(b, self.out, b.mul(out_offset, const(size)))

        def pixel(column: Value) -> None:
            columns = self._window(1, column)
            left = window_start(b, spec, self.numbers, 1, column)
            x_pixel = address(b, x_row, scale_index(b, left, spec.x.strides[2] * size))
            out_pixel = address(b, out_row, scale_index(b, column, spec.out.strides[2] * size))
            self._pixel(rows, columns, x_pixel, out_pixel)

        repeat(b, 0, index_value(self.numbers.at("out.shape.2", spec.out.shape[2])), pixel, "pixel")

    def strides(self, image: str) -> tuple[Number, ...]:
        """Return the strides of x or out, in elements."""
        view: View = getattr(self.spec, image)
        return self.numbers.along(f"{image}.strides", view.strides)

    def _window(self, axis: int, index: Value) -> _PoolWindow:
        """Return the window of an output index along an axis: 0 for rows, 1 for columns."""
        b, spec = self.b, self.spec
        length, taps, dilation = self.lengths[axis], spec.kernel[axis], spec.dilation[axis]
        start = window_start(b, spec, self.numbers, axis, index)

        def taps_inside(low: int, high: Value) -> tuple[Value, Value]:
            """Return the range of taps t with low <= start + t * dilation < high."""
            least = b.sdiv(b.add(b.sub(const(low), start), const(dilation - 1)), const(dilation))
            most = b.sdiv(b.add(b.sub(high, start), const(dilation - 1)), const(dilation))
            return maximum(b, least, const(0)), maximum(b, minimum(b, most, const(taps)), const(0))

        low, high = taps_inside(0, length)
        counted_end = b.add(length, const(spec.count_pads[axis + 2]))
        counted_low, counted_high = taps_inside(-spec.count_pads[axis], counted_end)
        return _PoolWindow(low, high, b.sub(counted_high, counted_low))

    def _pixel(self, rows: _PoolWindow, columns: _PoolWindow, x_pixel: Value, out_pixel: Value) -> None:
        """Emit all channels of an output pixel. x_pixel: address of the window's first tap, inside of x or not."""
        b, spec, size, lanes = self.b, self.spec, self.size, self.lanes
        typ = TYPES[spec.total_dtype]
        divisor = None
        if spec.kind == "avg":
            divisor = splat(b, b.sitofp(b.mul(rows.counted, columns.counted), typ), lanes)

        def group(channel: Value, count: int, used: int) -> None:
            def tap_row(ky: Value, acc: Values) -> Values:
                def tap(kx: Value, acc: Values) -> Values:
                    return self._tap(x_pixel, ky, kx, channel, used, acc)

                return for_range(b, columns.low, columns.high, 1, acc, tap, "kx")

            if count * lanes * size == LINE_BYTES:
                first = address(b, x_pixel, b.mul(channel, const(size)))
                for offset in self.ahead:
                    prefetch(b, first, offset)
            start = _start(b, spec, vector(typ, lanes))
            results = for_range(b, rows.low, rows.high, 1, (start,) * count, tap_row, "ky")
            pointer = address(b, out_pixel, b.mul(channel, const(size)))
            for v, value in enumerate(results):
                value = b.fdiv(value, divisor) if divisor is not None else value
                store_vector(b, round_to(b, value, spec.out.dtype), address(b, pointer, v * lanes * size), used)

        _along_channels(b, spec.x.shape[3], lanes, group)

    def _tap(self, x_pixel: Value, ky: Value, kx: Value, channel: Value, used: int, acc: Values) -> Values:
        """Return the accumulators, a vector of channels each, with the inputs of one tap. used: lanes that count."""
        b, spec, size = self.b, self.spec, self.size
        of_vector = vector(TYPES[spec.x.dtype], self.lanes)
        offset = b.add(
            times(b, ky, self.strides("x")[1], spec.dilation[0]),
            b.add(scale_index(b, kx, spec.dilation[1] * spec.x.strides[2]), channel),
        )
        pointer = address(b, x_pixel, b.mul(offset, const(size)))
        loaded = [
            load_vector(b, address(b, pointer, v * self.lanes * size), of_vector, used, "x") for v in range(len(acc))
        ]
        combine = _combine(b, spec)
        if spec.total_dtype == "f32":
            loaded = [widen_half(b, value) for value in loaded]
        return tuple(combine(a, value) for a, value in zip(acc, loaded, strict=True))


def _along_channels(b: ir.IRBuilder, channels: int, lanes: int, group: Callable[[Value, int, int], None]) -> None:
    """Emit group(first channel, vectors, used lanes of each) over all channels."""
    several, rest = whole_and_rest(channels, TOGETHER * lanes)
    tiles = (several, *whole_and_rest(rest[0], lanes))
    repeat_tiles(b, tiles, lambda channel, size: group(channel, -(-size // lanes), min(size, lanes)), "channel")


def _start(b: ir.IRBuilder, spec: Pool, typ: ir.Type) -> Value:
    """Return the initial value of a window's result: 0 for an average, the smallest value for a maximum."""
    if spec.kind == "avg":
        return ir.Constant(typ, [0.0] * typ.count)
    low = -inf if is_float(spec.x.dtype) else int(np.iinfo(DTYPES[spec.x.dtype]).min)
    return ir.Constant(typ, [low] * typ.count)


def _combine(b: ir.IRBuilder, spec: Pool) -> Callable[[Value, Value], Value]:
    if spec.kind == "avg":
        return lambda acc, value: b.fadd(acc, value)
    if is_float(spec.x.dtype):
        return lambda acc, value: _larger(b, acc, value)
    compare = b.icmp_signed if spec.x.dtype == "i8" else b.icmp_unsigned
    return lambda acc, value: b.select(compare(">", value, acc), value, acc)


def _larger(b: ir.IRBuilder, acc: Value, value: Value) -> Value:
    """Return max(acc, value); NaN where either is NaN. Of equal values `value`; of zeros of both signs +0 on Arm."""
    if b.module.triple.startswith("aarch64"):
        return intrinsic(b, "maximum", [acc, value])
    # x86's maximum returns the second operand where either is NaN: a NaN in acc would be lost.
    larger = b.select(b.fcmp_ordered(">", acc, value), acc, value)
    return b.select(b.fcmp_unordered("uno", acc, acc), acc, larger)


LOWER = {"max_pool2d": lower_pool, "avg_pool2d": lower_pool}
EMIT = {Pool: emit_pool}
HALF = dict.fromkeys(LOWER, ())
