"""The float64 result of a random graph, and a bound on its rounding errors, for the verdicts of bench.differential.

The graph is computed node by node in float64, by ONNX's reference implementation and the definitions below, once as it
is and SAMPLES times with rounding errors put in: each node's result is moved by a few units in the last place of its
type, up or down at random, and so are the arguments of operators that sum. A result that differs from the float64 one
by no more than FACTOR times the largest of these movements is as accurate as can be expected: it is nearly the exact
result for nearly the same arguments (mixed forward-backward stability: Higham, Accuracy and Stability of Numerical
Algorithms, section 1.5). The bound follows the condition of the graph, element by element: it is wide behind a pole or
a jump whose argument lies within rounding errors of it, and a few units in the last place elsewhere.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from bench.differential.part import IR_VERSIONS, MICROSOFT, Array, Part
from bench.differential.sequences import DEFINITIONS as SEQUENCES
from bench.differential.windows import DEFINITIONS as WINDOWS

SAMPLES = 16
FACTOR = 2.0
UNDETERMINED = 0.25  # of the median magnitude of a tensor: a larger movement says that no digit is determined
UNITS = 4.0  # in the last place, that a node's result may be off by, and each argument of a sum
# More for operators that compute in several steps.
UNITS_OF: Mapping[str, float] = {"Pow": 16.0}
SUMS = frozenset(
    {
        "Conv",
        "ConvTranspose",
        "MatMul",
        "Gemm",
        "FusedConv",
        "FusedMatMul",
        "AveragePool",
        "GlobalAveragePool",
        "LpPool",
        "GlobalLpPool",
        "ReduceSum",
        "ReduceMean",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceSumSquare",
        "BatchNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "GroupNormalization",
        "RMSNormalization",
        "LpNormalization",
        "LRN",
        "Softmax",
        "LogSoftmax",
        "CumSum",
        "Resize",
        "Mean",
        "Sum",
        "QuantizeLinear",
        "DynamicQuantizeLinear",
        "QLinearConv",
        "QLinearMatMul",
        "BiasGelu",
        "Mod",
        "QLinearAdd",
        "QLinearMul",
        "QLinearSigmoid",
        "QLinearLeakyRelu",
        "QLinearGlobalAveragePool",
        "QLinearConcat",
        "QLinearSoftmax",
        "QGemm",
        *SEQUENCES,
        "Einsum",
        "MatMulInteger",
        "QLinearAveragePool",
    }
)
# Operators that move or choose elements: their results have no rounding errors of their own.
EXACT = frozenset(
    {
        *("Identity", "Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Concat", "Split", "Pad"),
        *("Expand", "Tile", "Gather", "GatherElements", "GatherND", "TopK", "DepthToSpace", "SpaceToDepth", "Trilu"),
        *("Where", "Max", "Min", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Relu", "Abs", "Neg", "Clip"),
        *("Ceil", "Floor", "Round", "Sign", "OneHot", "EyeLike", "Constant", "ConstantOfShape"),
    }
)
# Computed in f32 whatever the type: ONNX's attribute stash_type says so by default.
STASHED = frozenset({"LayerNormalization", "RMSNormalization", "GroupNormalization"})
# Of f32 these give 0 for results below the normal range (docs/operators.md), which is an error of as much.
FLUSHED = frozenset({"Softmax", "Attention", "MultiHeadAttention"})
LEAST_NORMAL = float(np.finfo(np.float32).tiny)
RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
# Results with cancellation inside: the error is relative to this function of the argument, not to the result.
SCALES: Mapping[str, Callable[[Array], Array]] = {
    "Gelu": np.abs,
    "FastGelu": np.abs,
    "BiasGelu": np.abs,
    "Mish": np.abs,
    "QuickGelu": np.abs,
    "Softplus": lambda x: np.minimum(1.0, np.exp(np.minimum(x, 0.0)) * 2),
}
# Above it a square overflows in the type, and sums of some numbers do: what comes of that depends on the order.
LARGE = {"float16": 100.0, "float32": 1e18, "float64": 1e150}


class NotComputedError(Exception):
    """Raised if ONNX's reference implementation does not compute an operator, or not in this type."""


@dataclass(frozen=True)
class Bounded:
    """An output's float64 result, and the largest difference of an accurate result from it, of the same shape.

    large: True if an argument of a node before it is not finite, or so large that the order of a sum decides about
    overflow.
    """

    value: Array
    bound: Array
    large: bool


@dataclass(frozen=True)
class Errors:
    """Rounding errors of one sample.

    Samples come in pairs with errors of opposite sign, so that jumps on either side are found. Errors of the first
    pairs are as large as allowed, those of the others are random: a periodic function could give the same result for
    the largest errors alone.
    """

    sample: int
    rng: np.random.Generator

    def directions(self, shape: tuple[int, ...]) -> Array:
        """Return the errors of a tensor's elements, in [-1, 1]."""
        sign = 1.0 - self.sample % 2 * 2
        if self.sample < SAMPLES // 2:
            return sign * (self.rng.integers(0, 2, shape) * 2.0 - 1.0)
        return sign * self.rng.uniform(-1.0, 1.0, shape)


def bounded(part: Part) -> list[Bounded] | None:
    """Return the outputs' results and bounds; None if the reference does not compute the graph."""
    known = all_bounded(part)
    return None if known is None else [known[name] for name in part.outputs]


def all_bounded(part: Part, samples: int = SAMPLES) -> dict[str, Bounded] | None:
    """Return the result and bound of every node's outputs; None if the reference does not compute the graph."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            types = {name: value.dtype for name, value in _values(part, {}, None).items()}
            exact = _values(part, types, None)
        except NotComputedError:
            return None
        moved = [_values(part, types, Errors(i, np.random.default_rng(i // 2))) for i in range(samples)]
        large: set[str] = set()
        results = {}
        for node in part.nodes:
            of_large = any(name in large or is_large(exact[name], types[name]) for name in node.input if name)
            for name in filter(None, node.output):
                results[name] = bound_of(exact[name], [s[name] for s in moved], types[name], of_large)
                large |= {name} if of_large else set()
        return results


def is_large(value: Array, dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" and not bool(np.all(np.abs(value) < LARGE[dtype.name]))


def bound_of(exact: Array, samples: Sequence[Array], dtype: np.dtype[Any], large: bool) -> Bounded:
    wide = np.asarray(exact, np.float64)
    bound = np.zeros(wide.shape)
    for sample in samples:
        if sample.shape != wide.shape:  # a Resize whose length was within rounding errors of a whole number
            return Bounded(wide, np.full(wide.shape, np.inf), large)
        moved = sample.astype(np.float64)
        alike = (wide == moved) | (np.isnan(wide) & np.isnan(moved))
        movement = np.where(alike, 0.0, np.abs(moved - wide))
        bound = np.maximum(bound, np.where(np.isnan(movement), np.inf, movement))
    # Where a sample is as far off as numbers of the tensor are large, few samples do not show how far others would be.
    finite = np.abs(wide[np.isfinite(wide) & (wide != 0)])
    bound = np.where(bound > UNDETERMINED * np.median(finite), np.inf, bound) if finite.size else bound
    if dtype.kind == "f":
        bound = FACTOR * bound + 2 * _eps(dtype) * np.where(np.isfinite(wide), np.abs(wide), 0) + _least(dtype)
    return Bounded(wide, bound, large)


def _eps(dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).eps)


def _least(dtype: np.dtype[Any]) -> float:
    return 2 * float(np.finfo(dtype).smallest_subnormal)


def _values(part: Part, types: Mapping[str, np.dtype[Any]], errors: Errors | None) -> dict[str, Array]:
    """Return all tensors of a graph.

    types: the type of each tensor, to compute in float64; empty: compute in the file's own types. errors: rounding
    errors to insert.
    """
    from onnx import numpy_helper

    values = {constant.name: numpy_helper.to_array(constant) for constant in part.constants} | dict(part.inputs)
    values[""] = np.zeros(0)
    for node in part.nodes:
        given = [values[name] for name in node.input]
        if types:
            given = [
                x.astype(np.float64) if name and types[name].kind == "f" else x
                for name, x in zip(node.input, given, strict=True)
            ]
        if errors is not None and node.op_type in SUMS:
            unmoved, whole = given, node.op_type == "Resize"  # its scales: those that are whole numbers are exact
            given = [
                with_errors(x, types[name], UNITS, errors, whole and at > 0) if name else x
                for at, (name, x) in enumerate(zip(node.input, given, strict=True))
            ]
            if whole and not _same_lengths(given, unmoved):
                given = [given[0], *unmoved[1:]]  # the lengths of a result do not depend on rounding
        try:
            results = computed(node, part.opset, given)
        except NotComputedError:
            if not types:
                raise
            narrow = [x.astype(types[name]) if name else x for name, x in zip(node.input, given, strict=True)]
            results = computed(node, part.opset, narrow)
        for name, result in zip(node.output, results, strict=True):
            value = np.asarray(result)
            if types and types[name].kind == "f":
                value = _in_range(value.astype(np.float64), types[name])
                if errors is not None:
                    units = 0.0 if node.op_type in EXACT else UNITS_OF.get(node.op_type, UNITS)
                    if node.op_type in STASHED and types[name] == np.float64:
                        units *= _eps(np.dtype(np.float32)) / _eps(types[name])
                    value = with_errors(value, types[name], units, errors) if units else value
                    if node.op_type in FLUSHED and types[name] == np.float32:
                        value = flushed(value, errors)
                    scale = _absolute_scale(node.op_type, given[0], value.shape)
                    if scale is not None:
                        step = units * _eps(types[name]) * scale
                        value = value + np.where(np.isfinite(step), step, 0) * errors.directions(value.shape)
            values[name] = value
    return values


def _same_lengths(moved: Sequence[Array], exact: Sequence[Array]) -> bool:
    """Return True if a Resize by moved scales has a result of the same lengths."""
    scales, known = (given[2] if len(given) > 2 else np.zeros(0) for given in (moved, exact))
    return scales.size == 0 or all(
        int(n * a) == int(n * b)
        for n, a, b in zip(exact[0].shape[-scales.size :], scales.tolist(), known.tolist(), strict=True)
    )


def _absolute_scale(op: str, x: Array, shape: tuple[int, ...]) -> Array | float | None:
    """Return the magnitude, besides its result, that an operator's rounding errors are relative to.

    None if there is none.
    """
    if op == "Resize" and x.ndim == len(shape):
        # The weights follow from coordinates, whose errors grow with the length.
        return max(*x.shape, *shape, 1) * _neighbours(x, shape)
    if op in RECURRENT:
        return 1.0  # states are sums of products of gates, which are at most 1
    scale = SCALES.get(op)
    return scale(x) if scale is not None and x.shape == shape else None


def _neighbours(x: Array, shape: tuple[int, ...]) -> Array:
    """Return, for each element of a resized array, the largest magnitude within two elements of its source position."""
    largest = np.where(np.isfinite(x), np.abs(x), 0.0)
    for axis, length in enumerate(shape):
        ends = [(2, 2) if i == axis else (0, 0) for i in range(x.ndim)]
        largest = np.lib.stride_tricks.sliding_window_view(np.pad(largest, ends, "edge"), 5, axis).max(-1)
        largest = np.take(largest, np.arange(length) * largest.shape[axis] // max(length, 1), axis)
    return largest


def with_errors(value: Array, dtype: np.dtype[Any], units: float, errors: Errors, whole_stay: bool = False) -> Array:
    """Return a tensor with rounding errors added; zero, infinities and NaN stay, and integers if whole_stay."""
    if dtype.kind != "f" or (whole_stay and bool(np.all(value == np.rint(value)))):
        return value
    step = units * _eps(dtype) * np.abs(value) + np.where(value != 0, _least(dtype), 0.0)
    if whole_stay:
        step = np.where(value == np.rint(value), 0, step)
    return value + np.where(np.isfinite(step), step, 0) * errors.directions(value.shape)


def flushed(value: Array, errors: Errors) -> Array:
    """Return results with errors of f32's least normal number; none changes its sign."""
    moved = value + np.where(value == 0, 0, LEAST_NORMAL) * errors.directions(value.shape)
    return np.where(np.sign(moved) * np.sign(value) < 0, 0, moved)


def _in_range(value: Array, dtype: np.dtype[Any]) -> Array:
    """Return values as the type stores them: infinite on overflow, rounded if denormal."""
    info = np.finfo(dtype)
    value = np.where(np.abs(value) > float(info.max) * (1 + _eps(dtype) / 4), np.copysign(np.inf, value), value)
    return np.where(np.abs(value) < float(info.tiny), value.astype(dtype).astype(np.float64), value)


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
        return [_run_reference(flat, 13, {"x": rows})[0].reshape(x.shape)]
    if node.op_type == "Resize" and _is_aligned(node) and len(node.input) == 3:
        # By the length that the result has (docs/operators.md): ONNX's reference takes it before it is rounded down.
        sizes = np.floor(given[0].shape * np.asarray(given[2])).astype(np.int64)
        sized = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"])
        sized.attribute.extend(node.attribute)
        return _run_reference(sized, opset, {"x": given[0], "sizes": sizes})
    own = DEFINITIONS.get(node.op_type)
    if own is not None:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        made = own(*given, **attributes)
        arrays = [np.asarray(array) for array in (made if isinstance(made, tuple) else (made,))][: len(node.output)]
        return [x.astype(given[0].dtype) if x.dtype.kind == given[0].dtype.kind == "f" else x for x in arrays]
    inputs = {name: x for name, x in zip(node.input, given, strict=True) if name}
    return _run_reference(node, opset, inputs)


def _run_reference(node: Any, opset: int, inputs: Mapping[str, Array]) -> Sequence[Array]:
    evaluator = _reference(node.SerializeToString(), opset)
    try:
        results: Sequence[Array] = evaluator.run(None, dict(inputs))
    except Exception as error:  # it raises whatever its NumPy code raises, for operators that it lacks or has otherwise
        raise NotComputedError(node.op_type) from error
    return results


def _is_aligned(node: Any) -> bool:
    return any(a.name == "coordinate_transformation_mode" and a.s == b"align_corners" for a in node.attribute)


@lru_cache(maxsize=1024)
def _reference(data: bytes, opset: int) -> Any:
    from onnx import NodeProto, helper
    from onnx.reference import ReferenceEvaluator

    node = NodeProto.FromString(data)
    inputs, outputs = (
        [helper.make_empty_tensor_value_info(name) for name in dict.fromkeys(names) if name]
        for names in (node.input, node.output)
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    graph = helper.make_graph([node], "node", inputs, outputs)
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSIONS[opset]))


def _erf(x: Array) -> Array:
    return np.array([math.erf(v) for v in np.asarray(x, np.float64).reshape(-1).tolist()]).reshape(np.shape(x))


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
    from onnx import helper

    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=pads)
    (y,) = _run_reference(node, 11, {"x": x, "w": w, "b": bias})
    return _ACTIVATIONS[activation](y, *activation_params)


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
    from onnx import helper

    columns = (-1, *(1,) * (w.ndim - 1))
    real = _real(w, *(v.reshape(columns) if v.size > 1 else v for v in (sw, zw)))
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    (y,) = _run_reference(node, 11, {"x": _real(x, sx, zx), "w": real})
    if bias is not None:
        y = y + (bias * float(sx) * sw.astype(np.float64)).reshape(1, *columns[:-1])
    return _stored(y, s, z)


# com.microsoft, and those that ONNX's reference computes with cancellation (exp(x) - 1 for x near zero).
DEFINITIONS: Mapping[str, Callable[..., Array]] = {
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
