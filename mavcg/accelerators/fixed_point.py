"""Exact 8-bit integer arithmetic of the accelerator: simulators and hardware compute the same bits.

A tensor of radix position r holds int8 q for the real number q * 2^-r. Every node is computed in three steps:

1. Accumulate, in integers without rounding:
   - conv, depthwise, deconv, dense: sum of input * weight, both int8, plus the int32 bias. Elements outside of the
     input are 0. The sum is taken modulo 2^32, as two's complement, so that neither its order nor tiling matters.
   - avg_pool: sum of the window's inputs (those inside of the map), times reciprocal(d)[0], d the number of positions
     that count: inside of the map, or of its count_pads.
   - eltwise: both inputs shifted left to the greater of their radix positions (add, sub, max, min); their product
     (mul); the input (copy). max_pool: the greatest input of the window, pads left out. concat, upsample, reorganise:
     the input.
2. Shift: v = shift_round(sum, s), s = accumulator's radix position - output's. The accumulator's is input's + weights'
   (per output channel where weight_radix is), input's + reciprocal(d)[1] (avg_pool), the greater of both inputs' (add,
   sub, max, min), their sum (mul), the input's (all others; in concat each input's own). A negative s shifts left. The
   sums of a convolution with multipliers are first multiplied by those of their channels, in 64 bits.
   Where act is "leaky" and the sum is below 0: v = shift_round(sum * slope, s + 8), slope = round(256 * real slope).
3. Saturate v to [lo, hi]: [-128, 127]; relu: lo = 0; clip: its bounds at the output's radix position, rounded half up,
   within [-128, 127].

Tensors with the scale and zero point of an 8-bit file (XNode.scale) have radix positions of 0. Then, in step 1,
elements outside of a convolution's input are its zero point; avg_pool adds inputs less their zero point, times
reciprocal(d, ratio)[0]; eltwise subtracts zero points and multiplies by `multipliers`. Step 2 of these and of
convolutions adds the result's zero point to v. A bias contains what its input's zero point adds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from mavcg.accelerators import windows
from mavcg.accelerators.xgraph import CONVOLUTIONS, SLOPE_BITS, Parameters, XGraph, XNode
from mavcg.graph import Array
from mavcg.graph.reference.evaluate import run as run_graph

# Shifts round to nearest with halves up, to nearest with halves away from 0, or down (truncate: an arithmetic shift).
ROUNDINGS = ("half_up", "half_away", "floor")
LOWEST, HIGHEST = -128, 127
RECIPROCAL_BITS = 15
MOST_SHIFT = 47  # of shifts, which have 7 bits with a sign in instructions


class Quantisation(Protocol):
    """Radix position, scale and zero point of a tensor: an XNode, or a HostTensor of a program."""

    @property
    def radix(self) -> int | None:
        """Return the radix position; None for a tensor in f32."""

    @property
    def scale(self) -> float | None:
        """Return the scale of an 8-bit file; None for a radix position alone."""

    @property
    def zero(self) -> int:
        """Return the zero point of an 8-bit file."""


def shift_round(sums: Array, shift: Any, rounding: str) -> Array:
    """Return sums * 2^-shift as int64, or as int32 if that is enough, rounded as `rounding` says, one of ROUNDINGS.

    sums: integers below 2^62 >> max(0, -shift). shift: an integer, or an array that broadcasts to sums.
    """
    sums, shift = np.asarray(sums), np.asarray(shift, np.int64)
    width = np.int32 if _are_enough_32_bits(sums, shift) else np.int64
    sums, shift = sums.astype(width, copy=False), shift.astype(width)
    right, left = np.clip(shift, 0, 62), np.maximum(-shift, 0)
    half = np.where(right > 0, np.left_shift(width(1), np.maximum(right - 1, 0)), width(0))
    if rounding == "half_up":
        shifted = (sums + half) >> right
    elif rounding == "half_away":
        shifted = np.sign(sums) * ((np.abs(sums) + half) >> right)
    elif rounding == "floor":
        shifted = sums >> right
    else:
        raise ValueError(f"rounding {rounding}: unknown; known: {', '.join(ROUNDINGS)}")
    return np.asarray(shifted << left if left.any() else shifted)


def _are_enough_32_bits(sums: Array, shift: Array) -> bool:
    """Return True if shift_round needs no more than 32 bits: the usual case, which takes half of the time."""
    if not sums.size or sums.dtype.itemsize > 4 or not 0 <= int(shift.min()) <= int(shift.max()) <= 30:
        return False
    half = 1 << int(shift.max()) >> 1
    return half - (1 << 31) < int(sums.min()) <= int(sums.max()) < (1 << 31) - half


def wrap32(sums: Array) -> Array:
    """Return integers modulo 2^32 as two's complement, in int64."""
    return np.asarray(((np.asarray(sums, np.int64) + (1 << 31)) & 0xFFFFFFFF) - (1 << 31))


def reciprocal(divisor: int, ratio: float = 1.0) -> tuple[int, int]:
    """Return (m, p) with m * 2^-p nearest to ratio / divisor and 2^15 <= m < 2^16: exact for powers of two."""
    if ratio != 1:
        return multiplier_of(ratio / divisor)
    bits = RECIPROCAL_BITS + (divisor - 1).bit_length()
    return ((2 << bits) + divisor) // (2 * divisor), bits


def multiplier_of(factor: float) -> tuple[int, int]:
    """Return (m, s) with m * 2^-s nearest to a factor above 0 and 2^15 <= m < 2^16; of tiny factors s is MOST_SHIFT.

    Sums of 32 bits times such a tiny factor round to 0, whatever m is.
    """
    fraction, exponent = math.frexp(factor)
    multiplier, shift = round(math.ldexp(fraction, 16)), 16 - exponent
    if multiplier == 1 << 16:
        multiplier, shift = 1 << 15, shift - 1
    return (multiplier, shift) if shift <= MOST_SHIFT else (1, MOST_SHIFT)


def added_zero(node: XNode) -> int:
    """Return the zero point that step 2 adds; 0 for a node that only moves elements, which keep their own."""
    return node.zero if node.kind in (*CONVOLUTIONS, "avg_pool", "eltwise") else 0


def bounds(node: XNode) -> tuple[int, int]:
    """Return the smallest and the largest integer that a quantised node may write (step 3)."""
    if node.act == "relu":
        return 0, HIGHEST
    if node.act == "clip":
        lo, hi = (int(v) for v in integers_of(node, np.asarray(node.act_args, np.float64)))
        return lo, hi
    return LOWEST, HIGHEST


def slope_of(node: XNode) -> int | None:
    """Return the multiplier of negative sums, in units of 1/256; None for nodes without a leaky activation."""
    return int(np.floor(node.act_args[0] * (1 << SLOPE_BITS) + 0.5)) if node.act == "leaky" else None


def to_integers(values: Array, radix: Any) -> Array:
    """Quantise real numbers: floor(v * 2^radix + 1/2), saturated, as int8.

    radix: an integer, or an array that broadcasts to values.
    """
    scaled = np.asarray(values, np.float64) * np.ldexp(1.0, radix)
    scaled = np.clip(np.floor(scaled + 0.5), LOWEST, HIGHEST)
    return np.asarray(scaled.astype(np.int8))


def to_reals(values: Array, radix: int) -> Array:
    """Return integers of a radix position as real numbers in f32; the conversion is exact."""
    return np.asarray(np.asarray(values, np.float32) * np.float32(2.0**-radix))


def integers_of(tensor: Quantisation, values: Array) -> Array:
    """Return real numbers as a tensor's int8: by its radix position, or by the scale and zero point of an 8-bit file.

    Those are rounded to even, as ONNX and TensorFlow Lite define it; the quotient is an f32.
    """
    if tensor.scale is None:
        return to_integers(values, tensor.radix or 0)
    quotient = (np.asarray(values, np.float32) / np.float32(tensor.scale)).astype(np.float64)
    steps = np.nan_to_num(np.rint(quotient), nan=-tensor.zero) + tensor.zero
    return np.asarray(np.clip(steps, LOWEST, HIGHEST).astype(np.int8))


def reals_of(tensor: Quantisation, values: Array) -> Array:
    """Return a tensor's int8 as the real numbers that they stand for, in f32."""
    if tensor.scale is None:
        return to_reals(values, tensor.radix or 0)
    return np.asarray((values.astype(np.float32) - np.float32(tensor.zero)) * np.float32(tensor.scale))


def finish(node: XNode, sums: Array, shift: Any, rounding: str) -> Array:
    """Apply steps 2 and 3: multiplier, shift, activation, zero point and saturation. Returns: int8."""
    slope = slope_of(node)
    if node.multipliers and node.kind in CONVOLUTIONS:
        sums = np.asarray(sums, np.int64) * np.asarray(node.multipliers, np.int64)
    shifted = shift_round(sums, shift, rounding)
    if slope is not None:
        negative = shift_round(np.asarray(sums, np.int64) * slope, np.asarray(shift) + SLOPE_BITS, rounding)
        shifted = np.where(np.asarray(sums) < 0, negative, shifted)
    return np.asarray(np.clip(shifted + added_zero(node), *bounds(node)).astype(np.int8))


def accumulator_radix(node: XNode, input_radices: Sequence[int]) -> Any:
    """Return the radix position of the sums of step 1: a number, or an array with one per output channel.

    Not for avg_pool, whose reciprocal has a radix position of its own.
    """
    if node.weight_radix:
        per_channel = np.asarray(node.weight_radix, np.int64) + input_radices[0]
        return per_channel if len(node.weight_radix) > 1 else int(per_channel[0])
    if node.kind == "eltwise" and node.op == "mul":
        return sum(input_radices)
    return max(input_radices) if node.kind == "eltwise" else input_radices[0]


def convolution_sums(node: XNode, parameters: Parameters, x: Array, zero: int = 0) -> Array:
    """Return the sums of step 1 of a convolution, modulo 2^32, as int32. x: int8 [N, H, W, C]. zero: its zero point."""
    weights, bias = parameters.weights, parameters.bias.astype(np.int64)
    magnitudes = np.abs(weights.astype(np.int64)).reshape(len(weights), -1).sum(axis=1)
    largest = int(magnitudes.max(initial=0)) * max(-int(x.min(initial=zero)), int(x.max(initial=zero)))
    # Sums of products of int8 are exact in f32 up to 2^24, in any order, and in f64: 2^38 of them are below 2^52.
    real = np.float32 if largest <= 1 << 24 else np.float64
    sums = windows.convolve(node, x.astype(real), weights.astype(real), zero)
    if largest + int(np.abs(bias).max(initial=0)) < 1 << 31:
        return np.asarray(sums.astype(np.int32) + bias.astype(np.int32))
    return wrap32(sums.astype(np.int64) + bias).astype(np.int32)


def _evaluate_avg_pool(node: XNode, x: Array, x_radix: int, rounding: str) -> Array:
    """Return an average. x: integers [N, H, W, C] less their zero point."""
    assert node.radix is not None
    sums = windows.window_sums(node, x.astype(np.int64))
    counts = windows.window_counts(node, x.shape)
    factors = {int(d): reciprocal(int(d), node.ratio) for d in np.unique(counts)}
    multiplier = np.vectorize(lambda d: factors[d][0], otypes=[np.int64])(counts)[..., None]
    shift = np.vectorize(lambda d: factors[d][1], otypes=[np.int64])(counts)[..., None] + x_radix - node.radix
    return finish(node, sums * multiplier, shift, rounding)


def _align(node: XNode, inputs: Sequence[Array], radices: Sequence[int]) -> list[Array]:
    common = max(radices)
    # At most MOST_ALIGNMENT bits more than int8: 23.
    return [x.astype(np.int32) << np.int32(common - r) for x, r in zip(inputs, radices, strict=True)]


_ELTWISE: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _eltwise_sums(node: XNode, inputs: Sequence[Array], radices: Sequence[int]) -> Array:
    if node.multipliers:
        inputs = [x.astype(np.int64) * factor for x, factor in zip(inputs, node.multipliers, strict=True)]
        return np.asarray(_ELTWISE[node.op](*inputs)) if len(inputs) > 1 else inputs[0]
    if node.op == "copy":
        return inputs[0].astype(np.int32)
    if node.op == "mul":
        return inputs[0].astype(np.int32) * inputs[1].astype(np.int32)
    a, b = _align(node, inputs, radices)
    return _ELTWISE[node.op](a, b)


def evaluate_node(
    node: XNode,
    parameters: Parameters | None,
    inputs: Sequence[Array],
    radices: Sequence[int],
    rounding: str,
    zeros: Sequence[int] = (0, 0),
) -> Array:
    """Return the tensor of one accelerator node, computed in the three steps of this module.

    Args:
        parameters: weights and bias; None for kinds without them.
        inputs: int8, whole tensors.
        radices: radix positions of the inputs.
        rounding: one of ROUNDINGS.
        zeros: zero points of the inputs.
    Returns: int8 of the node's shape.
    """
    assert node.radix is not None
    if node.kind in ("avg_pool", "eltwise") and any(zeros):
        inputs = [x.astype(np.int32) - zero for x, zero in zip(inputs, zeros, strict=False)]
    if node.kind == "avg_pool":
        return _evaluate_avg_pool(node, inputs[0], radices[0], rounding)
    if node.kind == "concat":
        parts = [finish(node, x, r - node.radix, rounding) for x, r in zip(inputs, radices, strict=True)]
        return np.concatenate(parts, axis=-1)
    if node.kind in ("conv", "depthwise", "deconv", "dense"):
        assert parameters is not None
        sums = convolution_sums(node, parameters, inputs[0], zeros[0])
    elif node.kind == "eltwise":
        sums = _eltwise_sums(node, inputs, radices)
    elif node.kind == "max_pool":
        sums = windows.window_greatest(node, inputs[0])
    else:
        sums = windows.move_elements(node, inputs[0])
    return finish(node, sums, accumulator_radix(node, radices) - node.radix, rounding)


def evaluate(graph: XGraph, images: Mapping[str, Array], rounding: str) -> dict[str, Array]:
    """Return every tensor of a quantised graph by name: int8, or f32 for host nodes without a radix position.

    images: for each input node int8 at its radix position, or f32 if it has none. Host nodes are computed in f32 from
    the real numbers that their inputs represent, and rounded to their radix position if they have one.
    """
    nodes, values = graph.by_name(), dict[str, Array]()
    for node in graph.nodes:
        radices = [nodes[name].radix for name in node.inputs]
        inputs = [values[name] for name in node.inputs]
        if node.kind == "input":
            dtype = np.float32 if node.radix is None else np.int8
            values[node.name] = np.asarray(images[node.name], dtype).reshape(node.shape)
        elif node.kind == "host":
            values[node.name] = evaluate_host(graph, node, inputs, [nodes[name] for name in node.inputs])
        else:
            known = [r for r in radices if r is not None]
            zeros, own = [nodes[name].zero for name in node.inputs], graph.parameters.get(node.name)
            values[node.name] = evaluate_node(node, own, inputs, known, rounding, zeros)
    return values


def evaluate_host(graph: XGraph, node: XNode, inputs: Sequence[Array], sources: Sequence[Quantisation]) -> Array:
    """Return the tensor of a host node. inputs: int8 arrays, or f32 where a source's radix position is None."""
    host = graph.hosts[node.name]
    reals = [x if s.radix is None else reals_of(s, x) for x, s in zip(inputs, sources, strict=True)]
    shaped = [x.reshape(host.types[name].shape) for name, x in zip(host.inputs, reals, strict=True)]
    (result,) = run_graph(host, *shaped)
    return result if node.radix is None else integers_of(node, result)
