"""Gather and scatter operators of the formats, built from graph operators.

flat_index checks indices and converts them to offsets: at import if they are known, else by a kernel that ends the run
with an error status for an index out of range. from_end: negative indices count from the end (ONNX); else they are out
of range (TFLite). known_range makes the indices of a range.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mavcg.graph import Array
from mavcg.graph.layout import dense_strides
from mavcg.importers.call import NodeCall
from mavcg.importers.limits import LARGEST_BYTES
from mavcg.importers.value import Value, constant

_INDEX_TYPES = ("i32", "i64")


def gather_along(call: NodeCall, x: Value, indices: Value, axis: int, from_end: bool = True) -> Value:
    """Return the slices of x at indices along `axis`. Raises: MavcgError for an invalid index."""
    column = call.reshape(indices, (*indices.shape, 1))
    flat = _flat(call, column, (x.shape[axis],), (1,), (0,) * indices.rank, from_end)
    return call.add("gather", x, flat, axis=axis)


def gather_found(call: NodeCall, x: Value, indices: Value, axis: int, from_end: bool = True) -> Value:
    """Return the slices of x at indices along `axis`, of which only a run decides the length if x has a count there.

    An index that does not exist in the run ends it with MAVCG_ERROR_INDEX. Raises: as gather_along.
    """
    if x.count is None or x.count.axis != axis:
        return gather_along(call, x, indices, axis, from_end)
    if indices.dtype not in _INDEX_TYPES:
        raise call.fail(f"indices are {indices.type}; {' or '.join(_INDEX_TYPES)} are needed")
    places, there = call.cast(indices, "i64"), call.emitter.count_value(x.count)
    if from_end:
        negative = call.add("less", places, constant(np.int64(0)))
        places = call.add("where", negative, call.add("add", places, there), places)
    beyond = constant(np.int64(x.shape[axis]))  # which is refused as an index
    places = call.add("where", call.add("less", places, there), places, beyond)
    return gather_along(call, replace(x, count=None), places, axis, from_end=False)


def gather_along_batches(call: NodeCall, x: Value, indices: Value, axis: int, batch: int) -> Value:
    """Return gather_along for each index of the first `batch` dimensions, which x and indices share.

    Raises: MavcgError for incompatible shapes or an invalid index.
    """
    if not 0 <= batch <= min(axis, indices.rank) or x.shape[:batch] != indices.shape[:batch]:
        raise call.fail(f"{batch} batch dimensions of {x.type} along axis {axis}, and of indices {indices.type}")
    order = [*range(batch), axis, *range(batch, axis), *range(axis + 1, x.rank)]
    picked = gather_nd(call, call.transpose(x, order), call.reshape(indices, (*indices.shape, 1)), batch, False)
    chosen, between = indices.rank - batch, axis - batch
    back = [
        *range(batch),
        *range(batch + chosen, batch + chosen + between),
        *range(batch, batch + chosen),
        *range(batch + chosen + between, picked.rank),
    ]
    return call.transpose(picked, back)


def gather_elements(call: NodeCall, x: Value, indices: Value, axis: int) -> Value:
    """Return the elements of x at the positions of indices, with the position along `axis` replaced by the index.

    Raises: MavcgError for incompatible shapes or an invalid index.
    """
    flat = _flat_of_elements(call, x, indices, axis)
    return call.add("gather", call.reshape(x, (x.type.elements,)), flat, axis=0)


def gather_nd(call: NodeCall, x: Value, indices: Value, batch: int = 0, from_end: bool = True) -> Value:
    """Return the slices of x at the index tuples in indices' last dimension, after `batch` common dimensions.

    Raises: MavcgError for incompatible shapes or an invalid index.
    """
    flat, depth = _flat_of_rows(call, x, indices, batch, from_end)
    rest = x.shape[depth:]
    return call.add("gather", call.reshape(x, (math.prod(x.shape[:depth]), *rest)), flat, axis=0)


def scatter_elements(call: NodeCall, x: Value, indices: Value, updates: Value, axis: int, reduction: str) -> Value:
    """Return x with updates at the positions that gather_elements reads, in order. Raises: MavcgError."""
    if updates.shape != indices.shape or updates.dtype != x.dtype:
        raise call.fail(f"updates {updates.type} where {x.dtype}{list(indices.shape)} are needed")
    flat = _flat_of_elements(call, x, indices, axis)
    count = indices.type.elements
    parts = call.reshape(x, (x.type.elements,)), call.reshape(flat, (count,)), call.reshape(updates, (count,))
    return call.reshape(call.add("scatter", *parts, reduction=reduction), x.shape)


def scatter_nd(
    call: NodeCall, x: Value, indices: Value, updates: Value, reduction: str, from_end: bool = True
) -> Value:
    """Return x with updates at the slices that gather_nd reads, in order.

    Raises: MavcgError for incompatible shapes or an invalid index.
    """
    flat, depth = _flat_of_rows(call, x, indices, 0, from_end)
    rest, shape = x.shape[depth:], (*indices.shape[:-1], *x.shape[depth:])
    if updates.shape != shape or updates.dtype != x.dtype:
        raise call.fail(f"updates {updates.type} where {x.dtype}{list(shape)} are needed")
    count = flat.type.elements
    parts = (
        call.reshape(x, (math.prod(x.shape[:depth]), *rest)),
        call.reshape(flat, (count,)),
        call.reshape(updates, (count, *rest)),
    )
    return call.reshape(call.add("scatter", *parts, reduction=reduction), x.shape)


def write_rows(call: NodeCall, x: Value, places: Value, updates: Value, axes: Sequence[int]) -> Value:
    """Return x with rows along the last of `axes` replaced, in order.

    places: index of each row along that axis, i32 or i64, of a shape that broadcasts to the first dimensions of
    updates. axes: for each of these dimensions, the axis of x that it is; all axes of x but those of a row, which are
    the last ones of updates. Raises: MavcgError for incompatible shapes or an invalid index.
    """
    depth, axis = len(axes), max(axes)
    lead, row = x.shape[: axis + 1], x.shape[axis + 1 :]
    fits = all(updates.shape[i] == x.shape[a] for i, a in enumerate(axes) if a != axis)
    if depth != len(lead) or updates.shape[depth:] != row or not fits or updates.dtype != x.dtype:
        raise call.fail(f"{updates.type} written along axis {axis} of {x.type}")
    strides = dense_strides(lead)
    offsets = [0 if a == axis else strides[a] for a in axes]
    shape = updates.shape[:depth]
    everywhere = places if places.shape == shape else call.add("broadcast_to", places, shape=shape)
    column = call.reshape(everywhere, (*shape, 1))
    flat = _flat(call, column, (x.shape[axis],), (strides[axis],), offsets, False)
    count = math.prod(shape)
    rows = call.reshape(x, (math.prod(lead), math.prod(row)))
    parts = rows, call.reshape(flat, (count,)), call.reshape(updates, (count, math.prod(row)))
    return call.reshape(call.add("scatter", *parts, reduction="none"), x.shape)


def read_rows(call: NodeCall, x: Value, places: Value) -> Value:
    """Return rows along the third axis of x, at the same places for each index of the second: the reverse of
    write_rows.

    x: [batch, heads, rows, ..]. places: [batch or 1, count], i32 or i64. Returns: [batch, heads, count, ..].
    Raises: MavcgError for an invalid index.
    """
    lead, rest, count = x.shape[:3], x.shape[3:], places.shape[1]
    shape = (*lead[:2], count)
    everywhere = call.add("broadcast_to", call.reshape(places, (places.shape[0], 1, count)), shape=shape)
    strides = dense_strides(lead)
    flat = _flat(call, call.reshape(everywhere, (*shape, 1)), (lead[2],), (1,), (*strides[:2], 0), False)
    return call.add("gather", call.reshape(x, (math.prod(lead), *rest)), flat, axis=0)


def _flat_of_elements(call: NodeCall, x: Value, indices: Value, axis: int) -> Value:
    """Return offsets into the flattened x, of indices' shape, which is at most x's along axes other than `axis`."""
    lengths = list(zip(indices.shape, x.shape, strict=False))
    if indices.rank != x.rank or any(a > b for i, (a, b) in enumerate(lengths) if i != axis):
        raise call.fail(f"indices {list(indices.shape)} for data {list(x.shape)}")
    strides = dense_strides(x.shape)
    offsets = [0 if i == axis else stride for i, stride in enumerate(strides)]
    column = call.reshape(indices, (*indices.shape, 1))
    return _flat(call, column, (x.shape[axis],), (strides[axis],), offsets, True)


def _flat_of_rows(call: NodeCall, x: Value, indices: Value, batch: int, from_end: bool) -> tuple[Value, int]:
    """Return (row of x for each index tuple, number of x's dimensions that a row number covers)."""
    if not 0 <= batch < min(x.rank, indices.rank) or x.shape[:batch] != indices.shape[:batch]:
        raise call.fail(f"batch_dims {batch} of data {list(x.shape)} and indices {list(indices.shape)}")
    depth = batch + indices.shape[-1]
    if not batch < depth <= x.rank:
        raise call.fail(f"indices {list(indices.shape)} into data {list(x.shape)}")
    strides = dense_strides(x.shape[:depth])
    offsets = (*strides[:batch], *(0,) * (indices.rank - 1 - batch))
    return _flat(call, indices, x.shape[batch:depth], strides[batch:], offsets, from_end), depth


def _flat(
    call: NodeCall,
    indices: Value,
    lengths: Sequence[int],
    strides: Sequence[int],
    offsets: Sequence[int],
    from_end: bool,
) -> Value:
    if indices.dtype not in _INDEX_TYPES:
        raise call.fail(f"indices are {indices.type}; {' or '.join(_INDEX_TYPES)} are needed")
    attrs = {"lengths": tuple(lengths), "strides": tuple(strides), "offsets": tuple(offsets), "from_end": from_end}
    return call.add("flat_index", indices, **attrs)


def check_index(call: NodeCall, index: Value, length: int) -> Value:
    """Return an index, i64 scalar; a run in which it is not from 0 to before a length ends with MAVCG_ERROR_INDEX."""
    return _flat(call, call.reshape(call.cast(index, "i64"), (1,)), (length,), (1,), (), False)


def known_range(call: NodeCall, start: Array, limit: Array, delta: Array) -> Value:
    """Return the numbers start, start + delta, .. before limit, of their type.

    Raises: MavcgError for a delta of 0, numbers that are not finite, and a result that is too large.
    """
    if any(v.size != 1 for v in (start, limit, delta)) or len({v.dtype for v in (start, limit, delta)}) > 1:
        raise call.fail("start, limit and delta; three scalars of one type are needed")
    first, end, step = (v.reshape(()).item() for v in (start, limit, delta))
    if step == 0 or not all(math.isfinite(v) for v in (first, end, step)):
        raise call.fail(f"from {first} to {end} by {step}; finite numbers and a step other than 0 are needed")
    count = max(math.ceil((end - first) / step), 0) if isinstance(step, float) else max(-((first - end) // step), 0)
    size = count * start.dtype.itemsize
    if size > LARGEST_BYTES:
        raise call.fail(f"a result of {count} elements takes {size} bytes; at most {LARGEST_BYTES}")
    call.emitter.count_bytes(size, call.location)
    return constant((first + np.arange(count) * step).astype(start.dtype))
