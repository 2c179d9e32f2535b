"""Kernels of 8-bit convolutions and products with constant matrices whose zero point is computed at run time.

    sum((x - zero) * w) = sum(x * p) + offset * sum(x) - zero * sum(w),   w = p + offset, p of 8 bits

All terms are integers, so that each core may compute the first two sums by its own instructions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.kernels.builder.emit import F32, address
from mavcg.kernels.builder.lanes import load_lanes, store_lanes
from mavcg.kernels.conv.matmul import as_image
from mavcg.kernels.int8.conv2d import PIECE_PIXELS, is_depthwise
from mavcg.kernels.int8.conv_loops import PLAIN, Endings, emit_convolution, flip_register, qconv2d_registers
from mavcg.kernels.int8.depthwise import PLAIN as PLAIN_DEPTHWISE
from mavcg.kernels.int8.depthwise import emit_depthwise_sums
from mavcg.kernels.int8.integer_sums import IntegerConv2d, IntegerDepthwise, IntegerEnding, IntegerSums, integer_ending
from mavcg.kernels.int8.micro_kernel import F32_BYTES
from mavcg.kernels.int8.packed_weights import FLIP, FLIP_WORDS, WeightForm, in_groups, in_panels, pack_weights
from mavcg.kernels.int8.register_tile import GROUP, SumRun, sums_in_i16
from mavcg.kernels.int8.specs import CHANNELS, in_vectors, packed_terms
from mavcg.specs.kernel import Machine, Operand, Packing, Step, View
from mavcg.specs.packed_constant import PackedConstant
from mavcg.specs.row_kernel import in_pieces
from mavcg.specs.tile_plan import MacroTile

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = ir.Value


def eight_bit_parts(weights: Array) -> tuple[Array, Array]:
    """Split weights [O, ..] into 8-bit numbers and an offset per output channel: (i8 [O, ..], i32 [O]).

    A channel whose weights are within -128 .. 127 has offset 0; others are 8-bit numbers around another zero point.
    """
    flat = weights.reshape(weights.shape[0], -1).astype(np.int64)
    low, high = flat.min(axis=1, initial=0), flat.max(axis=1, initial=0)
    offsets = np.where(high > 127, high - 127, np.where(low < -128, low + 128, 0))
    parts = weights.astype(np.int64) - offsets.reshape(-1, *(1,) * (weights.ndim - 1))
    return parts.astype(np.int8), offsets.astype(np.int32)


def _weights(node: Node, graph: Graph) -> Array:
    """Return the constant weights. Raises: MavcgError where they are computed, empty, or need more than 8 bits."""
    weights = graph.constants.get(node.inputs[1])
    if weights is None:
        raise MavcgError(f"node '{node.origin}' ({node.op}): its weights are computed; supported: constant weights")
    if 0 in weights.shape:
        raise MavcgError(f"node '{node.origin}' ({node.op}): its weights have no elements")
    channels = _form(node).filters(weights).reshape(-1, weights.size // _channels(node, weights)).astype(np.int64)
    if int((channels.max(axis=1, initial=0) - channels.min(axis=1, initial=0)).max()) > 255:
        raise MavcgError(f"node '{node.origin}' ({node.op}): the weights of a channel differ by more than 255")
    return weights


def _form(node: Node) -> WeightForm:
    if node.op == "iconv2d":
        return WeightForm.FILTERS
    return WeightForm.MATRIX if node.attr("transpose_b") else WeightForm.TRANSPOSED


def _channels(node: Node, weights: Array) -> int:
    return int(_form(node).filters(weights).shape[0])


def _ending(node: Node, graph: Graph) -> IntegerSums:
    _, _, _, bias, multiplier, shift, _ = node.inputs
    scale = ("one" if not graph.shape(multiplier) else "channels") if multiplier else ""
    return IntegerSums(bool(bias), scale, bool(shift), node.attr("act"), tuple(node.attr("act_args")))


def _operands(node: Node, weights: PackedConstant, sums: PackedConstant) -> tuple[Operand, ...]:
    x, _, zero, *rest = node.inputs
    first = (Operand(x), Operand(constant=weights), Operand(node.output, written=True), Operand(constant=sums))
    return (*first, Operand(zero), *(Operand(name) for name in rest if name))


def _step(node: Node, graph: Graph, x: View, out: View, residual: View | None, packing: Packing, **window: Any) -> Step:
    """Return the step of a node; x, out and residual are given as N, H, W, C images. window: stride, dilation,
    groups."""
    form, lanes, tensor = _form(node), packing.lanes, node.inputs[1]
    weights = form.filters(_weights(node, graph))
    groups, kernel = window.get("groups", 1), (int(weights.shape[1]), int(weights.shape[2]))
    stride, dilation = tuple(window.get("stride", (1, 1))), tuple(window.get("dilation", (1, 1)))
    parts, offsets = eight_bit_parts(weights)
    spec = IntegerConv2d(
        x,
        out,
        residual,
        kernel,
        stride,
        dilation,
        groups,
        lanes,
        _ending(node, graph),
        not bool((parts == -128).any()),
        0,
        bool(offsets.any()),
    )
    if spec.kernel == spec.stride == (1, 1):
        x, out, *rest = in_pieces([v for v in (x, out, residual) if v is not None], PIECE_PIXELS)
        spec = replace(spec, x=x, out=out, residual=rest[0] if rest else None)
    spec = replace(spec, in_i16=sums_in_i16(in_groups(parts, spec.run).reshape(-1, spec.run.groups, 1, GROUP)))
    spec = replace(spec, terms=packed_terms(spec, packing.terms))
    panels = spec.panels
    packed = PackedConstant(
        _pack_weights,
        (tensor,),
        (form, groups, lanes, spec.run.of_weights),
        (groups, panels, spec.run.steps, lanes, spec.terms),
        "int8",
    )
    words = (1 + spec.offsets) * groups * panels * lanes + FLIP_WORDS
    sums = PackedConstant(_pack_sums, (tensor,), (form, groups, lanes, spec.offsets), (words,), "int32")
    return Step(spec, _operands(node, packed, sums), node.origin)


def _pack_weights(constant: Array, form: WeightForm, groups: int, lanes: int, run: SumRun) -> Array:
    return pack_weights(eight_bit_parts(form.filters(constant))[0], groups, lanes, run)


def _weight_sums(weights: Array) -> Array:
    return np.asarray(weights.reshape(weights.shape[0], -1).sum(axis=1, dtype=np.int64)).astype(np.int32)


def _pack_sums(constant: Array, form: WeightForm, groups: int, lanes: int, with_offsets: bool) -> Array:
    weights = form.filters(constant)
    rows = [_weight_sums(weights), eight_bit_parts(weights)[1]]
    kept = in_panels(np.stack(rows if with_offsets else rows[:1]), groups, lanes)
    return np.concatenate([kept.reshape(-1), np.full(FLIP_WORDS, FLIP, np.int32)])


def _pack_taps(weights: Array) -> Array:
    return in_vectors(weights.reshape(weights.shape[0], -1).T.astype(np.int16))


def _pack_depthwise_sums(weights: Array) -> Array:
    return in_vectors(_weight_sums(weights)[None])


def lower_iconv2d(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of an iconv2d node without padding. Raises: MavcgError for computed weights and for padding."""
    if any(node.attr("pads")):
        raise MavcgError(f"node '{node.origin}' (iconv2d): has pads; padding must be a node of its own before it")
    x, out = views[node.inputs[0]], views[node.output]
    residual = views[node.inputs[6]] if node.inputs[6] else None
    if is_depthwise(node, graph):
        return (_depthwise_step(node, graph, x, out, residual),)
    window = {name: node.attr(name) for name in ("stride", "dilation", "groups")}
    return (_step(node, graph, x, out, residual, packing, **window),)


def _depthwise_step(node: Node, graph: Graph, x: View, out: View, residual: View | None) -> Step:
    weights = _weights(node, graph)
    kernel, tensor = (int(weights.shape[1]), int(weights.shape[2])), node.inputs[1]
    spec = IntegerDepthwise(
        x,
        out,
        residual,
        kernel,
        tuple(node.attr("stride")),
        tuple(node.attr("dilation")),
        _ending(node, graph),
        bool((np.abs(weights.astype(np.int64)) < 128).all()),
    )
    filled = -(-weights.shape[0] // CHANNELS) * CHANNELS
    taps = PackedConstant(_pack_taps, (tensor,), (), (kernel[0] * kernel[1], filled), "int16")
    sums = PackedConstant(_pack_depthwise_sums, (tensor,), (), (1, filled), "int32")
    return Step(spec, _operands(node, taps, sums), node.origin)


def lower_imatmul(node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> tuple[Step, ...]:
    """Return the step of a product with a constant matrix. Raises: MavcgError where rows are not evenly spaced."""
    names = (node.inputs[0], node.output, *([node.inputs[6]] if node.inputs[6] else []))
    x, out, *rest = (as_image(views[name]) for name in names)
    if x is None or out is None or None in rest:
        raise MavcgError(f"node '{node.origin}' (imatmul): its rows are not evenly spaced; copy the matrix before it")
    return (_step(node, graph, x, out, rest[0] if rest else None, packing),)


@dataclass
class _IntegerEndings:
    """The epilogues of a kernel's tiles."""

    first: IntegerEnding
    residual: Value | None
    flip: Value | None

    def at(self, packed: Value, channel: Value) -> IntegerEnding:
        """Return the epilogue of tiles that begin at a channel."""
        return self.first.at(packed, channel)


def _endings(b: ir.IRBuilder, spec: IntegerConv2d, machine: Machine) -> Endings:
    form, outputs = spec.form(machine), spec.groups * spec.panels * spec.lanes
    first, residual = integer_ending(b, spec, form.signed, outputs)
    flip = flip_register(b, form, address(b, first.sums, (1 + spec.offsets) * outputs * F32_BYTES))
    return _IntegerEndings(first, residual, flip)


def emit_iconv2d(module: ir.Module, spec: IntegerConv2d, machine: Machine, macro: MacroTile = PLAIN) -> ir.Function:
    """Emit the function of an IntegerConv2d."""
    return emit_convolution(module, spec, machine, macro, _endings)


def emit_idepthwise(
    module: ir.Module, spec: IntegerDepthwise, machine: Machine, macro: MacroTile = PLAIN_DEPTHWISE
) -> ir.Function:
    """Emit the function of an IntegerDepthwise."""
    return emit_depthwise_sums(module, spec, machine, macro, _DepthwiseEndings)


@dataclass(frozen=True)
class _DepthwiseEnding:
    """The epilogue of a depthwise kernel's pixels, for a vector of channels."""

    ending: IntegerEnding

    def store(self, total: Value, lanes: int, used: int, out: Value, residual: Value | None) -> None:
        """Emit the results of a pixel's sums, and their store."""
        b = self.ending.b
        added = residual and load_lanes(b, residual, F32, lanes, used, "residual")
        value = self.ending.value(self.ending.terms(0, lanes, used), total, None, added)
        store_lanes(b, value, out, lanes, used)


class _DepthwiseEndings:
    """The epilogues of a depthwise kernel's pixels."""

    def __init__(self, b: ir.IRBuilder, spec: IntegerDepthwise, machine: Machine, signed: bool) -> None:
        self.first, self.residual = integer_ending(b, spec, signed, spec.padded_channels)

    def at(self, channel: Value) -> _DepthwiseEnding:
        """Return the epilogue of vectors that begin at a channel."""
        return _DepthwiseEnding(self.first.at(channel, channel))


LOWER = {"iconv2d": lower_iconv2d, "imatmul": lower_imatmul}
EMIT = {IntegerConv2d: emit_iconv2d, IntegerDepthwise: emit_idepthwise}
EMIT_TILED = {IntegerConv2d: emit_iconv2d, IntegerDepthwise: emit_idepthwise}
REGISTERS = {IntegerConv2d: qconv2d_registers}
