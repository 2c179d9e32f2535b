"""Test case of a layer's kernel: inputs, the plan interpreter's answer, and the error bound of each element."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mavcg.accelerators.gpu.gpu_layer import ITEM_BYTES, PACK, GpuLayer
from mavcg.accelerators.gpu.kernel_plan import Kernel
from mavcg.accelerators.gpu.packing import DTYPES, pack_bias, pack_tensor, pack_weights, unpack_tensor
from mavcg.accelerators.plans.text.emit import emit_plan, emit_pool
from mavcg.accelerators.plans.text.interpret import run_plan
from mavcg.accelerators.plans.text.plan import Types
from mavcg.cost.layer import Tile
from mavcg.hardware.accelerator import Accelerator, MemoryLevel

Array = NDArray[Any]
# Sums of products of integers of at most this magnitude are exact in f32, up to 2^20 terms.
LARGEST_WHOLE = 3
_HALF_EPSILON, _SINGLE_EPSILON = 2.0**-11, 2.0**-24


@dataclass(frozen=True)
class LayerCase:
    """Buffers of a kernel, and its expected output.

    bound: largest difference from `expected` allowed for each element; 0 requires equal bits.
    """

    buffers: dict[str, Array]
    expected: Array
    bound: Array

    def mismatches(self) -> int:
        """Return the number of output elements beyond their bound; NaNs count."""
        channels = self.expected.shape[0]
        actual = unpack_tensor(self.buffers["output"], channels)
        with np.errstate(invalid="ignore", over="ignore"):
            same = actual == self.expected
            near = np.abs(actual.astype(np.float64) - self.expected.astype(np.float64)) <= self.bound
        return int((~(same | near)).sum())


def layer_case(kernel: Kernel, seed: int, whole: bool) -> LayerCase:
    """Return seeded inputs of a layer and the plan interpreter's answer.

    whole: true for random integers, false for normally distributed numbers.
    """
    layer, conv = kernel.layer, kernel.layer.conv
    rng = np.random.default_rng(seed)
    whole = whole or layer.type == "i8"

    def numbers(shape: tuple[int, ...], largest: int) -> Array:
        if whole:
            return rng.integers(-largest, largest + 1, shape).astype(DTYPES[layer.type])
        return rng.standard_normal(shape).astype(DTYPES[layer.type])

    largest = 127 if layer.type == "i8" else LARGEST_WHOLE
    x = numbers((conv.groups * conv.ic, conv.ih, conv.iw), largest)
    channels = conv.groups * conv.oc
    shape = (channels, conv.oh, conv.ow)
    buffers = {"input": pack_tensor(x, layer.type), "output": _poison(layer, shape)}
    if kernel.partial_bytes:
        buffers["partial"] = np.full(kernel.partial_bytes // 4, np.float32(np.nan))
    if layer.is_elementwise:
        residual = numbers(shape, largest) if layer.residual else None
        if residual is not None:
            buffers["residual"] = pack_tensor(residual, layer.output)
        return LayerCase(buffers, _combine(layer, x, residual), np.zeros(shape))
    if layer.kind != "conv":
        expected, bound = _pool(layer, x)
        return LayerCase(buffers, expected, bound)
    w = numbers((channels, conv.ic, conv.kh, conv.kw), largest)
    bias = rng.integers(-9, 10, channels)
    scale = None
    if layer.output == "i8":
        # Sums of products of even numbers below 128 have about this deviation: most answers are not clamped.
        deviation = 73.0 * 73.0 * np.sqrt(conv.ic * conv.kh * conv.kw)
        scale = (rng.uniform(20, 60, channels) / deviation).astype(np.float32)
    residual = numbers(shape, largest) if layer.residual else None
    buffers |= {"weights": pack_weights(kernel, w), "bias": pack_bias(kernel, bias, scale)}
    if residual is not None:
        buffers["residual"] = pack_tensor(residual, layer.output)
    sums = interpret_sums(kernel, x, w)
    expected = _finish(layer, sums, bias, scale, residual)
    if whole and layer.act != "leaky_relu":
        return LayerCase(buffers, expected, np.zeros(shape))
    if layer.output in ("i8", "i32"):
        return LayerCase(buffers, expected, np.zeros(shape))
    # A sum of n terms in any order is off by at most n epsilon times the sum of their magnitudes (Higham, 4.2).
    terms = conv.ic * conv.kh * conv.kw + 2
    magnitudes = interpret_sums(kernel, np.abs(x), np.abs(w)) + np.abs(bias)[:, None, None]
    if residual is not None:
        magnitudes = magnitudes + np.abs(residual.astype(np.float64))
    bound = terms * _SINGLE_EPSILON * magnitudes
    if layer.output == "f16":
        bound = bound + 2 * _HALF_EPSILON * (np.abs(expected.astype(np.float64)) + bound) + 2.0**-24
    return LayerCase(buffers, expected, bound)


def interpret_sums(kernel: Kernel, x: Array, w: Array) -> Array:
    """Return the layer's sums by its plan's commands, [channels, rows, columns]: i32 for int8, else f64."""
    layer, conv = kernel.layer, kernel.layer.conv
    types = Types(layer.type, layer.type, layer.output, "i32" if layer.type == "i8" else "f32")
    plan = emit_plan(conv, kernel.tiling, _unbounded_machine(), types)
    kind = np.int32 if layer.type == "i8" else np.float64
    weights = w.reshape(conv.groups * conv.oc, conv.ic, conv.kh, conv.kw)
    sums: Array = run_plan(plan, x[None].astype(kind), weights.astype(kind)).output
    return sums.reshape(sums.shape[1:])


def _unbounded_machine() -> Accelerator:
    """Return a machine whose memories hold any tile; the compiler checks that tiles fit a block."""
    size = 1 << 40
    return Accelerator("block", 1.0, (MemoryLevel("block", 1.0, size, size, size),), (1, 1), (("OC",), ()))


def _poison(layer: GpuLayer, shape: tuple[int, int, int]) -> Array:
    channels, rows, columns = shape
    pack = PACK[layer.output]
    words = (-(-channels // pack), rows, columns, pack)
    bits = np.full(int(np.prod(words)) * ITEM_BYTES[layer.output], 0xFF if layer.output[0] == "f" else 0x55, np.uint8)
    return np.frombuffer(bits.tobytes(), DTYPES[layer.output]).reshape(words).copy()


def _finish(layer: GpuLayer, sums: Array, bias: Array, scale: Array | None, residual: Array | None) -> Array:
    """Return the layer's output from its sums: bias, residual, activation, requantization."""
    if layer.output == "i32":
        return sums.astype(np.int32)
    if layer.output == "i8":
        assert scale is not None
        total = (sums.astype(np.int64) + bias[:, None, None]).astype(np.int32)
        value = np.rint(_activate(layer, total.astype(np.float32) * scale[:, None, None])).astype(np.int64)
        added: Array = value if residual is None else value + residual.astype(np.int64)
        return np.asarray(np.clip(added, -128, 127), np.int8)
    floats: Array = sums + bias[:, None, None] + (0 if residual is None else residual.astype(np.float64))
    with np.errstate(over="ignore"):
        return np.asarray(_activate(layer, floats.astype(np.float32)).astype(DTYPES[layer.output]))


def _activate(layer: GpuLayer, x: Array) -> Array:
    match layer.act:
        case "relu":
            return np.maximum(x, np.float32(0))
        case "leaky_relu":
            return np.where(x > 0, x, x * np.float32(layer.act_args[0]))
        case "clip":
            return np.clip(x, np.float32(layer.act_args[0]), np.float32(layer.act_args[1]))
    return x


def _combine(layer: GpuLayer, x: Array, second: Array | None) -> Array:
    """Return the output of an element-wise operator: one operation in f32 rounds as the kernel's does."""
    a: Array = x.astype(np.float32)
    b: Array = a if second is None else second.astype(np.float32)
    answers: dict[str, Array] = {"copy": a, "add": a + b, "sub": a - b, "mul": a * b, "max": np.maximum(a, b)}
    value = answers[layer.kind]
    value = _activate(layer, value)
    if layer.type == "i8":
        value = np.clip(np.rint(value), -128, 127)
    return value.astype(DTYPES[layer.output])


def _pool(layer: GpuLayer, x: Array) -> tuple[Array, Array]:
    """Return the output of a pooling by the plan interpreter, and the error bound of each element."""
    conv = layer.conv
    types = Types(*(("i8", "i8", "i8", "i32") if layer.type == "i8" else ("f64",) * 4))
    tile = Tile(min(conv.groups, 64), 1, min(conv.oh, 16), conv.ow, conv.kh, conv.kw)
    plan = emit_pool(conv, tile, _unbounded_machine(), layer.kind == "max_pool", types)
    kind = np.int32 if layer.type == "i8" else np.float64
    answer = np.asarray(run_plan(plan, x[None].astype(kind), None).output)[0]
    if layer.kind == "max_pool" or layer.type == "i8":
        return answer.astype(DTYPES[layer.type]), np.zeros(answer.shape)
    epsilon = _SINGLE_EPSILON if layer.type == "f32" else _HALF_EPSILON
    bound = (conv.kh * conv.kw + 2) * _SINGLE_EPSILON * np.abs(x).max() + 2 * epsilon * np.abs(answer)
    return answer.astype(DTYPES[layer.type]), bound
