"""Operators that exporters write into computations of shapes and weights: evaluated at import, never run.

Each wants its inputs known; those that choose elements only their indices. Sizes are checked before anything is made.
"""

import math
from collections.abc import Mapping, Sequence

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
    """GatherElements by known indices."""
    data = call.input(0, rank_min=1)
    axis = call.axis(call.attr_int("axis", 0), data.rank)
    indices = _indices(call, 1, data.shape[axis])
    if indices.ndim != data.rank or any(
        a > b for i, (a, b) in enumerate(zip(indices.shape, data.shape, strict=True)) if i != axis
    ):
        raise call.fail(f"indices {list(indices.shape)} for data {list(data.shape)}")
    coordinates: list[Array] = list(np.indices(indices.shape, sparse=True))
    coordinates[axis] = indices
    flat = _linear(data.shape, coordinates, indices.shape)
    return call.add("gather", call.reshape(data, (data.type.elements,)), constant(flat, stem="indices"), axis=0)


def gather_nd(call: OnnxCall) -> Results:
    """GatherND by known indices."""
    data, indices = call.input(0, rank_min=1), _array(call, 1, "indices")
    batch = call.attr_int("batch_dims", 0)
    if not 0 <= batch < min(data.rank, indices.ndim) or data.shape[:batch] != indices.shape[:batch]:
        raise call.fail(f"batch_dims {batch} of data {list(data.shape)} and indices {list(indices.shape)}")
    flat, depth = _coordinates(call, data.shape, indices, batch), batch + indices.shape[-1]
    rest = data.shape[depth:]
    check_size(call, flat.size * math.prod(rest), DTYPES[data.dtype].itemsize)
    rows = call.reshape(data, (math.prod(data.shape[:depth]), *rest))
    return call.add("gather", rows, constant(flat, stem="indices"), axis=0)


def scatter_nd(call: OnnxCall) -> Results:
    """ScatterND by known indices, without reduction: each row is one of the data or of the updates."""
    data, indices, updates = call.input(0, rank_min=1), _array(call, 1, "indices"), call.input(2)
    if call.attr_str("reduction", "none") != "none":
        raise call.unsupported(f"reduction {call.attr_str('reduction')}", "none")
    flat = _coordinates(call, data.shape, indices, 0).reshape(-1)
    depth = indices.shape[-1]
    rest, shape = data.shape[depth:], (*indices.shape[:-1], *data.shape[depth:])
    if updates.shape != shape or updates.dtype != data.dtype:
        raise call.fail(f"updates {updates.type} where {data.dtype}{list(shape)} are needed")
    rows = math.prod(data.shape[:depth])
    if rows > LARGEST_KNOWN:
        raise call.unsupported(f"{rows} rows", f"at most {LARGEST_KNOWN}")
    source = np.arange(rows)
    for number, row in enumerate(flat):  # one by one: where an index comes twice, the last update stays
        source[row] = rows + number
    parts = call.reshape(data, (rows, *rest)), call.reshape(updates, (flat.size, *rest))
    both = call.add("concat", *parts, axis=0)
    return call.reshape(call.add("gather", both, constant(source, stem="indices"), axis=0), data.shape)


def _linear(shape: Sequence[int], coordinates: Sequence[Array], of: Sequence[int]) -> Array:
    """Offsets in a dense array of this shape, as an array of shape `of`."""
    flat = np.zeros(tuple(of), np.int64)
    for length, at in zip(shape, coordinates, strict=True):
        flat = flat * length + at
    return flat


def _coordinates(call: OnnxCall, shape: Sequence[int], indices: Array, batch: int) -> Array:
    """The row of data that each index names: its last dimension counts along the dimensions behind the batch's.

    Raises: MavcgError for an index outside.
    """
    depth = indices.shape[-1] if indices.ndim else 0
    if indices.dtype.kind not in "iu" or not 1 <= depth <= len(shape) - batch:
        raise call.fail(f"indices {list(indices.shape)} into data {list(shape)}")
    found: list[Array] = list(np.indices(indices.shape[:-1], sparse=True)[:batch])
    for i in range(depth):
        at, length = indices[..., i].astype(np.int64), shape[batch + i]
        if at.size and (at.min() < -length or at.max() >= length):
            raise call.fail(f"an index outside of dimension {batch + i}, which has {length} elements")
        found.append(np.where(at < 0, at + length, at))
    return _linear(shape[: batch + depth], found, indices.shape[:-1])


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
