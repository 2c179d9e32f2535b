"""Convolution and products with a constant matrix over 8-bit numbers, as implicit GEMM on packed weights."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernel import Operand, Packing, Step, View
from mavcg.kernels.depthwise import MOST_TAPS
from mavcg.kernels.pieces import in_pieces
from mavcg.kernels.qconv_loops import emit_qconv2d
from mavcg.kernels.qconv_spec import QConv2d
from mavcg.kernels.qdepthwise import QDepthwise, emit_qdepthwise, in_vectors
from mavcg.kernels.qgemm import Run
from mavcg.kernels.qtiling import GROUP, sums_in_i16
from mavcg.kernels.requantise import ending_of

Array: TypeAlias = NDArray[Any]

FLIP, FLIP_WORDS = -0x7F7F7F80, 16  # four bytes of 128, and how many times they fill the longest register
PIECE_PIXELS = 96  # the most of a piece of a long row: its inputs stay in a level-1 cache


def qconv_step(
    node: Node, graph: Graph, x: View, out: View, weights: Array, packing: Packing, **window: Any
) -> tuple[Step, ...]:
    """The step of a node with inputs x, weights, bias, multiplier, with x and out given as images.

    weights: O, KH, KW, C/groups. window: stride, dilation, groups; none for a product.
    """
    bias, multiplier = constants_of(node, graph)
    groups, kernel = window.get("groups", 1), (int(weights.shape[1]), int(weights.shape[2]))
    stride, dilation = tuple(window.get("stride", (1, 1))), tuple(window.get("dilation", (1, 1)))
    narrow = not bool((weights == -128).any())
    spec = QConv2d(x, out, kernel, stride, dilation, groups, packing.lanes, ending_of(node), narrow)
    if spec.kernel == spec.stride == (1, 1):
        x, out = in_pieces((spec.x, spec.out), PIECE_PIXELS)
        spec = replace(spec, x=x, out=out)
    packed_weights = pack_weights(weights, groups, packing.lanes, spec.run)
    spec = replace(spec, in_i16=sums_in_i16(packed_weights.reshape(-1, spec.run.groups, packing.lanes, GROUP)))
    corrected = folded_bias(bias, weights, x.dtype, node.attr("x_zero"))
    constants = (
        packed_weights,
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


LOWER = {"qconv2d": lower_qconv2d}
EMIT = {QConv2d: emit_qconv2d, QDepthwise: emit_qdepthwise}
EMIT_TILED = {QConv2d: emit_qconv2d, QDepthwise: emit_qdepthwise}
