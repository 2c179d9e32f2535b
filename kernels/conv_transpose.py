"""Transposed convolution by phases: output pixels whose distance is the stride see the same taps of the filter.

With a stride of 2 the even pixels of a row are a plain convolution of the image with every second tap of the filter,
the odd ones with the others. So each output row is computed from a few rows of the image, copied beside each other
into scratch with zeros around them, phase by phase with the micro-kernel of conv2d.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernel import KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.kernels.activation import activate
from mavcg.kernels.emit import (
    F32,
    address,
    const,
    f32_splat,
    fma,
    for_range,
    kernel_function,
    load_vector,
    operand,
    repeat,
    scaled,
    store_vector,
)
from mavcg.kernels.gemm import F32_BYTES, Pointers, Tile, Weights, emit_tile, merged
from mavcg.kernels.packing import pack, phases, reach
from mavcg.kernels.tiling import choose, lanes_f32

Array = NDArray[Any]
Value: TypeAlias = ir.Value
Pair = tuple[int, int]


@dataclass(frozen=True)
class ConvTranspose2d(KernelSpec):
    """act(bias + transposed convolution) of f32 images; the sizes of what is computed follow from `out`.

    x, out: N, H, W, C. kernel, stride, dilation, pads (top, left): height, width. packed: weights are as phases() and
    pack() make them, else O, KH, KW, C/groups as in the graph. Operands: x, weights, out, then bias if there is one.
    A row of work is a row of output pixels.
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

    @property
    def family(self) -> str:
        return "conv_transpose2d_f32" if self.packed else "conv_transpose2d_f32_unpacked"

    @property
    def taps(self) -> Pair:
        """Of one phase, absent ones counted: the reach of the filter in pixels of the image."""
        down, across = (reach(self.kernel[i], self.stride[i], self.dilation[i]) for i in (0, 1))
        return down, across

    @property
    def first_column(self) -> int:
        """The image's column that the scratch begins with, 0 or less but where pads crop much."""
        return self.pads[1] // self.stride[1] - self.taps[1] + 1

    @property
    def columns(self) -> int:
        """Columns of the scratch."""
        return (self.out.shape[2] - 1 + self.pads[1]) // self.stride[1] + 1 - self.first_column

    @property
    def rows(self) -> int:
        return self.out.shape[0] * self.out.shape[1] if self.out.elements else 0

    @property
    def scratch_bytes(self) -> int:
        return self.taps[0] * self.columns * self.x.shape[3] * F32_BYTES if self.packed else 0

    @property
    def work(self) -> int:
        return 2 * self.out.elements * self.taps[0] * self.taps[1] * (self.x.shape[3] // self.groups)


def lower_conv_transpose2d(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """The kernel of a conv_transpose2d node, pads and output_pads included: these only say which pixels there are."""
    x, out, name = views[node.inputs[0]], views[node.output], node.inputs[1]
    if x.dtype != "f32":
        raise MavcgError(f"node '{node.origin}' (conv_transpose2d): of {x.dtype}; there is a kernel for f32 only")
    weights, shape = graph.constants.get(name), graph.shape(name)
    stride, dilation, pads, groups = (node.attr(n) for n in ("stride", "dilation", "pads", "groups"))
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    kernel = shape[1], shape[2]
    spec = ConvTranspose2d(
        x, out, kernel, tuple(stride), tuple(dilation), tuple(pads[:2]), groups, packing.lanes, bool(bias),
        weights is not None, node.attr("act"), tuple(node.attr("act_args")),
    )  # fmt: skip
    packed = Operand(name)
    if weights is not None:
        apart = phases(weights, spec.stride, spec.dilation)
        packed = Operand(constant=np.stack([pack(w, groups, packing.lanes) for row in apart for w in row]))
    operands = [Operand(node.inputs[0]), packed, Operand(node.output, written=True)]
    return (Step(spec, (*operands, *([Operand(bias)] if bias else [])), node.origin),)


def emit_conv_transpose2d(module: ir.Module, spec: ConvTranspose2d, machine: Machine) -> ir.Function:
    """The function of a spec for a machine."""
    function, b = kernel_function(module, spec, machine)
    emitter = _Phases(b, spec, machine) if spec.packed else _Direct(b, spec, machine)
    height = const(spec.out.shape[1])

    def row(index: Value) -> None:
        image, y = b.sdiv(index, height, name="image"), b.srem(index, height, name="y")
        offset = b.add(scaled(b, image, spec.out.strides[0]), scaled(b, y, spec.out.strides[1]))
        x = address(b, emitter.x, scaled(b, image, spec.x.strides[0] * F32_BYTES))
        out = address(b, emitter.out, b.mul(offset, const(F32_BYTES)))
        emitter.row(x, b.add(y, const(spec.pads[0])), out)

    repeat(b, function.args[1], function.args[2], row, "row")
    b.ret_void()
    return function


class _Emitter(ABC):
    """What both ways have: the operands and the sizes."""

    def __init__(self, b: ir.IRBuilder, spec: ConvTranspose2d, machine: Machine) -> None:
        self.b, self.spec, self.machine = b, spec, machine
        self.x, self.w, self.out = (operand(b, i, name) for i, name in enumerate(("x", "weights", "out")))
        self.bias = operand(b, 3, "bias") if spec.bias else None
        self.scratch = b.function.args[3]
        self.in_ch, self.out_ch = spec.x.shape[3] // spec.groups, spec.out.shape[3] // spec.groups

    @abstractmethod
    def row(self, x: Value, y: Value, out: Value) -> None:
        """One row of output; x: the image, y: the row's number with the top pad, out: its first pixel."""


class _Phases(_Emitter):
    """With packed weights."""

    def row(self, x: Value, y: Value, out: Value) -> None:
        b, spec = self.b, self.spec
        down, across = spec.taps
        q = b.sdiv(y, const(spec.stride[0]), name="q")
        phase_y = b.srem(y, const(spec.stride[0]), name="phase_y")

        def fill(tap: Value) -> None:
            self.fill(x, b.add(b.sub(q, const(down - 1)), tap), tap)

        repeat(b, 0, down, fill, "tap")
        panels = -(-self.out_ch // spec.lanes)
        group_bytes = panels * spec.lanes * down * across * self.in_ch * F32_BYTES

        def phase(phase_x: Value) -> None:
            number = b.add(b.mul(phase_y, const(spec.stride[1])), phase_x)
            weights = address(b, self.w, b.mul(number, const(spec.groups * group_bytes)))
            # The first output pixel of the phase, and the scratch column its window begins at.
            first = b.srem(b.add(b.sub(phase_x, const(spec.pads[1])), const(self.enough)), const(spec.stride[1]))
            window = b.sdiv(b.add(first, const(spec.pads[1])), const(spec.stride[1]))
            column = b.sub(window, const(spec.pads[1] // spec.stride[1]))
            more = b.icmp_signed("<", b.add(first, const(self.fewest * spec.stride[1])), const(spec.out.shape[2]))
            start = address(b, self.scratch, b.mul(column, const(spec.x.shape[3] * F32_BYTES)))
            place = address(b, out, scaled(b, first, spec.out.strides[2] * F32_BYTES))

            def group(index: Value) -> None:
                in_first = b.mul(index, const(self.in_ch * F32_BYTES))
                out_first = b.mul(index, const(self.out_ch * F32_BYTES))
                bias = address(b, self.bias, out_first) if self.bias is not None else None
                w = address(b, weights, b.mul(index, const(group_bytes)))
                self.channels(Pointers(address(b, start, in_first), w, address(b, place, out_first), bias), more)

            repeat(b, 0, spec.groups, group, "group")

        repeat(b, 0, spec.stride[1], phase, "phase_x")

    @property
    def enough(self) -> int:
        """A multiple of the stride that is not less than the left pad."""
        return -(-self.spec.pads[1] // self.spec.stride[1]) * self.spec.stride[1]

    @property
    def fewest(self) -> int:
        """Pixels of a row that every phase has; some have one more."""
        return self.spec.out.shape[2] // self.spec.stride[1]

    def fill(self, x: Value, row: Value, tap: Value) -> None:
        """Copy a row of the image into the scratch, zeros where the image has nothing."""
        b, spec = self.b, self.spec
        _, height, width, channels = spec.x.shape
        target = address(b, self.scratch, b.mul(tap, const(spec.columns * channels * F32_BYTES)))
        begin, end = (min(max(c - spec.first_column, 0), spec.columns) for c in (0, width))
        inside = b.and_(b.icmp_signed(">=", row, const(0)), b.icmp_signed("<", row, const(height)))
        with b.if_else(inside) as (there, absent):
            with there:
                self.zero(target, 0, begin * channels)
                source = address(b, x, scaled(b, row, spec.x.strides[1] * F32_BYTES))
                pitch = spec.x.strides[2] if width > 1 else channels

                def column(index: Value) -> None:
                    pixel = b.add(index, const(spec.first_column))
                    here = address(b, source, scaled(b, pixel, pitch * F32_BYTES))
                    self.run(address(b, target, scaled(b, index, channels * F32_BYTES)), 0, channels, here)

                if pitch == channels:
                    self.run(target, begin * channels, end * channels, source, spec.first_column * channels)
                else:
                    repeat(b, begin, end, column, "column")
                self.zero(target, end * channels, spec.columns * channels)
            with absent:
                self.zero(target, 0, spec.columns * channels)

    def zero(self, target: Value, begin: int, end: int) -> None:
        """Elements begin to end become 0."""
        self.run(target, begin, end, None)

    def run(self, target: Value, begin: int, end: int, source: Value | None, moved: int = 0) -> None:
        """Elements begin to end become those of source, `moved` further on, or 0."""
        b, lanes = self.b, lanes_f32(self.machine)
        typ = ir.VectorType(F32, lanes)

        def some(index: Value, used: int) -> None:
            offset = scaled(b, index, F32_BYTES)
            value = f32_splat(0.0, lanes)
            if source is not None:
                place = address(b, source, scaled(b, b.add(index, const(moved)), F32_BYTES))
                value = load_vector(b, place, typ, used, "copied")
            store_vector(b, value, address(b, target, offset), used)

        whole = begin + (end - begin) // lanes * lanes
        if whole > begin:
            repeat(b, begin, whole, lambda index: some(index, lanes), "element", lanes)
        if end > whole:
            some(const(whole), end - whole)

    def channels(self, at: Pointers, more: Value) -> None:
        """All channels of a group of one phase's pixels; more: whether there is one pixel beyond the fewest."""
        b, spec = self.b, self.spec
        lanes = lanes_f32(self.machine)
        vectors, panel = -(-self.out_ch // lanes), max(1, spec.lanes // lanes)
        down, across = spec.taps
        pixel = spec.x.shape[3] * F32_BYTES
        total = merged([(down, spec.columns * pixel), (across, pixel), (self.in_ch, F32_BYTES)])
        tiling = choose(self.machine, max(1, self.fewest), vectors, total.length, panel)
        step = tiling.vectors * lanes
        weights = Weights(spec.lanes * F32_BYTES, F32_BYTES, total.length * spec.lanes * F32_BYTES, spec.lanes, True)
        pitch = spec.out.strides[2] * spec.stride[1] * F32_BYTES

        def some(first: Value, count: int) -> None:
            offset = scaled(b, first, F32_BYTES)
            bias = address(b, at.bias, offset) if at.bias is not None else None
            w = address(b, at.weights, scaled(b, first, total.length * F32_BYTES))
            number = -(-count // lanes)

            def tile(start: Value, pixels: int) -> None:
                here = Pointers(
                    address(b, at.inputs, scaled(b, start, pixel)), w,
                    address(b, at.out, b.add(scaled(b, start, pitch), offset)), bias,
                )  # fmt: skip
                steps = (tuple(p * pixel for p in range(pixels)), tuple(p * pitch for p in range(pixels)))
                shape = Tile(*steps, (0,) * pixels, number, count - (number - 1) * lanes)
                emit_tile(b, self.machine, total, weights, shape, here, spec.act, spec.act_args)

            done = 0
            for mr, tiles in tiling.widths.tiles if self.fewest else ():
                repeat(b, done, done + mr * tiles, lambda start, mr=mr: tile(start, mr), "pixel", mr)  # type: ignore[misc]
                done += mr * tiles
            if spec.out.shape[2] % spec.stride[1]:
                with b.if_then(more):
                    tile(const(self.fewest), 1)

        whole = self.out_ch // step * step
        if whole:
            repeat(b, 0, whole, lambda first: some(first, step), "channel", step)
        if self.out_ch > whole:
            some(const(whole), self.out_ch - whole)


class _Direct(_Emitter):
    """With weights that are known at run time only: one output after the other, as the definition says."""

    def row(self, x: Value, y: Value, out: Value) -> None:
        b, spec = self.b, self.spec
        width = spec.out.shape[2]

        def pixel(index: Value) -> None:
            place = address(b, out, scaled(b, index, spec.out.strides[2] * F32_BYTES))
            column = b.add(index, const(spec.pads[1]))

            def channel(out_channel: Value) -> None:
                offset = scaled(b, out_channel, F32_BYTES)
                start = b.load(address(b, self.bias, offset), align=4, typ=F32) if self.bias else f32_splat(0.0, 1)
                value = activate(b, spec.act, spec.act_args, self.total(x, y, column, out_channel, start))
                b.store(value, address(b, place, offset), align=4)

            repeat(b, 0, spec.out.shape[3], channel, "channel")

        repeat(b, 0, width, pixel, "pixel")

    def total(self, x: Value, y: Value, column: Value, channel: Value, start: Value) -> Value:
        """start + the sum over taps down, taps across, channels."""
        b, spec = self.b, self.spec
        taps = spec.kernel[0] * spec.kernel[1]
        w = address(b, self.w, scaled(b, channel, taps * self.in_ch * F32_BYTES))
        group = b.sdiv(channel, const(self.out_ch))
        image = address(b, x, scaled(b, group, self.in_ch * F32_BYTES))

        def products(at: Value, weights: Value, acc: Value) -> Value:
            def turn(k: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
                one, other = (b.load(address(b, p, scaled(b, k, 4)), align=4, typ=F32) for p in (at, weights))
                return (fma(b, one, other, carried[0]),)

            return for_range(b, const(0), const(self.in_ch), 1, (acc,), turn, "k")[0]

        def across(at: Value, row_weights: Value, acc: Value) -> Value:
            def turn(k: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
                weights = address(b, row_weights, scaled(b, k, self.in_ch * F32_BYTES))
                return (self.where_seen(1, column, k, at, weights, carried[0], products),)

            return for_range(b, const(0), const(spec.kernel[1]), 1, (acc,), turn, "kx")[0]

        def down(k: Value, carried: tuple[Value, ...]) -> tuple[Value, ...]:
            weights = address(b, w, scaled(b, k, spec.kernel[1] * self.in_ch * F32_BYTES))
            return (self.where_seen(0, y, k, image, weights, carried[0], across),)

        return for_range(b, const(0), const(spec.kernel[0]), 1, (start,), down, "ky")[0]

    def where_seen(self, axis: int, at: Value, k: Value, image: Value, weights: Value, acc: Value, more: Any) -> Value:
        """more(the image moved to the pixel that tap k sees, weights, acc), or acc where it sees none."""
        b, spec = self.b, self.spec
        distance = b.sub(at, scaled(b, k, spec.dilation[axis]))
        index, rest = b.sdiv(distance, const(spec.stride[axis])), b.srem(distance, const(spec.stride[axis]))
        inside = b.and_(
            b.icmp_signed(">=", distance, const(0)), b.icmp_signed("<", index, const(spec.x.shape[1 + axis]))
        )
        before = b.block
        with b.if_then(b.and_(inside, b.icmp_signed("==", rest, const(0)))):
            moved = address(b, image, scaled(b, index, spec.x.strides[1 + axis] * F32_BYTES))
            found = more(moved, weights, acc)
            after = b.block
        result = b.phi(F32, name="seen")
        result.add_incoming(acc, before)
        result.add_incoming(found, after)
        return result


LOWER = {"conv_transpose2d": lower_conv_transpose2d}
EMIT = {ConvTranspose2d: emit_conv_transpose2d}
