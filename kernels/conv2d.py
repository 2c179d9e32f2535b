"""Convolution and products with a constant matrix, as implicit GEMM: the sum runs over the input where it lies, no
im2col copy; weights are packed in panels of output channels, which all versions of a library share.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernel import Array, Operand, Packing, Step, View
from mavcg.kernels.conv_loops import emit_conv2d
from mavcg.kernels.conv_spec import Conv2d
from mavcg.kernels.depthwise import MOST_TAPS, Depthwise, emit_depthwise
from mavcg.kernels.packing import pack, pack_depthwise
from mavcg.kernels.pieces import in_pieces
from mavcg.kernels.plain_product import plain_conv2d

PIECE_PIXELS = 64  # the most of a piece of a long row: its inputs stay in a level-1 cache


def lower_conv2d(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """The kernel of a conv2d node without padding."""
    x, w = views[node.inputs[0]], node.inputs[1]
    if any(node.attr("pads")):
        raise MavcgError(f"node '{node.origin}' (conv2d): has pads; padding is a step of its own, before the kernel")
    if x.dtype != "f32":
        return plain_conv2d(node, graph, views)
    shape = graph.shape(w)
    if is_depthwise(node, graph):
        return (_depthwise_step(node, graph, views),)
    return conv_step(
        node, x, views[node.output], shape[1:3], node.attr("stride"), node.attr("dilation"), node.attr("groups"),
        views, packing, graph.constants.get(w),
    )  # fmt: skip


def is_depthwise(node: Node, graph: Graph) -> bool:
    """Whether each channel is by itself, with weights known now."""
    shape, groups = graph.shape(node.inputs[1]), node.attr("groups")
    alone = shape[3] == 1 and groups == shape[0] == graph.shape(node.inputs[0])[3] and groups > 1
    return alone and shape[1] * shape[2] <= MOST_TAPS and node.inputs[1] in graph.constants


def _depthwise_step(node: Node, graph: Graph, views: Mapping[str, View]) -> Step:
    weights = graph.constants[node.inputs[1]]
    bias, residual = (*node.inputs[2:], "", "")[:2]
    spec = Depthwise(
        views[node.inputs[0]], views[node.output], views[residual] if residual else None, weights.shape[1:3],
        tuple(node.attr("stride")), tuple(node.attr("dilation")), bool(bias), node.attr("act"),
        tuple(node.attr("act_args")),
    )  # fmt: skip
    operands = [Operand(node.inputs[0]), Operand(constant=pack_depthwise(weights)), Operand(node.output, written=True)]
    operands += [Operand(name) for name in (bias, residual) if name]
    return Step(spec, tuple(operands), node.origin)


def conv_step(
    node: Node, x: View, out: View, kernel: Any, stride: Any, dilation: Any, groups: int,
    views: Mapping[str, View], packing: Packing, weights: Array | None,
) -> tuple[Step, ...]:  # fmt: skip
    """The step of a node whose inputs are x, weights, bias?, residual?, with x and out given as images.

    weights: O, KH, KW, I, to be packed; None: they are there at run time only.
    """
    bias, residual = (*node.inputs[2:], "", "")[:2]
    spec = Conv2d(
        x, out, views[residual] if residual else None, tuple(kernel), tuple(stride), tuple(dilation), groups,
        packing.lanes, bool(bias), weights is not None, node.attr("act"), tuple(node.attr("act_args")),
    )  # fmt: skip
    if spec.kernel == spec.stride == (1, 1):
        x, out, *rest = in_pieces([v for v in (spec.x, spec.out, spec.residual) if v is not None], PIECE_PIXELS)
        spec = replace(spec, x=x, out=out, residual=rest[0] if rest else None)
    packed = Operand(node.inputs[1]) if weights is None else Operand(constant=pack(weights, groups, packing.lanes))
    operands = [Operand(node.inputs[0]), packed, Operand(node.output, written=True)]
    operands += [Operand(name) for name in (bias, residual) if name]
    return (Step(spec, tuple(operands), node.origin),)


LOWER = {"conv2d": lower_conv2d}
EMIT = {Conv2d: emit_conv2d, Depthwise: emit_depthwise}
EMIT_TILED = {Conv2d: emit_conv2d}
