"""Convolution and products with a constant matrix over 8-bit numbers, as implicit GEMM on packed weights."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernel import KernelSpec, Machine, Operand, Packing, Step, View
from mavcg.kernels.block_loops import blocks, row_blocks
from mavcg.kernels.depthwise import MOST_TAPS
from mavcg.kernels.emit import I8, address, const, kernel_function, operand, repeat, scaled
from mavcg.kernels.pieces import in_pieces
from mavcg.kernels.qdepthwise import QDepthwise, emit_qdepthwise, in_vectors
from mavcg.kernels.qgemm import F32_BYTES, QPointers, QTile, Run, emit_qtile
from mavcg.kernels.qtiling import GROUP, Tiling, choose_tiling, form_of, widths_of
from mavcg.kernels.requantise import Ending, ending_of
from mavcg.tile_plan import MacroTile, Order

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = ir.Value

# Where there are fewer rows than this, threads share the output channels instead.
FEW_ROWS = 4
MANY_WEIGHTS = 1 << 18  # bytes: no longer kept in a level-2 cache between two rows
FLIP, FLIP_WORDS = -0x7F7F7F80, 16  # four bytes of 128, and how many times they fill the longest register
PIECE_PIXELS = 96  # the most of a piece of a long row: its inputs stay in a level-1 cache


@dataclass(frozen=True)
class QConv2d(KernelSpec):
    """Requantised convolution of 8-bit images: clamp(round(f32(sum + bias) * multiplier) + zero, lo, hi).

    x, out: N, H, W, C. kernel, stride, dilation: height, width. Operands: x, packed weights i8 [groups, panels, steps,
    lanes, 4], out, bias i32 [2 * groups * panels * lanes + 16], multiplier f32 [groups * panels * lanes]. The zero
    point of x is in the bias: first come those for inputs taken as i8, then those for u8, then bytes of 128 by which
    one becomes the other. narrow: no weight is -128. A row of work is a row of output pixels, or, where by_channels, a
    panel.
    """

    x: View
    out: View
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    lanes: int
    ending: Ending
    narrow: bool

    @property
    def family(self) -> str:
        return f"qconv2d_{self.x.dtype}"

    @property
    def in_channels(self) -> int:
        """Of a group."""
        return self.x.shape[3] // self.groups

    @property
    def out_channels(self) -> int:
        """Of a group."""
        return self.out.shape[3] // self.groups

    @property
    def panels(self) -> int:
        """Panels of output channels of a group."""
        return -(-self.out_channels // self.lanes)

    @property
    def run(self) -> Run:
        """How a sum runs: rows of taps, taps, channels; neighbours in memory are one level."""
        _, row, col, _ = self.x.strides
        steps = (self.dilation[0] * row, self.dilation[1] * col)
        return merged_run(list(zip(self.kernel, steps, strict=True)), self.in_channels)

    @property
    def panel_bytes(self) -> int:
        """Of the packed weights of one panel."""
        return self.run.steps * self.lanes * GROUP

    @property
    def pixel_rows(self) -> int:
        """Rows of output pixels of all images."""
        return self.out.shape[0] * self.out.shape[1]

    @property
    def by_channels(self) -> bool:
        """Whether work is cut along the output channels: where there is more of weights than of images."""
        enough = self.groups * self.panels >= FEW_ROWS
        weights = self.groups * self.panels * self.panel_bytes
        heavy = weights > max(MANY_WEIGHTS, self.x.elements + self.out.elements)
        return enough and (heavy or self.pixel_rows < FEW_ROWS)

    @property
    def rows(self) -> int:
        if 0 in self.out.shape:
            return 0
        return self.groups * self.panels if self.by_channels else self.pixel_rows

    @property
    def work(self) -> int:
        return self.out.elements * self.kernel[0] * self.kernel[1] * self.in_channels


def merged_run(levels: list[tuple[int, int]], length: int) -> Run:
    """Loops around neighbours, as few as can be: one that goes on where the one inside ends is one with it."""
    found: list[tuple[int, int]] = []
    for count, step in reversed(levels):
        if count == 1:
            continue
        if not found and step == length:
            length *= count
        elif found and step == found[0][0] * found[0][1]:
            found[0] = (count * found[0][0], found[0][1])
        else:
            found.insert(0, (count, step))
    return Run(tuple(found), length)


def qconv_step(
    node: Node, graph: Graph, x: View, out: View, weights: Array, packing: Packing, **window: Any
) -> tuple[Step, ...]:
    """The step of a node with inputs x, weights, bias, multiplier, with x and out given as images.

    weights: O, KH, KW, C/groups. window: stride, dilation, groups; none for a product.
    """
    bias, multiplier = constants_of(node, graph)
    groups, kernel = window.get("groups", 1), (int(weights.shape[1]), int(weights.shape[2]))
    stride, dilation = tuple(window.get("stride", (1, 1))), tuple(window.get("dilation", (1, 1)))
    spec = QConv2d(
        x, out, kernel, stride, dilation, groups, packing.lanes, ending_of(node), not bool((weights == -128).any())
    )
    if spec.kernel == spec.stride == (1, 1):
        x, out = in_pieces((spec.x, spec.out), PIECE_PIXELS)
        spec = replace(spec, x=x, out=out)
    corrected = folded_bias(bias, weights, x.dtype, node.attr("x_zero"))
    constants = (
        pack_weights(weights, groups, packing.lanes, spec.run),
        np.concatenate([in_panels(corrected, groups, packing.lanes).reshape(-1), np.full(FLIP_WORDS, FLIP, np.int32)]),
        in_panels(multiplier.astype(np.float32)[None], groups, packing.lanes),
    )
    packed, sums, factors = (Operand(constant=constant) for constant in constants)
    operands = (Operand(node.inputs[0]), packed, Operand(node.output, written=True), sums, factors)
    return (Step(spec, operands, node.origin),)


def folded_bias(bias: Array, weights: Array, dtype: str, zero: int) -> Array:
    """[2, O]: what is added to sums of x * w with x taken as i8, and as u8; in i32, which wraps around as sums do.

    Taken as the type that it is not, x is 128 less, or more, and so is its zero point.
    """
    total = weights.astype(np.int64).reshape(weights.shape[0], -1).sum(axis=1)
    zeros = (zero, zero + 128) if dtype == "i8" else (zero - 128, zero)
    return np.stack([bias.astype(np.int64) - z * total for z in zeros]).astype(np.int32)


def in_panels(values: Array, groups: int, lanes: int) -> Array:
    """[rows, O] -> [rows, groups * panels * lanes], each group filled up to whole panels with zeros."""
    rows, out_ch = values.shape[0], values.shape[1] // groups
    filled = np.zeros((rows, groups, -(-out_ch // lanes) * lanes), values.dtype)
    filled[:, :, :out_ch] = values.reshape(rows, groups, out_ch)
    return filled.reshape(rows, -1)


def pack_weights(weights: Array, groups: int, lanes: int, run: Run) -> Array:
    """[O, KH, KW, C/groups] -> [groups, panels, run.steps, lanes, 4], zeros where there is nothing."""
    out_ch, terms = weights.shape[0] // groups, np.array(run.terms(), np.int64)
    flat = weights.reshape(groups, out_ch, -1, run.length)
    taken = np.where(terms >= 0, flat[..., np.maximum(terms, 0)], 0).reshape(groups, out_ch, run.steps, GROUP)
    panels = -(-out_ch // lanes)
    filled = np.zeros((groups, panels * lanes, run.steps, GROUP), np.int8)
    filled[:, :out_ch] = taken
    return np.ascontiguousarray(filled.reshape(groups, panels, lanes, run.steps, GROUP).transpose(0, 1, 3, 2, 4))


def lower_qconv2d(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """The kernel of a qconv2d node without padding."""
    weights = graph.constants.get(node.inputs[1])
    if weights is None:
        raise MavcgError(f"node '{node.origin}' (qconv2d): weights are computed; there is a kernel for constant ones")
    if any(node.attr("pads")):
        raise MavcgError(f"node '{node.origin}' (qconv2d): has pads; padding is a step of its own, before the kernel")
    if 0 in weights.shape:
        raise MavcgError(f"node '{node.origin}' (qconv2d): weights without elements")
    if _is_depthwise(weights, views[node.inputs[0]], node.attr("groups")):
        return (_depthwise_step(node, graph, views, weights),)
    window = {name: node.attr(name) for name in ("stride", "dilation", "groups")}
    return qconv_step(node, graph, views[node.inputs[0]], views[node.output], weights, packing, **window)


def _is_depthwise(weights: Array, x: View, groups: int) -> bool:
    """Whether each channel is by itself."""
    alone = weights.shape[3] == 1 and groups == weights.shape[0] == x.shape[3] and groups > 1
    return alone and weights.shape[1] * weights.shape[2] <= MOST_TAPS


def _depthwise_step(node: Node, graph: Graph, views: Mapping[str, View], weights: Array) -> Step:
    x, out = views[node.inputs[0]], views[node.output]
    bias, multiplier = constants_of(node, graph)
    kernel = (int(weights.shape[1]), int(weights.shape[2]))
    narrow = not bool((weights == -128).any())
    spec = QDepthwise(x, out, kernel, tuple(node.attr("stride")), tuple(node.attr("dilation")), ending_of(node), narrow)
    packed = (
        in_vectors(weights.reshape(weights.shape[0], -1).T),
        in_vectors(folded_bias(bias, weights, x.dtype, node.attr("x_zero"))),
        in_vectors(multiplier.astype(np.float32)[None]),
    )
    taps, sums, factors = (Operand(constant=constant) for constant in packed)
    return Step(spec, (Operand(node.inputs[0]), taps, Operand(node.output, written=True), sums, factors), node.origin)


def constants_of(node: Node, graph: Graph) -> tuple[Array, Array]:
    """Bias and multiplier. Raises: MavcgError where they are computed."""
    bias, multiplier = (graph.constants.get(name) for name in node.inputs[2:4])
    if bias is None or multiplier is None:
        raise MavcgError(f"node '{node.origin}' ({node.op}): bias or multiplier is computed; both must be constants")
    return bias, multiplier


# Right in any cache: each chunk of channels passes over all rows of its task, its weights stay.
PLAIN = MacroTile(order=Order.CHANNELS)


def emit_qconv2d(module: ir.Module, spec: KernelSpec, machine: Machine, macro: MacroTile = PLAIN) -> ir.Function:
    """The function of a spec for a machine. The macro-tile's k_block says nothing here: 8-bit outputs hold no sums."""
    assert isinstance(spec, QConv2d)
    function, b = kernel_function(module, spec, machine)
    _Emitter(b, spec, machine, macro).emit(function.args[1], function.args[2])
    b.ret_void()
    return function


def register_tiling(spec: QConv2d, machine: Machine, macro: MacroTile, channels: int) -> Tiling:
    """The register tiles of a run of so many output channels."""
    form, registers, width = form_of(machine, spec.lanes, spec.x.dtype), machine.vector_registers, spec.out.shape[2]
    vectors = -(-channels // form.lanes)
    if macro.tile_channels:
        wanted = min(vectors, max(1, macro.tile_channels // form.lanes))
        if (widths := widths_of(form, registers, width, wanted)) is not None:
            return Tiling(wanted, widths)
    return choose_tiling(form, registers, width, vectors, max(1, spec.lanes // form.lanes))


class _Emitter:
    """Loops around the micro-kernels of one function."""

    def __init__(self, b: ir.IRBuilder, spec: QConv2d, machine: Machine, macro: MacroTile) -> None:
        self.b, self.spec, self.machine, self.macro = b, spec, machine, macro
        self.form = form_of(machine, spec.lanes, spec.x.dtype)
        self.run = spec.run
        names = ("x", "weights", "out", "bias", "multiplier")
        self.x, self.w, self.out, bias, self.multiplier = (operand(b, i, name) for i, name in enumerate(names))
        outputs = spec.groups * spec.panels * spec.lanes
        self.bias = address(b, bias, 0 if self.form.signed else outputs * F32_BYTES)
        self.flip = None
        if self.form.flip:
            flip = address(b, bias, 2 * outputs * F32_BYTES)
            self.flip = b.load(flip, name="flip", align=4, typ=ir.VectorType(I8, 4 * self.form.lanes))

    def emit(self, begin: Value, end: Value) -> None:
        b, spec = self.b, self.spec
        if spec.by_channels:
            self.by_channels(begin, end)
        elif self.macro.order is Order.ROWS and spec.groups > 1:

            def rows(first: Value, last: Value) -> None:
                repeat(b, 0, spec.groups, lambda group: self.group(group, first, last), "group")

            row_blocks(b, begin, end, self.macro.rows, rows)
        else:
            repeat(b, 0, spec.groups, lambda group: self.group(group, begin, end), "group")

    def group(self, group: Value, begin: Value, end: Value) -> None:
        """All of a group's output channels for a range of rows."""

        def block(channel: Value, count: int, first: Value, last: Value) -> None:
            self.channels(group, channel, count, first, last)

        blocks(self.b, self.macro, self.spec.out_channels, self.spec.lanes, begin, end, block)

    def by_channels(self, begin: Value, end: Value) -> None:
        """The panels from begin to end, one by one, for all rows."""
        b, rows = self.b, self.macro.rows if self.macro.rows < self.spec.pixel_rows else 0
        all_rows = const(0), const(self.spec.pixel_rows)
        if self.macro.order is Order.ROWS:

            def block(first: Value, last: Value) -> None:
                repeat(b, begin, end, lambda index: self.panel(index, first, last), "panel")

            row_blocks(b, *all_rows, rows, block)
            return

        def panel(index: Value) -> None:
            row_blocks(b, *all_rows, rows, lambda first, last: self.panel(index, first, last))

        repeat(b, begin, end, panel, "panel")

    def panel(self, index: Value, begin: Value, end: Value) -> None:
        """One panel, counted through all groups, for a range of rows."""
        b, spec = self.b, self.spec
        rest = spec.out_channels % spec.lanes
        group, number = b.sdiv(index, const(spec.panels)), b.srem(index, const(spec.panels))
        first = b.mul(number, const(spec.lanes))
        if not rest or spec.panels == 1:
            self.channels(group, first, rest or spec.lanes, begin, end)
            return
        with b.if_else(b.icmp_signed("==", number, const(spec.panels - 1))) as (last, other):
            with last:
                self.channels(group, first, rest, begin, end)
            with other:
                self.channels(group, first, spec.lanes, begin, end)

    def channels(self, group: Value, first: Value, count: int, begin: Value, end: Value) -> None:
        """`count` output channels of a group from `first`, where a panel begins, for a range of pixel rows."""
        b, form, width, registers = self.b, self.form, self.spec.out.shape[2], self.machine.vector_registers
        tiling = register_tiling(self.spec, self.machine, self.macro, count)
        step = tiling.vectors * form.lanes
        chunks, rest = divmod(count, step)
        if chunks:

            def chunk(index: Value) -> None:
                self.rows(group, b.add(first, index), step, tiling, begin, end)

            repeat(b, 0, chunks * step, chunk, "channel", step)
        if rest:
            fewer = -(-rest // form.lanes)
            tiling = Tiling(fewer, widths_of(form, registers, width, fewer) or tiling.widths)
            self.rows(group, b.add(first, const(chunks * step)), rest, tiling, begin, end)

    def rows(self, group: Value, channel: Value, count: int, tiling: Tiling, begin: Value, end: Value) -> None:
        """`count` channels, no more than a chunk, of the rows from begin to end."""
        b, spec, lanes = self.b, self.spec, self.spec.lanes
        used = count - (tiling.vectors - 1) * self.form.lanes
        in_first = b.mul(group, const(spec.in_channels))
        out_first = b.add(b.mul(group, const(spec.out_channels)), channel)
        packed_first = b.mul(b.add(b.mul(group, const(spec.panels * lanes)), channel), const(F32_BYTES))
        panel = b.add(b.mul(group, const(spec.panels)), b.udiv(channel, const(lanes)))
        w_first = b.add(
            b.mul(panel, const(spec.panel_bytes)), b.mul(b.urem(channel, const(lanes)), const(GROUP)), name="w_first"
        )
        weights = address(b, self.w, w_first)
        bias, multiplier = (address(b, p, packed_first) for p in (self.bias, self.multiplier))

        def row(index: Value) -> None:
            height = spec.out.shape[1]
            image, y = (b.sdiv(index, const(height)), b.srem(index, const(height))) if height > 1 else (index, const(0))

            def start(pointer: Value, view: View, down: int, first: Value) -> Value:
                offset = b.add(scaled(b, image, view.strides[0]), scaled(b, y, view.strides[1] * down))
                return address(b, pointer, b.add(offset, first))

            x = start(self.x, spec.x, spec.stride[0], in_first)
            out = start(self.out, spec.out, 1, out_first)
            self.tiles(tiling, used, QPointers(x, weights, out, bias, multiplier, self.flip))

        repeat(b, begin, end, row, "row")

    def tiles(self, tiling: Tiling, used: int, at: QPointers) -> None:
        """One row of pixels."""
        b, spec = self.b, self.spec
        in_step, out_step = spec.x.strides[2] * spec.stride[1], spec.out.strides[2]
        ahead, done = self.macro.prefetch_bytes, 0
        for mr, count in tiling.widths.tiles:
            offsets = [tuple(step * p for p in range(mr)) for step in (in_step, out_step)]
            tile = QTile(offsets[0], offsets[1], tiling.vectors, used, spec.lanes, spec.panel_bytes, spec.narrow, ahead)

            def one(pixel: Value, tile: QTile = tile) -> None:
                inputs = address(b, at.inputs, scaled(b, pixel, in_step))
                out = address(b, at.out, scaled(b, pixel, out_step))
                here = replace(at, inputs=inputs, out=out)
                emit_qtile(b, self.machine, self.form, self.run, tile, here, spec.ending)

            if count == 1:
                one(const(done))
            else:
                repeat(b, done, done + mr * count, one, "pixel", mr)
            done += mr * count


LOWER = {"qconv2d": lower_qconv2d}
EMIT = {QConv2d: emit_qconv2d, QDepthwise: emit_qdepthwise}
EMIT_TILED = {QConv2d: emit_qconv2d}
