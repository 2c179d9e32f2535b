"""Convolutions by implicit GEMM: their lowering, and that of products with a constant matrix; their loops over blocks.

The sum runs over the input in place, without an im2col copy; weights are packed in panels of output channels, which
all versions of a library share. The macro-tile sets the sizes of the blocks of rows, channels and terms and their
order; blocks.py has the loops inside.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from math import prod
from typing import TypeAlias

from llvmlite import ir

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.builder.bf16_products import flushed_subnormals
from mavcg.kernels.builder.emit import Values, const, for_range, kernel_function, repeat
from mavcg.kernels.builder.nest_loops import clamp, maximum, minimum
from mavcg.kernels.builder.tiles import row_blocks
from mavcg.kernels.conv.blocks import Blocks
from mavcg.kernels.conv.depthwise import MOST_TAPS, Depthwise
from mavcg.kernels.conv.depthwise_loops import emit_depthwise
from mavcg.kernels.conv.part_loops import ChannelRun, block_channels, check_parts, part_runs
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.conv.tiling import conv2d_registers, plain_macro, register_tiling
from mavcg.kernels.gemm.product_types import BF16_PAIRS, LEAST_BLOCK_TERMS, in_blocks, packed_terms
from mavcg.kernels.gemm.sum_blocks import SumBlock, sum_blocks
from mavcg.kernels.gemm.tile import packed_depthwise, packed_filters, scaled_biases
from mavcg.kernels.gemm.tile_products import tiles_of_kernel
from mavcg.kernels.tensor.plain_product import plain_conv2d
from mavcg.specs.channel_scales import channel_axis
from mavcg.specs.kernel import Machine, Operand, Packing, Step, View
from mavcg.specs.packed_constant import PackedConstant
from mavcg.specs.row_kernel import in_pieces
from mavcg.specs.sums_of_products import Window
from mavcg.specs.tile_plan import MacroTile, Order

Value: TypeAlias = ir.Value


def emit_conv2d(module: ir.Module, spec: Conv2d, machine: Machine, macro: MacroTile | None = None) -> ir.Function:
    """Emit the function of a spec for a machine. macro: the planned macro-tile; None: plain_macro."""
    macro = macro or plain_macro(spec)
    check_parts(spec, macro)
    function, b = kernel_function(module, spec, machine)
    flushes = spec.product_type == BF16_PAIRS or in_blocks(spec.product_type)
    tiled = machine.bf16_tiles and in_blocks(spec.product_type)
    mode = flushed_subnormals(b) if flushes else nullcontext()
    with mode, tiles_of_kernel(b, spec.run_pixels, spec.terms) if tiled else nullcontext():
        _Conv2dEmitter(b, spec, machine, macro).emit(function.args[1], function.args[2])
    b.ret_void()
    return function


class _Conv2dEmitter(Blocks):
    """Emitter of the loops over the blocks of one function."""

    def row_parts(self, first: Value, last: Value, low: Value, high: Value) -> None:
        spec, macro = self.spec, self.macro
        tiling, _ = register_tiling(spec, self.machine, macro, spec.out_channels)

        def rows(begin: Value, end: Value) -> None:
            def terms(block: SumBlock) -> None:
                def part(channel: Value, count: int) -> None:
                    self.chunks(ChannelRun(const(0), channel, count, begin, end), block)

                part_runs(self.b, macro, spec.out_channels, spec.lanes, tiling.vectors * self.lanes, low, high, part)

            sum_blocks(self.b, self.total, macro.kc, terms)

        row_blocks(self.b, first, last, macro.mc, rows)

    def panels(self, begin: Value, end: Value, rows: tuple[Value, Value]) -> None:
        b, spec = self.b, self.spec
        per_group = const(spec.panels)

        def iteration(group: Value) -> None:
            first = b.mul(group, per_group)
            low = clamp(b, b.sub(begin, first), const(0), const(spec.panels))
            high = clamp(b, b.sub(end, first), const(0), const(spec.panels))
            self.in_order(group, low, high, rows)

        if spec.groups == 1:
            self.in_order(const(0), begin, end, rows)
        else:
            first = b.sdiv(begin, per_group)
            after = b.sdiv(b.add(end, const(spec.panels - 1)), per_group)
            repeat(b, first, after, iteration, "group")

    def in_order(self, group: Value, begin: Value, end: Value, rows: tuple[Value, Value]) -> None:
        """Emit a range of a group's panels for a range of rows, in the macro-tile's loop order."""
        if self.macro.order is Order.ROWS:

            def block(first: Value, last: Value) -> None:
                self.group_panels(
                    begin, end, lambda channel, count: self.channels(ChannelRun(group, channel, count, first, last))
                )

            row_blocks(self.b, *rows, self.block_rows, block)
            return

        def stationary(channel: Value, count: int) -> None:
            def block(first: Value, last: Value) -> None:
                self.channels(ChannelRun(group, channel, count, first, last))

            row_blocks(self.b, *rows, self.block_rows, block)

        self.group_panels(begin, end, stationary)

    def group_panels(self, begin: Value, end: Value, run: Callable[[Value, int], None]) -> None:
        """Emit run(first channel, count) over a range of a group's panels that is known at run time only.

        Whole blocks come first, then whole chunks, then single panels.
        """
        b, spec = self.b, self.spec
        tail = spec.out_channels % spec.lanes
        whole = const(spec.panels - bool(tail))
        last_whole = minimum(b, end, whole)
        tiling, _ = register_tiling(spec, self.machine, self.macro, spec.out_channels)
        chunk = max(1, tiling.vectors * self.lanes // spec.lanes) if spec.packed else 1
        at: Value = begin

        largest = max(chunk, (block_channels(self.macro, spec.lanes) or 0) // spec.lanes)
        for count in dict.fromkeys((largest, chunk, 1)):

            def block(index: Value, _: Values, count: int = count) -> Values:
                run(b.mul(index, const(spec.lanes)), count * spec.lanes)
                return ()

            if spec.panels - bool(tail) < count:
                continue
            iterations = b.sdiv(b.sub(last_whole, at), const(count))
            # Where `at` is already past the last whole panel, the division gives 0 or less.
            stop = b.add(at, b.mul(iterations, const(count)))
            for_range(b, at, stop, count, (), block, "chunk")
            at = maximum(b, stop, at)
        if tail:
            with b.if_then(b.and_(b.icmp_signed("<=", begin, whole), b.icmp_signed(">", end, whole))):
                run(const((spec.panels - 1) * spec.lanes), tail)


# Types of products in vectors, with a bias of f32.
PRODUCT_TYPES = ("f32", "f16", "bf16")
PIECE_PIXELS = 64  # maximum pixels of a piece of a long row, whose inputs then stay in a level-1 cache


def lower_conv2d(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the steps of a conv2d node.

    Raises: MavcgError for a node with pads, as padding is a separate step; as check_bias.
    """
    x, w = views[node.inputs[0]], node.inputs[1]
    if any(node.attr("pads")):
        raise MavcgError(f"node '{node.origin}' (conv2d): has pads; padding must be a node of its own before it")
    if x.dtype not in PRODUCT_TYPES:
        return plain_conv2d(node, graph, views)
    check_bias(node, views)
    shape = graph.shape(w)
    if is_depthwise(node, graph):
        return (_depthwise_step(node, graph, views),)
    groups = node.attr("groups")
    constant, stored = w in graph.constants, node.attr("weights")
    packing = packing_of_pixels(packing, views[node.output], groups)
    terms = step_terms_of(x.dtype, shape[3], views[node.output], packing) if constant else 1
    packing_of = (groups, packing.lanes, x.dtype, stored, packed_terms(terms))
    packed = packed_filters(w, shape, *packing_of) if constant else None
    window = Window((shape[1], shape[2]), tuple(node.attr("stride")), tuple(node.attr("dilation")), groups)
    return conv_step(node, x, views[node.output], window, views, packing, packed, terms)


FEWEST_WIDE_PANELS = 4  # work units of a product in wide panels, which threads share


def packing_of_pixels(packing: Packing, out: View, groups: int = 1) -> Packing:
    """Return the packing of the weights of a product, whose panels are wide where it has a single pixel.

    Each weight is then used once. A tile of one pixel needs several vectors of channels to hide the latency of its
    multiply-adds: these are one stream of memory in a wide panel. In several panels, 16 KB apart or a multiple of it,
    all streams map to the same sets of level 1, and evict each other's prefetched lines. out: N, H, W, C.
    """
    wide, channels = packing.pixel_lanes, out.shape[3] // groups
    if prod(out.shape[:3]) != 1 or not wide or channels < FEWEST_WIDE_PANELS * wide:
        return packing
    return replace(packing, lanes=wide)


FEWEST_TILED_PIXELS = 4  # of which a product of tile registers takes as long as of nine: fewer wait for their weights


def step_terms_of(dtype: str, channels: int, out: View, packing: Packing) -> int:
    """Return the neighbouring terms of a step of sums with packed weights. channels: of a group. out: N, H, W, C.

    Blocks for tile registers are as long as whole blocks of the channels can be, and even; other sums are widened.
    """
    most = packing.bf16_terms
    if dtype != "bf16" or most < LEAST_BLOCK_TERMS:
        return most if dtype == "bf16" and channels % most == 0 else 1
    if not out.elements or out.elements // out.shape[3] < FEWEST_TILED_PIXELS:
        return 1
    return next((terms for terms in range(most, LEAST_BLOCK_TERMS - 1, -2) if channels % terms == 0), 1)


def check_bias(node: Node, views: Mapping[str, View]) -> None:
    """Check the bias of a product, which is added in f32. Raises: MavcgError where it has another type."""
    bias = (*node.inputs[2:], "")[0]
    if bias and views[bias].dtype != "f32":
        raise MavcgError(
            f"node '{node.origin}' ({node.op}): its bias is {views[bias].dtype}; its kernel adds f32, so cast it to f32"
        )


def is_depthwise(node: Node, graph: Graph) -> bool:
    """Return True for a depthwise convolution with constant weights that the depthwise kernel computes."""
    shape, groups = graph.shape(node.inputs[1]), node.attr("groups")
    alone = shape[3] == 1 and groups == shape[0] == graph.shape(node.inputs[0])[3] and groups > 1
    return alone and shape[1] * shape[2] <= MOST_TAPS and node.inputs[1] in graph.constants


def _depthwise_step(node: Node, graph: Graph, views: Mapping[str, View]) -> Step:
    shape = graph.shape(node.inputs[1])
    bias, residual = (*node.inputs[2:], "", "")[:2]
    spec = Depthwise(
        views[node.inputs[0]],
        views[node.output],
        views[residual] if residual else None,
        (shape[1], shape[2]),
        tuple(node.attr("stride")),
        tuple(node.attr("dilation")),
        bool(bias),
        node.attr("act"),
        tuple(node.attr("act_args")),
    )
    weights = Operand(constant=packed_depthwise(node.inputs[1], shape, spec.x.dtype))
    operands = [Operand(node.inputs[0]), weights, Operand(node.output, written=True)]
    operands += [Operand(name) for name in (bias, residual) if name]
    return Step(spec, tuple(operands), node.origin)


def conv_step(
    node: Node,
    x: View,
    out: View,
    window: Window,
    views: Mapping[str, View],
    packing: Packing,
    weights: PackedConstant | None,
    terms: int = 1,
) -> tuple[Step, ...]:
    """Return the step of a node with inputs x, weights, bias?, residual?; x and out are given as N, H, W, C images.

    weights: recipe of the constant packed in panels; None: weights are computed at run time and are not packed. terms:
    of a step of sums.
    """
    bias, residual = (*node.inputs[2:], "", "")[:2]
    stored = node.attr("weights") if weights is not None else ""
    spec = Conv2d(
        x,
        out,
        views[residual] if residual else None,
        window.kernel,
        window.stride,
        window.dilation,
        window.groups,
        packing.lanes,
        bool(bias) or stored == "i8",
        weights is not None,
        node.attr("act"),
        tuple(node.attr("act_args")),
        stored,
        terms,
    )
    if spec.kernel == spec.stride == (1, 1):
        x, out, *rest = in_pieces([v for v in (spec.x, spec.out, spec.residual) if v is not None], PIECE_PIXELS)
        spec = replace(spec, x=x, out=out, residual=rest[0] if rest else None)
    packed = Operand(node.inputs[1]) if weights is None else Operand(constant=weights)
    operands = [Operand(node.inputs[0]), packed, Operand(node.output, written=True)]
    if stored == "i8":
        biases = scaled_biases(node.inputs[1], out.shape[3], channel_axis(node), bias)
        operands += [Operand(constant=biases), *([Operand(residual)] if residual else [])]
    else:
        operands += [Operand(name) for name in (bias, residual) if name]
    return (Step(spec, tuple(operands), node.origin),)


LOWER = {"conv2d": lower_conv2d}
EMIT = {Conv2d: emit_conv2d, Depthwise: emit_depthwise}
EMIT_TILED = {Conv2d: emit_conv2d}
HALF = {"conv2d": (2,)}
REGISTERS = {Conv2d: conv2d_registers}
