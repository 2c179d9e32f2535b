"""Lowering of 8-bit convolutions and of products with a constant matrix to implicit GEMM on packed weights."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.builder.quantize import epilogue_of, limits, sum_of
from mavcg.kernels.conv.depthwise import MOST_TAPS
from mavcg.kernels.int8.conv_loops import emit_qconv2d, qconv2d_registers
from mavcg.kernels.int8.depthwise import emit_qdepthwise
from mavcg.kernels.int8.excess import excess_table, split_weights
from mavcg.kernels.int8.packed_weights import (
    FLIP,
    FLIP_WORDS,
    Array,
    WeightForm,
    folded_bias,
    in_groups,
    in_panels,
    pack_weights,
)
from mavcg.kernels.int8.register_tile import GROUP, U8_LARGEST, SumRun, sums_in_i16
from mavcg.kernels.int8.specs import (
    CHANNELS,
    QConv2d,
    QDepthwise,
    filled_for_tiles,
    in_byte_pairs,
    in_vectors,
    packed_terms,
)
from mavcg.kernels.int8.tile import LARGEST_REAL
from mavcg.specs.kernel import Operand, Packing, Step, View
from mavcg.specs.packed_constant import PackedConstant
from mavcg.specs.row_kernel import in_pieces

PIECE_PIXELS = 96  # maximum pixels of a piece of a long row, whose inputs then stay in a level-1 cache


def qconv_step(
    node: Node,
    graph: Graph,
    x: View,
    out: View,
    form: WeightForm,
    packing: Packing,
    residual: View | None = None,
    **window: Any,
) -> tuple[Step, ...]:
    """Return the step of a node with inputs x, weights, bias, multiplier, shift?, residual?; x, out and residual are
    given as N, H, W, C images.

    form: order of the weights. window: stride, dilation, groups; absent for a product.
    """
    constants_of(node, graph)
    weights = form.filters(graph.constants[node.inputs[1]])
    groups, kernel = window.get("groups", 1), (int(weights.shape[1]), int(weights.shape[2]))
    stride, dilation = tuple(window.get("stride", (1, 1))), tuple(window.get("dilation", (1, 1)))
    narrow = not bool((weights == -128).any())
    spec = QConv2d(x, out, kernel, stride, dilation, groups, packing.lanes, epilogue_of(node), narrow)
    if node.op == "qconv2d":
        spec = replace(spec, residual=residual, sum=sum_of(node))
    if spec.kernel == spec.stride == (1, 1):
        x, out, *rest = in_pieces([v for v in (x, out, residual) if v is not None], PIECE_PIXELS)
        spec = replace(spec, x=x, out=out, residual=rest[0] if rest else None)
    if packing.int8_tiles:
        spec = filled_for_tiles(spec)
    spec = replace(spec, in_i16=sums_in_i16(in_groups(weights, spec.run).reshape(-1, spec.run.groups, 1, GROUP)))
    spec = replace(spec, terms=packed_terms(spec, packing.terms))
    if packing.byte_pairs:
        spec = in_byte_pairs(spec, pack_weights(weights, groups, packing.lanes, spec.run))
    spec = replace(spec, shift=bool(node.inputs[4]), bounded=results_bounded(node, graph, weights))
    lanes, (tensor, bias, *factors_of) = packing.lanes, [name for name in node.inputs[1:5] if name]
    panels = -(-(weights.shape[0] // groups) // lanes)
    zero = (x.dtype, int(node.attr("x_zero")))
    constants = (
        PackedConstant(
            _pack_weights,
            (tensor,),
            (form, groups, lanes, spec.run.of_weights, spec.in_i16 if spec.excess else 0),
            (groups, panels, spec.run.steps, lanes, spec.terms),
            "int8",
        ),
        PackedConstant(
            _pack_sums,
            (bias, tensor),
            (form, *zero, groups, lanes),
            (2 * groups * panels * lanes + FLIP_WORDS,),
            "int32",
        ),
        PackedConstant(
            _pack_shifted if spec.shift else _pack_factors,
            tuple(factors_of),
            (groups, lanes),
            (len(factors_of), groups * panels * lanes),
        ),
    )
    packed, sums, factors = (Operand(constant=constant) for constant in constants)
    operands = [Operand(node.inputs[0]), packed, Operand(node.output, written=True), sums, factors]
    if spec.excess:
        operands.append(Operand(constant=_excess(tensor, weights, form, spec)))
    if residual is not None:
        operands.append(Operand(node.inputs[5]))
    return (Step(spec, tuple(operands), node.origin),)


def _excess(tensor: str, weights: Array, form: WeightForm, spec: QConv2d) -> PackedConstant:
    """Return the recipe of the table of weights' second parts. weights: filters."""
    parameters = (form, spec.groups, spec.lanes, spec.run.of_weights, spec.in_i16)
    words = _pack_excess(weights, WeightForm.FILTERS, *parameters[1:]).size
    return PackedConstant(_pack_excess, (tensor,), parameters, (words,), "int32")


def _pack_excess(constant: Array, form: WeightForm, groups: int, lanes: int, run: SumRun, together: int) -> Array:
    packed = pack_weights(form.filters(constant), groups, lanes, run)
    return excess_table(split_weights(packed, run, together), packed.shape[0] * packed.shape[1], run)


def _pack_weights(constant: Array, form: WeightForm, groups: int, lanes: int, run: SumRun, together: int) -> Array:
    """Pack weights; where they have two parts, so that i16 holds sums of `together` groups (else 0), the first."""
    packed = pack_weights(form.filters(constant), groups, lanes, run)
    return split_weights(packed, run, together).kept if together else packed


def _pack_sums(bias: Array, constant: Array, form: WeightForm, dtype: str, zero: int, groups: int, lanes: int) -> Array:
    sums = in_panels(folded_bias(bias, form.filters(constant), dtype, zero), groups, lanes)
    return np.concatenate([sums.reshape(-1), np.full(FLIP_WORDS, FLIP, np.int32)])


def _pack_factors(multiplier: Array, groups: int, lanes: int) -> Array:
    return in_panels(multiplier.astype(np.float32)[None], groups, lanes)


def _pack_shifted(multiplier: Array, shift: Array, groups: int, lanes: int) -> Array:
    return in_panels(np.stack([multiplier, shift]).astype(np.float32), groups, lanes)


def _pack_taps(weights: Array) -> Array:
    return in_vectors(weights.reshape(weights.shape[0], -1).T)


def _pack_depthwise_sums(bias: Array, weights: Array, dtype: str, zero: int) -> Array:
    return in_vectors(folded_bias(bias, weights, dtype, zero))


def _pack_depthwise_factors(multiplier: Array) -> Array:
    return in_vectors(multiplier.astype(np.float32)[None])


def _pack_depthwise_shifted(multiplier: Array, shift: Array) -> Array:
    return in_vectors(np.stack([multiplier, shift]).astype(np.float32))


def lower_qconv2d(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a qconv2d node without padding. Raises: MavcgError for computed weights and for padding."""
    weights = graph.constants.get(node.inputs[1])
    if weights is None:
        raise MavcgError(f"node '{node.origin}' (qconv2d): its weights are computed; supported: constant weights")
    if any(node.attr("pads")):
        raise MavcgError(f"node '{node.origin}' (qconv2d): has pads; padding must be a node of its own before it")
    if 0 in weights.shape:
        raise MavcgError(f"node '{node.origin}' (qconv2d): its weights have no elements")
    if is_depthwise(node, graph):
        if sum_of(node) is not None:
            raise MavcgError(f"node '{node.origin}' (qconv2d): is depthwise with a residual; add that by a qadd")
        return (_depthwise_step(node, graph, views, weights),)
    window = {name: node.attr(name) for name in ("stride", "dilation", "groups")}
    x, out, residual = views[node.inputs[0]], views[node.output], residual_view(node, views)
    return qconv_step(node, graph, x, out, WeightForm.FILTERS, packing, residual, **window)


def residual_view(node: Node, views: Mapping[str, View]) -> View | None:
    return views[node.inputs[5]] if node.inputs[5] else None


def is_depthwise(node: Node, graph: Graph) -> bool:
    """Return True for a depthwise convolution that QDepthwise computes."""
    shape, groups = graph.shape(node.inputs[1]), node.attr("groups")
    alone = shape[3] == 1 and groups == shape[0] == graph.shape(node.inputs[0])[3] and groups > 1
    return alone and shape[1] * shape[2] <= MOST_TAPS


def _depthwise_step(node: Node, graph: Graph, views: Mapping[str, View], weights: Array) -> Step:
    x, out = views[node.inputs[0]], views[node.output]
    constants_of(node, graph)
    kernel = (int(weights.shape[1]), int(weights.shape[2]))
    narrow = not bool((weights == -128).any())
    spec = QDepthwise(
        x,
        out,
        kernel,
        tuple(node.attr("stride")),
        tuple(node.attr("dilation")),
        epilogue_of(node),
        narrow,
        bool(node.inputs[4]),
        results_bounded(node, graph, weights),
    )
    tensor, bias, *factors_of = [name for name in node.inputs[1:5] if name]
    filled = -(-weights.shape[0] // CHANNELS) * CHANNELS
    zero = (x.dtype, int(node.attr("x_zero")))
    packed = (
        PackedConstant(_pack_taps, (tensor,), (), (kernel[0] * kernel[1], filled), str(weights.dtype)),
        PackedConstant(_pack_depthwise_sums, (bias, tensor), zero, (2, filled), "int32"),
        PackedConstant(
            _pack_depthwise_shifted if spec.shift else _pack_depthwise_factors,
            tuple(factors_of),
            (),
            (len(factors_of), filled),
        ),
    )
    taps, sums, factors = (Operand(constant=constant) for constant in packed)
    return Step(spec, (Operand(node.inputs[0]), taps, Operand(node.output, written=True), sums, factors), node.origin)


def constants_of(node: Node, graph: Graph) -> tuple[Array, ...]:
    """Return (bias, multiplier), with a shift if there is one, arrays of shape [O].

    Raises: MavcgError where they are not constants.
    """
    found = [graph.constants[name] for name in node.inputs[2:5] if name in graph.constants]
    if len(found) < sum(bool(name) for name in node.inputs[2:5]):
        raise MavcgError(
            f"node '{node.origin}' ({node.op}): bias, multiplier or shift is computed; all must be constants"
        )
    return tuple(found)


def results_bounded(node: Node, graph: Graph, weights: Array) -> bool:
    """Return True if no input gives a requantized sum beyond LARGEST_REAL, before it is rounded.

    weights: [O, ..].
    """
    least, most = limits(graph.types[node.inputs[0]].dtype)
    furthest = max(node.attr("x_zero") - least, most - node.attr("x_zero"))
    if node.op == "qconv2d" and sum_of(node) is not None:
        own = max(abs(node.attr("own_lo")), abs(node.attr("own_hi"))) * abs(node.attr("own_scale"))
        return bool(own + U8_LARGEST * abs(node.attr("residual_scale")) <= LARGEST_REAL)
    bias, multiplier, *shift = (array.astype(np.float64) for array in constants_of(node, graph))
    largest = np.abs(weights.astype(np.float64)).reshape(weights.shape[0], -1).sum(axis=1) * furthest + np.abs(bias)
    results = largest * np.abs(multiplier) + sum(np.abs(added) for added in shift)
    return bool((results <= LARGEST_REAL).all())


LOWER = {"qconv2d": lower_qconv2d}
EMIT = {QConv2d: emit_qconv2d, QDepthwise: emit_qdepthwise}
EMIT_TILED = {QConv2d: emit_qconv2d, QDepthwise: emit_qdepthwise}
REGISTERS = {QConv2d: qconv2d_registers}
