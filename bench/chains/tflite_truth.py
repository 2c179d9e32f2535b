"""A TFLite chain in double precision, and bounds on its rounding errors, as bench.differential.truth has them for ONNX.

Each operator is computed on real numbers: 8-bit tensors are dequantised before it and its result is quantised after it.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.chains.chain import Chain, Node
from bench.differential.part import Array
from bench.differential.truth import SAMPLES, UNITS, Bounded, Errors, bound_of, flushed, is_large, with_errors
from bench.differential.windows import Window, windows
from bench.tflite_file import Quantised

SAME_PADDING, VALID_PADDING = 0, 1
# No rounding of their own.
EXACT = frozenset(
    {
        *("RESHAPE", "TRANSPOSE", "PAD", "MIRROR_PAD", "STRIDED_SLICE", "GATHER", "EXPAND_DIMS", "SQUEEZE"),
        *("TILE", "REVERSE_V2", "SPLIT", "PACK", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "ABS", "NEG", "RELU", "RELU6"),
        *("MAX_POOL_2D", "REDUCE_MAX", "REDUCE_MIN", "MAXIMUM", "MINIMUM", "CEIL", "FLOOR", "ROUND", "SELECT_V2"),
        *("RESIZE_NEAREST_NEIGHBOR", "ARG_MAX", "ARG_MIN", "LESS", "GREATER", "DEQUANTIZE", "TOPK_V2", "CAST"),
    }
)
SUMS = frozenset(
    {
        *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL", "AVERAGE_POOL_2D", "MEAN", "SUM"),
        *("L2_NORMALIZATION", "SOFTMAX", "LOG_SOFTMAX", "RESIZE_BILINEAR", "ADD", "SUB", "TRANSPOSE_CONV"),
        *("SQUARED_DIFFERENCE", "QUANTIZE", "MUL", "CONCATENATION"),
    }
)


def all_bounded(chain: Chain, samples: int = SAMPLES) -> dict[str, Bounded] | None:
    """Return the result and bound of every node's outputs, by name."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        exact = _values(chain, None)
        moved = [_values(chain, Errors(i, np.random.default_rng(i // 2))) for i in range(samples)]
        results: dict[str, Bounded] = {}
        large: set[str] = set()
        for node in chain.nodes:
            of_large = any(
                name in large or is_large(exact[name], np.dtype(_dtype(chain, name))) for name in node.inputs if name
            )
            large |= set(node.outputs) if of_large else set()
            for name in node.outputs:
                dtype = np.dtype(chain.dtypes[name])
                results[name] = bound_of(exact[name], [s[name] for s in moved], dtype, of_large)
        return results


def _dtype(chain: Chain, name: str) -> str:
    known = chain.inputs.get(name, chain.constants.get(name))
    return chain.dtypes[name] if known is None else known.dtype.name


def real(x: Array, quantised: Quantised | None) -> Array:
    """Return the numbers that a tensor stands for: of floats in f64, of other types as they are."""
    if quantised is None:
        return x.astype(np.float64) if x.dtype.kind == "f" else x
    scale = np.asarray(quantised.scale, np.float32).astype(np.float64)
    if scale.size > 1:
        scale = scale.reshape([-1 if at == quantised.axis else 1 for at in range(x.ndim)])
    return np.asarray((x.astype(np.float64) - quantised.zero) * scale)


def stored(x: Array, dtype: str, quantised: Quantised | None) -> Array:
    """Return real numbers as a tensor holds them; floats stay in f64."""
    if quantised is None:
        return x if np.dtype(dtype).kind == "f" else x.astype(dtype)
    info = np.iinfo(dtype)
    whole = np.rint(x / np.float64(np.float32(quantised.scale))) + quantised.zero
    return np.clip(whole, info.min, info.max).astype(dtype)


def _values(chain: Chain, errors: Errors | None) -> dict[str, Array]:
    """Return all tensors as they are stored, floats in f64."""
    values: dict[str, Array] = {**chain.constants, **chain.inputs}
    single = np.dtype(np.float32)
    for node in chain.nodes:
        given = [real(values[name], chain.quantised.get(name)) if name else None for name in node.inputs]
        if errors is not None and node.op in SUMS:
            given = [
                with_errors(x, single, UNITS, errors) if x is not None and x.dtype.kind == "f" else x for x in given
            ]
        for name, result in zip(node.outputs, computed(node, given), strict=True):
            is_rounded = node.op not in EXACT or _is_requantised(chain, node, name)
            if errors is not None and result.dtype.kind == "f" and is_rounded:
                result = with_errors(result, single, UNITS, errors)
                if node.op == "SOFTMAX":
                    result = flushed(result, errors)
                if (
                    node.op in ("GELU", "HARD_SWISH") and given[0] is not None
                ):  # cancellation inside: relative to the argument
                    slack = UNITS * float(np.finfo(np.float32).eps) * np.abs(given[0])
                    result = result + np.where(np.isfinite(slack), slack, 0) * errors.directions(result.shape)
            values[name] = stored(result, chain.dtypes[name], chain.quantised.get(name))
    return values


def _is_requantised(chain: Chain, node: Node, output: str) -> bool:
    """Return True if an 8-bit result has another scale than an argument, whose quotient each runtime rounds."""
    to = chain.quantised.get(output)
    sources = [chain.quantised[name] for name in node.inputs if name in chain.quantised]
    return to is not None and any(np.float32(source.scale) != np.float32(to.scale) for source in sources)


def computed(node: Node, given: Sequence[Array | None]) -> list[Array]:
    """Return a node's results of real numbers."""
    made = DEFINITIONS[node.op](*given, **{name: value for name, value in node.attributes.items() if name})
    return [np.asarray(x) for x in (made if isinstance(made, tuple | list) else (made,))]


def _activated(x: Array, number: int) -> Array:
    return {0: x, 1: np.maximum(x, 0), 2: np.clip(x, -1, 1), 3: np.clip(x, 0, 6)}[number]


def window_of(shape: Sequence[int], kernel: Sequence[int], padding: int, attributes: Mapping[str, Any]) -> Window:
    """Return the geometry of a window. shape: [N, H, W, C]."""
    strides = (attributes.get("strideH", 1), attributes.get("strideW", 1))
    dilations = (attributes.get("dilationHFactor", 1), attributes.get("dilationWFactor", 1))
    lengths, before, after = [], [], []
    for n, k, stride, dilation in zip(shape[1:3], kernel, strides, dilations, strict=True):
        span = (k - 1) * dilation + 1
        length = -(-n // stride) if padding == SAME_PADDING else (n - span) // stride + 1
        total = max(0, (length - 1) * stride + span - n) if padding == SAME_PADDING else 0
        lengths.append(length)
        before.append(total // 2)
        after.append(max(total - total // 2, (length - 1) * stride + span - n - total // 2))
    return Window(kernel, strides, dilations, lengths, before, after, after)


def _taps(x: Array, kernel: Sequence[int], padding: int, attributes: Mapping[str, Any], fill: float) -> Array:
    """Return [N, OH, OW, C, taps]."""
    inside = windows(x.transpose(0, 3, 1, 2), window_of(x.shape, kernel, padding, attributes), fill)
    return inside.transpose(0, 2, 3, 1, 4)


def _conv(x: Array, w: Array, b: Array | None = None, padding: int = 0, **a: Any) -> Array:
    taps = _taps(x, w.shape[1:3], padding, a, 0)  # w: [out, KH, KW, in]
    y = np.einsum("nhwct,otc->nhwo", taps, w.reshape(w.shape[0], -1, w.shape[3]))
    return _activated(y if b is None else y + b, a.get("fusedActivationFunction", 0))


def _depthwise(x: Array, w: Array, b: Array | None = None, padding: int = 0, **a: Any) -> Array:
    taps = _taps(x, w.shape[1:3], padding, a, 0)  # w: [1, KH, KW, C * multiplier]
    multiplier = w.shape[3] // x.shape[3]
    y = np.einsum("nhwct,tcm->nhwcm", taps, w.reshape(-1, x.shape[3], multiplier))
    y = y.reshape(*y.shape[:3], -1)
    return _activated(y if b is None else y + b, a.get("fusedActivationFunction", 0))


def _max_pool(x: Array, padding: int, filterHeight: int, filterWidth: int, **a: Any) -> Array:  # noqa: N803
    y = _taps(x, (filterHeight, filterWidth), padding, a, -np.inf).max(-1)
    return _activated(y, a.get("fusedActivationFunction", 0))


def _average_pool(x: Array, padding: int, filterHeight: int, filterWidth: int, **a: Any) -> Array:  # noqa: N803
    kernel = (filterHeight, filterWidth)
    total, count = (_taps(v, kernel, padding, a, 0).sum(-1) for v in (x, np.ones(x.shape)))
    return _activated(total / count, a.get("fusedActivationFunction", 0))


def _fully_connected(x: Array, w: Array, b: Array | None = None, keepNumDims: bool = False, **a: Any) -> Array:  # noqa: N803
    rows = x if keepNumDims else x.reshape(-1, w.shape[1])
    y = rows @ w.T
    return _activated(y if b is None else y + b, a.get("fusedActivationFunction", 0))


def _binary(op: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda x, y, fusedActivationFunction=0, **_: _activated(op(x, y), fusedActivationFunction)  # noqa: N803


def _reduced(op: Callable[..., Array]) -> Callable[..., Array]:
    return lambda x, axes, keepDims: op(x, axis=tuple(axes.tolist()), keepdims=keepDims)  # noqa: N803


def _strided_slice(x: Array, begin: Array, end: Array, strides: Array, **masks: int) -> Array:
    def on(mask: str, axis: int) -> bool:
        return bool(masks.get(mask, 0) >> axis & 1)

    cut: list[slice | int] = []
    for axis, (first, last, step) in enumerate(zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)):
        if on("shrinkAxisMask", axis):
            cut.append(first)
            continue
        cut.append(slice(None if on("beginMask", axis) else first, None if on("endMask", axis) else last, step))
    return np.asarray(x[tuple(cut)])


def _positions(n: int, length: int, corners: bool, half: bool) -> Array:
    scale = np.float32((n - 1) / (length - 1)) if corners and length > 1 else np.float32(n / length)
    at = np.arange(length, dtype=np.float32)
    return np.asarray((at + np.float32(0.5)) * scale - np.float32(0.5) if half else at * scale, np.float64)


def _bilinear(x: Array, size: Array, alignCorners: bool = False, halfPixelCenters: bool = False) -> Array:  # noqa: N803
    for axis, length in zip((1, 2), size.tolist(), strict=True):
        n = x.shape[axis]
        at = _positions(n, length, alignCorners, halfPixelCenters)
        low = np.clip(np.floor(at), 0, n - 1).astype(int)
        high = np.clip(np.floor(at) + 1, 0, n - 1).astype(int)
        part = (at - np.floor(at)).reshape([-1 if i == axis else 1 for i in range(4)])
        x = np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part
    return x


def _nearest(x: Array, size: Array, alignCorners: bool = False, halfPixelCenters: bool = False) -> Array:  # noqa: N803
    for axis, length in zip((1, 2), size.tolist(), strict=True):
        n = x.shape[axis]
        scale = np.float32((n - 1) / (length - 1)) if alignCorners and length > 1 else np.float32(n / length)
        at = (np.arange(length, dtype=np.float32) + np.float32(0.5 if halfPixelCenters else 0)) * scale
        whole = np.floor(at + np.float32(0.5)) if alignCorners else np.floor(at)
        x = np.take(x, np.clip(whole, 0, n - 1).astype(int), axis)
    return x


def _blocks(x: Array, blockSize: int, apart: bool) -> Array:  # noqa: N803
    n, h, w, c = x.shape
    if apart:
        y = x.reshape(n, h, w, blockSize, blockSize, c // blockSize**2)
        return y.transpose(0, 1, 3, 2, 4, 5).reshape(n, h * blockSize, w * blockSize, -1)
    y = x.reshape(n, h // blockSize, blockSize, w // blockSize, blockSize, c)
    return y.transpose(0, 1, 3, 2, 4, 5).reshape(n, h // blockSize, w // blockSize, -1)


def _softmax(x: Array, beta: float) -> Array:
    e = np.exp(beta * (x - x.max(-1, keepdims=True)))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _log_softmax(x: Array) -> Array:
    y = x - x.max(-1, keepdims=True)
    return np.asarray(y - np.log(np.exp(y).sum(-1, keepdims=True)))


def _l2_normalized(x: Array, **_: Any) -> Array:
    return np.asarray(x / np.sqrt(np.maximum((x * x).sum(-1, keepdims=True), 1e-6)))


def _gelu(x: Array, approximate: bool) -> Array:
    if approximate:
        return np.asarray(x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    return x * np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x.reshape(-1).tolist()]).reshape(x.shape)


def _top_k(x: Array, k: Array) -> tuple[Array, Array]:
    order = np.argsort(-x, -1, kind="stable")[..., : int(k)]
    return np.take_along_axis(x, order, -1), order


def _matmul(a: Array, b: Array, adjX: bool, adjY: bool) -> Array:  # noqa: N803
    return np.asarray((np.swapaxes(a, -1, -2) if adjX else a) @ (np.swapaxes(b, -1, -2) if adjY else b))


def _logistic(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e / (1 + e), 1 / (1 + e))


DEFINITIONS: Mapping[str, Callable[..., Any]] = {
    "ABS": np.abs,
    "NEG": np.negative,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "ROUND": np.rint,
    "EXP": np.exp,
    "SQUARE": np.square,
    "TANH": np.tanh,
    "LOGISTIC": _logistic,
    "ELU": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    "GELU": _gelu,
    "HARD_SWISH": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "RELU": lambda x: np.maximum(x, 0),
    "RELU6": lambda x: np.clip(x, 0, 6),
    "LEAKY_RELU": lambda x, alpha: np.where(x < 0, np.float64(np.float32(alpha)) * x, x),
    "ADD": _binary(np.add),
    "SUB": _binary(np.subtract),
    "MUL": _binary(np.multiply),
    "DIV": _binary(np.divide),
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "SQUARED_DIFFERENCE": lambda x, y: np.square(x - y),
    "LESS": np.less,
    "GREATER": np.greater,
    "SELECT_V2": np.where,
    "MEAN": _reduced(np.mean),
    "SUM": _reduced(np.sum),
    "REDUCE_MAX": _reduced(np.max),
    "REDUCE_MIN": _reduced(np.min),
    "ARG_MAX": lambda x, axis, **_: np.argmax(x, int(axis)),
    "ARG_MIN": lambda x, axis, **_: np.argmin(x, int(axis)),
    "TOPK_V2": _top_k,
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _matmul,
    "MAX_POOL_2D": _max_pool,
    "AVERAGE_POOL_2D": _average_pool,
    "SOFTMAX": _softmax,
    "LOG_SOFTMAX": _log_softmax,
    "L2_NORMALIZATION": _l2_normalized,
    "RESIZE_BILINEAR": _bilinear,
    "RESIZE_NEAREST_NEIGHBOR": _nearest,
    "RESHAPE": lambda x, shape, **_: x.reshape(shape.tolist()),
    "TRANSPOSE": lambda x, perm: x.transpose(perm.tolist()),
    "PAD": lambda x, pads: np.pad(x, pads.tolist()),
    "MIRROR_PAD": lambda x, pads, mode: np.pad(x, pads.tolist(), ("reflect", "symmetric")[mode]),
    "STRIDED_SLICE": _strided_slice,
    "SPLIT": lambda axis, x, numSplits: tuple(np.split(x, numSplits, int(axis))),  # noqa: N803
    "CONCATENATION": lambda *parts, axis, **_: np.concatenate(parts, axis),
    "PACK": lambda *parts, axis, **_: np.stack(parts, axis),
    "GATHER": lambda x, indices, axis: np.take(x, indices, axis),
    "EXPAND_DIMS": lambda x, axis: np.expand_dims(x, int(axis)),
    "SQUEEZE": lambda x, squeezeDims: np.squeeze(x, tuple(squeezeDims)),  # noqa: N803
    "TILE": lambda x, counts: np.tile(x, counts.tolist()),
    "REVERSE_V2": lambda x, axes: np.flip(x, tuple(axes.tolist())),
    "SPACE_TO_DEPTH": lambda x, blockSize: _blocks(x, blockSize, False),  # noqa: N803
    "DEPTH_TO_SPACE": lambda x, blockSize: _blocks(x, blockSize, True),  # noqa: N803
    "QUANTIZE": lambda x: x,
    "DEQUANTIZE": lambda x: x,
}
