"""The operators that ONNX's reference implementation lacks or computes otherwise, and one node's results.

Those of com.microsoft are not ONNX's; of others its reference has errors, or cancellation (exp(x) - 1 near zero).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.differential.part import Array
from bench.differential.reference import run_reference
from bench.differential.sequences import DEFINITIONS as SEQUENCES
from bench.differential.windows import DEFINITIONS as WINDOWS
from bench.differential.windows import convolution


def computed(node: Any, opset: int, given: Sequence[Array]) -> Sequence[Array]:
    """Return a node's results. given: its inputs, in the type to compute in. Raises: NotComputedError."""
    from onnx import helper

    if node.op_type == "DequantizeLinear":
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        columns = [-1 if at == axis % given[0].ndim else 1 for at in range(given[0].ndim)]
        scales = [v.reshape(columns) if v.size > 1 else v for v in given[1:]]
        return [_real(given[0], *scales).astype(given[1].dtype)]
    if node.op_type in ("Softmax", "LogSoftmax", "Hardmax") and opset < 13:
        # Over all dimensions from axis on, which ONNX's reference does not know.
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        x, flat = given[0], helper.make_node(node.op_type, ["x"], ["y"], axis=1)
        rows = x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), -1)
        return [computed(flat, 13, [rows])[0].reshape(x.shape)]
    if node.op_type == "Resize" and len(node.input) == 3:
        resized = _resized(node, opset, given[0], given[2])
        if resized is not None:
            return resized
    own = DEFINITIONS.get(node.op_type)
    if own is not None:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        made = own(*given, **attributes)
        arrays = [np.asarray(array) for array in (made if isinstance(made, tuple) else (made,))][: len(node.output)]
        return [x.astype(given[0].dtype) if x.dtype.kind == given[0].dtype.kind == "f" else x for x in arrays]
    inputs = {name: x for name, x in zip(node.input, given, strict=True) if name}
    return run_reference(node, opset, inputs)


def _resized(node: Any, opset: int, x: Array, scales: Array) -> Sequence[Array] | None:
    """Return a Resize by the length that the result has; None where ONNX's reference computes it so.

    It takes the length before it is rounded down (docs/operators.md).
    """
    from onnx import helper

    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    rule, named = attributes.get("coordinate_transformation_mode"), ["x", "", "scales"]
    sizes = np.floor(np.asarray(x.shape) * scales).astype(np.int64) if scales.size == x.ndim else None
    if sizes is not None and rule == b"align_corners":
        given, named = {"x": x, "sizes": sizes}, ["x", "", "", "sizes"]
    elif sizes is not None and rule == b"pytorch_half_pixel" and not attributes.get("antialias"):
        first = x[tuple(slice(1) if size == 1 else slice(None) for size in sizes)]  # a single element is the first one
        given = {"x": first, "scales": np.where(sizes == 1, 1, scales).astype(scales.dtype)}
    else:
        return None
    sized = helper.make_node("Resize", named, ["y"])
    sized.attribute.extend(node.attribute)
    return run_reference(sized, opset, given)


def _gelu_tail(x: Array) -> Array:
    """Return Phi(x), the normal distribution function, by erfc: accurate far below zero."""
    return np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x.reshape(-1).tolist()]).reshape(x.shape)


def _gelu(x: Array, bias: Array | None = None, approximate: bytes = b"none") -> Array:
    x = x if bias is None else x + bias
    if approximate == b"tanh":
        return np.asarray(x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    return np.asarray(x * _gelu_tail(x))


def _elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _selu(x: Array, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Array:
    return np.where(x <= 0, gamma * alpha * np.expm1(np.minimum(x, 0)), gamma * x)


def _celu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0) / alpha), x)


def _sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(np.minimum(x, 0)) / (1 + np.exp(np.minimum(x, 0))), 1 / (1 + np.exp(-x)))


def _fused_matmul(a: Array, b: Array, alpha: float = 1.0, transA: int = 0, transB: int = 0) -> Array:  # noqa: N803
    a, b = (np.swapaxes(x, -1, -2) if turned else x for x, turned in ((a, transA), (b, transB)))
    return np.asarray(alpha * (a @ b))


def _real(x: Array, scale: Array, zero: Array | float = 0.0) -> Array:
    return (x.astype(np.float64) - np.asarray(zero, np.float64)) * scale.astype(np.float64)


def _stored(x: Array, scale: Array, zero: Array) -> Array:
    info = np.iinfo(zero.dtype)
    whole = np.rint(x / scale.astype(np.float64)) + zero.astype(np.float64)
    return np.clip(whole, info.min, info.max).astype(zero.dtype)


def _qlinear_binary(op: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    return lambda a, sa, za, b, sb, zb, s, z: _stored(op(_real(a, sa, za), _real(b, sb, zb)), s, z)


def _qlinear_concat(s: Array, z: Array, *parts: Array, axis: int = 0) -> Array:
    real = [_real(*parts[i : i + 3]) for i in range(0, len(parts), 3)]
    return _stored(np.concatenate(real, axis), s, z)


def _log_softmax(x: Array, axis: int = -1) -> Array:
    below = x - x.max(axis, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis, keepdims=True)))


def _softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def _qgemm(
    a: Array, sa: Array, za: Array, b: Array, sb: Array, zb: Array, c: Array, s: Array, z: Array, **_: Any
) -> Array:
    real = _real(a, sa, za) @ _real(b, sb, zb) + c.astype(np.float64) * float(sa) * sb
    return _stored(real, s, z)


def _average_pool(x: Array, kernel_shape: Sequence[int]) -> Array:
    from numpy.lib.stride_tricks import sliding_window_view

    return np.asarray(sliding_window_view(x, tuple(kernel_shape), (2, 3)).mean((-1, -2)))


def _global_lp_pool(x: Array, p: int = 2) -> Array:
    return np.asarray((np.abs(x) ** p).sum(tuple(range(2, x.ndim)), keepdims=True) ** (1 / p))


def _lp_normalization(x: Array, axis: int = -1, p: int = 2) -> Array:
    length = (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
    return np.asarray(np.where(length == 0, 0, x / np.where(length == 0, 1, length)))


def _batch_normalization(
    x: Array, scale: Array, bias: Array, mean: Array, var: Array, epsilon: float = float(np.float32(1e-5)), **_: Any
) -> Array:
    scale, bias, mean, var = (v.reshape(-1, *(1,) * (x.ndim - 2)) for v in (scale, bias, mean, var))
    return np.asarray((x - mean) / np.sqrt(var + epsilon) * scale + bias)


def _lrn(x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    """Normalise by the squares of the channels from c - floor((size - 1) / 2) to c + ceil((size - 1) / 2)."""
    before, after = (size - 1) // 2, size // 2
    squares = np.pad(x * x, ((0, 0), (before, after), *((0, 0),) * (x.ndim - 2)))
    channels = x.shape[1]
    total = sum((squares[:, i : i + channels] for i in range(size)), np.zeros_like(x))
    return np.asarray(x / (bias + alpha / size * total) ** beta)


_ACTIVATIONS: Mapping[bytes, Callable[..., Array]] = {
    b"Relu": lambda x: np.maximum(x, 0),
    b"Sigmoid": lambda x: _sigmoid(x),
    b"Tanh": np.tanh,
    b"LeakyRelu": lambda x, alpha: np.where(x < 0, alpha * x, x),
}


def _fused_conv(
    x: Array, w: Array, bias: Array, pads: Sequence[int], activation: bytes, activation_params: Sequence[float] = ()
) -> Array:
    return _ACTIVATIONS[activation](convolution(x, w, bias, pads=pads), *activation_params)


def _qlinear_conv(
    x: Array,
    sx: Array,
    zx: Array,
    w: Array,
    sw: Array,
    zw: Array,
    s: Array,
    z: Array,
    bias: Array | None = None,
    **attributes: Any,
) -> Array:
    columns = (-1, *(1,) * (w.ndim - 1))
    real = _real(w, *(v.reshape(columns) if v.size > 1 else v for v in (sw, zw)))
    y = convolution(_real(x, sx, zx), real, **attributes)
    if bias is not None:
        y = y + (bias * float(sx) * sw.astype(np.float64)).reshape(1, *columns[:-1])
    return _stored(y, s, z)


# com.microsoft, and those that ONNX's reference computes with cancellation (exp(x) - 1 for x near zero).
def _group_normalization(
    x: Array, scale: Array, bias: Array, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Array:
    """Normalise groups of channels. scale, bias: of each channel; before opset 21 of each group."""
    scale, bias = (np.repeat(values, x.shape[1] // values.size) for values in (scale, bias))
    groups = x.reshape(x.shape[0], num_groups, -1)
    centred = groups - groups.mean(-1, keepdims=True)
    normal = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)).reshape(x.shape)
    channels = (1, -1, *[1] * (x.ndim - 2))
    return np.asarray(normal * scale.reshape(channels) + bias.reshape(channels))


DEFINITIONS: Mapping[str, Callable[..., Array]] = {
    "GroupNormalization": _group_normalization,
    "Elu": _elu,
    "Selu": _selu,
    "Celu": _celu,
    "Gelu": _gelu,
    "BiasGelu": _gelu,
    "Sigmoid": _sigmoid,
    "FastGelu": lambda x, bias=None: _gelu(x, bias, b"tanh"),
    "QuickGelu": lambda x, alpha=1.702: x * _sigmoid(alpha * x),
    "Softplus": lambda x: np.logaddexp(0.0, x),
    "Mish": lambda x: x * np.tanh(np.logaddexp(0.0, x)),
    "FusedMatMul": _fused_matmul,
    "FusedConv": _fused_conv,
    "GlobalLpPool": _global_lp_pool,
    "LpNormalization": _lp_normalization,  # ONNX's reference adds the elements themselves where p is 1
    "BatchNormalization": _batch_normalization,  # of opset 9, ONNX's reference takes the mean of inputs into account
    "LogSoftmax": _log_softmax,  # ONNX's reference is a logarithm of 0 where exp is too small
    "LRN": _lrn,  # ONNX's reference takes the number of images for that of channels
    "QLinearAveragePool": lambda x, sx, zx, s, z, kernel_shape, strides: _stored(
        _average_pool(_real(x, sx, zx), kernel_shape), s, z
    ),
    "QLinearAdd": _qlinear_binary(np.add),
    "QLinearMul": _qlinear_binary(np.multiply),
    "QLinearSigmoid": lambda x, sx, zx, s, z: _stored(_sigmoid(_real(x, sx, zx)), s, z),
    "QLinearLeakyRelu": lambda x, sx, zx, s, z, alpha=0.01: _stored(
        np.where(_real(x, sx, zx) < 0, alpha, 1.0) * _real(x, sx, zx), s, z
    ),
    "QLinearGlobalAveragePool": lambda x, sx, zx, s, z, channels_last=0: _stored(
        _real(x, sx, zx).mean((2, 3), keepdims=True), s, z
    ),
    "QLinearConcat": _qlinear_concat,
    "QLinearSoftmax": lambda x, sx, zx, s, z, axis=-1, opset=13: _stored(_softmax(_real(x, sx, zx), axis), s, z),
    "QGemm": _qgemm,
    "QLinearConv": _qlinear_conv,
    **SEQUENCES,
    **WINDOWS,
}
