"""The float64 result of a random graph, and a bound on its rounding errors, for the verdicts of bench.differential.

The graph is computed node by node in float64, by ONNX's reference implementation and definitions.py, once as it
is and SAMPLES times with rounding errors put in: each node's result is moved by a few units in the last place of its
type, up or down at random, and so are the arguments of operators that sum. A result that differs from the float64 one
by no more than FACTOR times the largest of these movements is as accurate as can be expected: it is nearly the exact
result for nearly the same arguments (mixed forward-backward stability: Higham, Accuracy and Stability of Numerical
Algorithms, section 1.5). The bound follows the condition of the graph, element by element: it is wide behind a pole or
a jump whose argument lies within rounding errors of it, and a few units in the last place elsewhere.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.differential.definitions import computed
from bench.differential.part import Array, Part
from bench.differential.reference import NotComputedError
from bench.differential.sequences import DEFINITIONS as SEQUENCES

SAMPLES = 16
FACTOR = 2.0
UNDETERMINED = 0.25  # of the median magnitude of a tensor: a larger movement says that no digit is determined
UNITS = 4.0  # in the last place, that a node's result may be off by, and each argument of a sum
# More for operators that compute in several steps.
UNITS_OF: Mapping[str, float] = {"Pow": 16.0}
SUMS = frozenset(
    {
        *("Conv", "ConvTranspose", "MatMul", "Gemm", "FusedConv", "FusedMatMul", "AveragePool", "GlobalAveragePool"),
        *("LpPool", "GlobalLpPool", "ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum"),
        *("ReduceLogSumExp", "ReduceSumSquare", "BatchNormalization", "InstanceNormalization", "LayerNormalization"),
        *("GroupNormalization", "RMSNormalization", "LpNormalization", "LRN", "Softmax", "LogSoftmax", "CumSum"),
        *("Resize", "Mean", "Sum", "QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"),
        *("BiasGelu", "Mod", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu"),
        *("QLinearGlobalAveragePool", "QLinearConcat", "QLinearSoftmax", "QGemm", "Einsum", "MatMulInteger"),
        "QLinearAveragePool",
        *SEQUENCES,
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
# With this operator in the graph, results of these have onnxruntime's bits, whose error is absolute
# (docs/operators.md).
DYNAMIC, QUOTIENTS = "DynamicQuantizeLinear", frozenset({"Sigmoid", "Tanh", "FusedConv"})
# Above it a square overflows in the type, and sums of some numbers do: what comes of that depends on the order.
LARGE = {"float16": 100.0, "float32": 1e18, "float64": 1e150}


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
    """Return the result and bound of every node's outputs; None if the reference does not compute them."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            types = {name: value.dtype for name, value in _values(part, {}, None).items()}
            exact = _values(part, types, None)
            # Rounding may take an index out of range, of which there is no result.
            moved = [_values(part, types, Errors(i, np.random.default_rng(i // 2))) for i in range(samples)]
        except NotComputedError:
            return None
        large: set[str] = set()
        results = {}
        for node in part.nodes:
            of_large = any(name in large or is_large(exact[name], types[name]) for name in node.input if name)
            for name in filter(None, node.output):
                results[name] = bound_of(exact[name], [s[name] for s in moved], types[name], of_large)
                large |= {name} if of_large else set()
        return results


def _with_any_place(results: Sequence[Array], elements: int, errors: Errors) -> Sequence[Array]:
    """Return MaxPool's results with any place for that of a NaN: such a window has no largest element."""
    largest, place = results
    anywhere = errors.rng.integers(0, elements, place.shape)
    return [largest, np.where(np.isnan(largest), anywhere, place)]


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
    quotients = QUOTIENTS if any(node.op_type == DYNAMIC for node in part.nodes) else frozenset()
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
        if errors is not None and node.op_type == "MaxPool" and len(results) > 1:
            results = _with_any_place(results, given[0].size, errors)
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
                    is_quotient = node.op_type in quotients and types[name] == np.float32
                    scale = 1.0 if is_quotient else _absolute_scale(node.op_type, given[0], value.shape)
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
