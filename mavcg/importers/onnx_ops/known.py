"""Operators that exporters write into computations of shapes and weights: evaluated at import, never run.

Each wants its inputs known. Sizes are checked before anything is made.
"""

import math
from collections.abc import Mapping

import numpy as np

from mavcg.graph import DTYPES, Array
from mavcg.importers.emitter import constant
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.onnx_ops.shape import check_size
from mavcg.importers.onnx_proto import dtype_of

LARGEST_KNOWN = 1 << 24  # elements


def _array(call: OnnxCall, i: int, what: str) -> Array:
    array = call.array(i, what)
    if array.size > LARGEST_KNOWN:
        raise call.unsupported(f"{what} with {array.size} elements", f"at most {LARGEST_KNOWN}")
    return array


def _indices(call: OnnxCall, i: int, length: int) -> Array:
    """An input of indices along something of this length, counted from 0."""
    found = _array(call, i, "indices")
    if found.dtype.kind not in "iu" or (found.size and (found.min() < -length or found.max() >= length)):
        raise call.fail(f"indices that are not whole numbers from {-length} to {length - 1}")
    return np.where(found < 0, found + length, found).astype(np.int64)


def non_zero(call: OnnxCall) -> Results:
    """Import NonZero."""
    return constant(np.array(np.nonzero(np.atleast_1d(_array(call, 0, "X"))), np.int64))


def gather_elements(call: OnnxCall) -> Results:
    """Import GatherElements."""
    data = _array(call, 0, "data")
    axis = call.axis(call.attr_int("axis", 0), data.ndim)
    indices = _indices(call, 1, data.shape[axis])
    if indices.ndim != data.ndim or any(
        a > b for i, (a, b) in enumerate(zip(indices.shape, data.shape, strict=True)) if i != axis
    ):
        raise call.fail(f"indices {list(indices.shape)} for data {list(data.shape)}")
    part = data[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))]
    return constant(np.take_along_axis(part, indices, axis))


def gather_nd(call: OnnxCall) -> Results:
    """GatherND without batch dimensions."""
    data, indices = _array(call, 0, "data"), _array(call, 1, "indices")
    if call.attr_int("batch_dims", 0):
        raise call.unsupported(f"batch_dims {call.attr_int('batch_dims')}", "0")
    picked = _coordinates(call, data, indices)
    rest = data.shape[indices.shape[-1] :]
    check_size(call, math.prod(indices.shape[:-1]) * math.prod(rest), data.dtype.itemsize)
    return constant(data[picked])


def scatter_nd(call: OnnxCall) -> Results:
    """ScatterND without reduction."""
    data, indices, updates = _array(call, 0, "data"), _array(call, 1, "indices"), _array(call, 2, "updates")
    if call.attr_str("reduction", "none") != "none":
        raise call.unsupported(f"reduction {call.attr_str('reduction')}", "none")
    picked = _coordinates(call, data, indices)
    shape = (*indices.shape[:-1], *data.shape[indices.shape[-1] :])
    if updates.shape != shape or updates.dtype != data.dtype:
        raise call.fail(f"updates {updates.dtype}{list(updates.shape)} where {data.dtype}{list(shape)} are needed")
    made = data.copy()
    # One by one: where an index comes twice, the last update stays.
    flat = [p.reshape(-1) for p in picked]
    for i, update in enumerate(updates.reshape(-1, *data.shape[indices.shape[-1] :])):
        made[tuple(int(p[i]) for p in flat)] = update
    return constant(made)


def _coordinates(call: OnnxCall, data: Array, indices: Array) -> tuple[Array, ...]:
    """The last dimension of indices as an index of data's first dimensions."""
    depth = indices.shape[-1] if indices.ndim else 0
    if indices.dtype.kind not in "iu" or not 1 <= depth <= data.ndim:
        raise call.fail(f"indices {list(indices.shape)} into data {list(data.shape)}")
    found = []
    for i in range(depth):
        at, length = indices[..., i], data.shape[i]
        if at.size and (at.min() < -length or at.max() >= length):
            raise call.fail(f"an index outside of dimension {i}, which has {length} elements")
        found.append(at)
    return tuple(found)


def cum_sum(call: OnnxCall) -> Results:
    """Import CumSum."""
    x, axes = _array(call, 0, "x"), call.ints(1, "axis")
    if len(axes) != 1:
        raise call.fail("its input axis is not one number")
    axis = call.axis(axes[0], x.ndim)
    turned = np.flip(x, axis) if call.attr_bool("reverse") else x
    with np.errstate(over="ignore"):
        total = np.cumsum(turned, axis, dtype=x.dtype)
        total = total - turned if call.attr_bool("exclusive") else total
    return constant(np.flip(total, axis) if call.attr_bool("reverse") else total, stem="sums")


def one_hot(call: OnnxCall) -> Results:
    """Import OneHot."""
    indices, depths, values = _array(call, 0, "indices"), call.array(1, "depth"), call.array(2, "values")
    if depths.size != 1 or values.shape != (2,) or depths.dtype.kind not in "iuf":
        raise call.fail("depth and values; a number and a pair are needed")
    depth = int(depths.reshape(())) if np.isfinite(depths).all() else -1
    if depth < 1:
        raise call.fail(f"depth {depth}; at least 1 is needed")
    check_size(call, indices.size * depth, values.dtype.itemsize)
    axis = call.axis(call.attr_int("axis", -1), indices.ndim + 1)
    inside = np.where(indices < 0, indices + depth, indices)
    hot = np.expand_dims(inside, axis) == np.arange(depth).reshape(
        [-1 if i == axis else 1 for i in range(indices.ndim + 1)]
    )
    return constant(np.where(hot, values[1], values[0]))


def top_k(call: OnnxCall) -> Results:
    """TopK; equal elements in order of their indices."""
    x = _array(call, 0, "X")
    count = call.ints(1, "K") if call.version >= 10 else (call.attr_int("k"),)
    axis = call.axis(call.attr_int("axis", -1), x.ndim)
    if len(count) != 1 or not 0 <= count[0] <= x.shape[axis]:
        raise call.fail(f"K {list(count)} of {x.shape[axis]} elements")
    # Sorting what is turned round keeps equal elements in order for the largest too.
    if call.attr_bool("largest", True):
        order = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    order = np.take(order, np.arange(count[0]), axis)
    return constant(np.take_along_axis(x, order, axis)), constant(order.astype(np.int64))


def eye_like(call: OnnxCall) -> Results:
    """EyeLike: only the shape of its input counts."""
    x = call.input(0, rank=2)
    number = call.attr_int("dtype", 0)
    dtype = dtype_of(number, call.location) if number else x.dtype
    check_size(call, x.type.elements, 8)
    k = call.attr_int("k", 0)
    rows, columns = x.shape
    return constant(np.eye(rows, columns, min(max(k, -rows), columns)), dtype)


def trilu(call: OnnxCall) -> Results:
    """Trilu, of anything: a mask decides."""
    x = call.input(0, rank_min=2)
    diagonals = call.maybe_ints(1, "k") or (0,)
    rows, columns = x.shape[-2:]
    k = min(max(diagonals[0], -rows - 1), columns + 1)
    check_size(call, rows * columns, 1)
    ones = np.ones((rows, columns), np.bool_)
    kept = np.triu(ones, k) if call.attr_bool("upper", True) else np.tril(ones, k)
    return call.add("where", constant(kept), x, constant(np.zeros((), DTYPES[x.dtype])))


def hardmax(call: OnnxCall) -> Results:
    """Hardmax: 1 where the first largest element along an axis is (opset 13 and later), or of all from an axis on."""
    x = call.input(0, rank_min=1)
    axis = call.attr_int("axis", -1 if call.version >= 13 else 1)
    if call.version >= 13:
        axis = call.axis(axis, x.rank)
        rows = x
    else:
        at = axis if axis == x.rank else call.axis(axis, x.rank)
        rows, axis = call.reshape(x, (math.prod(x.shape[:at]), math.prod(x.shape[at:]))), 1
    best = call.add("arg_max", rows, axis=axis, keepdims=True)
    count = np.arange(rows.shape[axis]).reshape([-1 if i == axis else 1 for i in range(rows.rank)])
    return call.reshape(call.cast(call.add("equal", best, constant(count, "i64")), x.dtype), x.shape)


HANDLERS: Mapping[str, Handler] = {
    "NonZero": non_zero,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterND": scatter_nd,
    "CumSum": cum_sum,
    "OneHot": one_hot,
    "TopK": top_k,
    "EyeLike": eye_like,
    "Trilu": trilu,
    "Hardmax": hardmax,
}
