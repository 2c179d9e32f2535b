"""Definitions of operators over whole axes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.graph import Array, Node

_REDUCE: Mapping[str, Callable[..., Any]] = {
    "reduce_sum": np.sum,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_prod": np.prod,
}


def _reduce(node: Node, inputs: Sequence[Any]) -> Array:
    return np.asarray(_REDUCE[node.op](inputs[0], axis=node.attr("axes"), keepdims=node.attr("keepdims")))


def _mean(node: Node, inputs: Sequence[Any]) -> Array:
    x: Array = inputs[0]
    total = np.asarray(np.sum(x, axis=node.attr("axes"), keepdims=node.attr("keepdims")))
    count = int(np.prod([x.shape[axis] for axis in node.attr("axes")], dtype=np.int64))
    if not np.issubdtype(x.dtype, np.integer):
        return np.asarray(total / count)
    # Rounded towards 0, as integer division is.
    return np.asarray(np.where(total < 0, -(-total // count), total // count))


def _arg(node: Node, inputs: Sequence[Any]) -> Array:
    x, axis = inputs[0], node.attr("axis")
    find = np.argmax if node.op == "arg_max" else np.argmin
    if not node.attr("last"):
        return np.asarray(find(x, axis=axis, keepdims=node.attr("keepdims")))
    return np.asarray(x.shape[axis] - 1 - find(np.flip(x, axis), axis=axis, keepdims=node.attr("keepdims")))


def _arg_top(node: Node, inputs: Sequence[Any]) -> Array:
    """Return the order by value, of equal elements by index: the stable one, of the reversed line for the largest."""
    x, axis = inputs[0], node.attr("axis")
    if node.attr("smallest"):
        order = np.argsort(x, axis, kind="stable")
    else:
        order = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    return np.ascontiguousarray(np.take(order, np.arange(node.attr("count")), axis), np.int64)


def _cumulative(node: Node, inputs: Sequence[Any]) -> Array:
    x, axis = inputs[0], node.attr("axis")
    combine, neutral = (np.add, 0) if node.op == "cumulative_sum" else (np.multiply, 1)
    forwards = np.flip(x, axis) if node.attr("reverse") else x
    if node.attr("exclusive") and x.size:
        first = np.full_like(forwards.take([0], axis), neutral)
        forwards = np.concatenate((first, np.delete(forwards, -1, axis)), axis)
    made = combine.accumulate(forwards, axis, dtype=x.dtype)
    return np.asarray(np.flip(made, axis) if node.attr("reverse") else made)


def _log_softmax(node: Node, inputs: Sequence[Any]) -> Array:
    x: Array = inputs[0]
    if not x.size:
        return x
    axis = node.attr("axis")
    below = x - x.max(axis=axis, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis=axis, keepdims=True)))


def _softmax(node: Node, inputs: Sequence[Any]) -> Array:
    x: Array = inputs[0]
    if not x.size:
        return x
    powers = np.exp(x - x.max(axis=node.attr("axis"), keepdims=True))
    return np.asarray(powers / powers.sum(axis=node.attr("axis"), keepdims=True))


def _layer_norm(node: Node, inputs: Sequence[Any]) -> Array:
    x, scale, bias = inputs
    if not x.size:
        return np.asarray(x)
    axes = tuple(range(node.attr("axis"), x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True) if node.attr("centred") else x
    variance = np.square(centred).mean(axis=axes, keepdims=True)
    scaled = centred / np.sqrt(variance + node.attr("epsilon")) * scale
    return np.asarray(scaled if bias is None else scaled + bias)


def _lrn(node: Node, inputs: Sequence[Any]) -> Array:
    x: Array = inputs[0]
    size, depth = node.attr("size"), x.shape[-1]
    # ONNX, LRN: channels c - floor((size - 1) / 2) to c + ceil((size - 1) / 2), clipped to the existing ones.
    before, after = (size - 1) // 2, size // 2
    total = np.zeros_like(x)
    for c in range(depth):
        total[..., c] = np.square(x[..., max(0, c - before) : c + after + 1]).sum(axis=-1)
    return np.asarray(x / (node.attr("bias") + node.attr("alpha") / size * total) ** node.attr("beta"))


DEFINITIONS: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {
    **{name: _reduce for name in _REDUCE},
    "reduce_mean": _mean,
    "arg_max": _arg,
    "arg_min": _arg,
    "arg_top": _arg_top,
    "cumulative_sum": _cumulative,
    "cumulative_prod": _cumulative,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "lrn": _lrn,
}
