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
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.accelerators import windows
from mavcg.accelerators.xgraph import SLOPE_BITS, Parameters, XGraph, XNode
from mavcg.graph import Array
from mavcg.reference.evaluate import run as run_graph

# Shifts round to nearest with halves up, to nearest with halves away from 0, or down (truncate: an arithmetic shift).
ROUNDINGS = ("half_up", "half_away", "floor")
LOWEST, HIGHEST = -128, 127
RECIPROCAL_BITS = 15


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


def reciprocal(divisor: int) -> tuple[int, int]:
    """Return (m, p) with m * 2^-p nearest to 1 / divisor and 2^15 <= m < 2^16: exact for powers of two."""
    bits = RECIPROCAL_BITS + (divisor - 1).bit_length()
    return ((2 << bits) + divisor) // (2 * divisor), bits


def bounds(node: XNode) -> tuple[int, int]:
    """Return the smallest and the largest integer that a quantised node may write (step 3)."""
    if node.act == "relu":
        return 0, HIGHEST
    if node.act == "clip":
        lo, hi = (int(v) for v in to_integers(np.asarray(node.act_args, np.float64), node.radix or 0))
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


def finish(node: XNode, sums: Array, shift: Any, rounding: str) -> Array:
    """Apply steps 2 and 3: multiplier, shift, activation and saturation. Returns: int8."""
    slope = slope_of(node)
    if node.multipliers:
        sums = np.asarray(sums, np.int64) * np.asarray(node.multipliers, np.int64)
    shifted = shift_round(sums, shift, rounding)
    if slope is not None:
        negative = shift_round(np.asarray(sums, np.int64) * slope, np.asarray(shift) + SLOPE_BITS, rounding)
        shifted = np.where(np.asarray(sums) < 0, negative, shifted)
    return np.clip(shifted, *bounds(node)).astype(np.int8)


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


def convolution_sums(node: XNode, parameters: Parameters, x: Array) -> Array:
    """Return the sums of step 1 of a convolution, modulo 2^32, as int32. x: int8 [N, H, W, C]."""
    weights, bias = parameters.weights, parameters.bias.astype(np.int64)
    magnitudes = np.abs(weights.astype(np.int64)).reshape(len(weights), -1).sum(axis=1)
    largest = int(magnitudes.max(initial=0)) * max(-int(x.min(initial=0)), int(x.max(initial=0)))
    # Sums of products of int8 are exact in f32 up to 2^24, in any order, and in f64: 2^38 of them are below 2^52.
    real = np.float32 if largest <= 1 << 24 else np.float64
    sums = windows.convolve(node, x.astype(real), weights.astype(real))
    if largest + int(np.abs(bias).max(initial=0)) < 1 << 31:
        return np.asarray(sums.astype(np.int32) + bias.astype(np.int32))
    return wrap32(sums.astype(np.int64) + bias).astype(np.int32)


def _evaluate_avg_pool(node: XNode, x: Array, x_radix: int, rounding: str) -> Array:
    assert node.radix is not None
    sums = windows.window_sums(node, x.astype(np.int64))
    counts = windows.window_counts(node, x.shape)
    factors = {int(d): reciprocal(int(d)) for d in np.unique(counts)}
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
    "max": np.maximum,
    "min": np.minimum,
}


def _eltwise_sums(node: XNode, inputs: Sequence[Array], radices: Sequence[int]) -> Array:
    if node.op == "copy":
        return inputs[0].astype(np.int32)
    if node.op == "mul":
        return inputs[0].astype(np.int32) * inputs[1].astype(np.int32)
    a, b = _align(node, inputs, radices)
    return _ELTWISE[node.op](a, b)


def evaluate_node(
    node: XNode, parameters: Parameters | None, inputs: Sequence[Array], radices: Sequence[int], rounding: str
) -> Array:
    """Return the tensor of one accelerator node, computed in the three steps of this module.

    Args:
        parameters: weights and bias; None for kinds without them.
        inputs: int8, whole tensors.
        radices: radix positions of the inputs.
        rounding: one of ROUNDINGS.
    Returns: int8 of the node's shape.
    """
    assert node.radix is not None
    if node.kind == "avg_pool":
        return _evaluate_avg_pool(node, inputs[0], radices[0], rounding)
    if node.kind == "concat":
        parts = [finish(node, x, r - node.radix, rounding) for x, r in zip(inputs, radices, strict=True)]
        return np.concatenate(parts, axis=-1)
    if node.kind in ("conv", "depthwise", "deconv", "dense"):
        assert parameters is not None
        sums = convolution_sums(node, parameters, inputs[0])
    elif node.kind == "eltwise":
        sums = _eltwise_sums(node, inputs, radices)
    elif node.kind == "max_pool":
        sums = windows.window_greatest(node, inputs[0])
    else:
        sums = windows.move_elements(node, inputs[0])
    return finish(node, sums, accumulator_radix(node, radices) - node.radix, rounding)


def evaluate(graph: XGraph, images: Mapping[str, Array], rounding: str) -> dict[str, Array]:
    """Return every tensor of a quantised graph by name: int8, or f32 for host nodes without a radix position.

    images: int8 for each input node, at its radix position. Host nodes are computed in f32 from the real numbers that
    their inputs represent, and rounded to their radix position if they have one.
    """
    nodes, values = graph.by_name(), dict[str, Array]()
    for node in graph.nodes:
        radices = [nodes[name].radix for name in node.inputs]
        inputs = [values[name] for name in node.inputs]
        if node.kind == "input":
            values[node.name] = np.asarray(images[node.name], np.int8).reshape(node.shape)
        elif node.kind == "host":
            values[node.name] = evaluate_host(graph, node, inputs, radices)
        else:
            known = [r for r in radices if r is not None]
            values[node.name] = evaluate_node(node, graph.parameters.get(node.name), inputs, known, rounding)
    return values


def evaluate_host(graph: XGraph, node: XNode, inputs: Sequence[Array], radices: Sequence[int | None]) -> Array:
    """Return the tensor of a host node. inputs: int8 arrays, or f32 where the radix position is None."""
    host = graph.hosts[node.name]
    reals = [x if r is None else to_reals(x, r) for x, r in zip(inputs, radices, strict=True)]
    shaped = [x.reshape(host.types[name].shape) for name, x in zip(host.inputs, reals, strict=True)]
    (result,) = run_graph(host, *shaped)
    return result if node.radix is None else to_integers(result, node.radix)
