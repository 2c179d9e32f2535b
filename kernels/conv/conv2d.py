"""Lowering of convolutions and of products with a constant matrix to implicit GEMM.

The sum runs over the input in place, without an im2col copy; weights are packed in panels of output channels, which
all versions of a library share.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.conv.depthwise import MOST_TAPS, Depthwise
from mavcg.kernels.conv.depthwise_loops import emit_depthwise
from mavcg.kernels.conv.loop_plan import conv2d_registers
from mavcg.kernels.conv.loops import emit_conv2d
from mavcg.kernels.conv.row_pieces import in_pieces
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.gemm.tile import packed_depthwise, packed_filters
from mavcg.kernels.tensor.plain_product import plain_conv2d
from mavcg.specs.kernel import Operand, Packing, Step, View
from mavcg.specs.packed_constant import PackedConstant

PIECE_PIXELS = 64  # maximum pixels of a piece of a long row, whose inputs then stay in a level-1 cache


def lower_conv2d(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the steps of a conv2d node. Raises: MavcgError for a node with pads; padding is a separate step."""
    x, w = views[node.inputs[0]], node.inputs[1]
    if any(node.attr("pads")):
        raise MavcgError(f"node '{node.origin}' (conv2d): has pads; padding must be a node of its own before it")
    if x.dtype != "f32":
        return plain_conv2d(node, graph, views)
    shape = graph.shape(w)
    if is_depthwise(node, graph):
        return (_depthwise_step(node, graph, views),)
    groups = node.attr("groups")
    packed = packed_filters(w, shape, groups, packing.lanes) if w in graph.constants else None
    return conv_step(
        node,
        x,
        views[node.output],
        shape[1:3],
        node.attr("stride"),
        node.attr("dilation"),
        groups,
        views,
        packing,
        packed,
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
    weights = Operand(constant=packed_depthwise(node.inputs[1], shape))
    operands = [Operand(node.inputs[0]), weights, Operand(node.output, written=True)]
    operands += [Operand(name) for name in (bias, residual) if name]
    return Step(spec, tuple(operands), node.origin)


def conv_step(
    node: Node,
    x: View,
    out: View,
    kernel: Any,
    stride: Any,
    dilation: Any,
    groups: int,
    views: Mapping[str, View],
    packing: Packing,
    weights: PackedConstant | None,
) -> tuple[Step, ...]:
    """Return the step of a node with inputs x, weights, bias?, residual?; x and out are given as N, H, W, C images.

    weights: recipe of the constant packed in panels; None: weights are computed at run time and are not packed.
    """
    bias, residual = (*node.inputs[2:], "", "")[:2]
    spec = Conv2d(
        x,
        out,
        views[residual] if residual else None,
        tuple(kernel),
        tuple(stride),
        tuple(dilation),
        groups,
        packing.lanes,
        bool(bias),
        weights is not None,
        node.attr("act"),
        tuple(node.attr("act_args")),
    )
    if spec.kernel == spec.stride == (1, 1):
        x, out, *rest = in_pieces([v for v in (spec.x, spec.out, spec.residual) if v is not None], PIECE_PIXELS)
        spec = replace(spec, x=x, out=out, residual=rest[0] if rest else None)
    packed = Operand(node.inputs[1]) if weights is None else Operand(constant=weights)
    operands = [Operand(node.inputs[0]), packed, Operand(node.output, written=True)]
    operands += [Operand(name) for name in (bias, residual) if name]
    return (Step(spec, tuple(operands), node.origin),)


LOWER = {"conv2d": lower_conv2d}
EMIT = {Conv2d: emit_conv2d, Depthwise: emit_depthwise}
EMIT_TILED = {Conv2d: emit_conv2d}
REGISTERS = {Conv2d: conv2d_registers}
