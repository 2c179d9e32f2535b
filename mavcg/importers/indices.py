"""Gather and scatter as formats have them, by operators of graphs: flat_index checks indices, and makes them offsets.

Indices that are known at import are checked and made offsets there; those of a run by a kernel, which ends the run with
a status where one does not exist. from_end: negative indices count from the end (ONNX); else they do not exist
(TFLite).
"""

import math
from collections.abc import Sequence

from mavcg.importers.call import NodeCall
from mavcg.importers.emitter import Value
from mavcg.specs.kernel import dense_strides

_INDEX_TYPES = ("i32", "i64")


def gather_along(call: NodeCall, x: Value, indices: Value, axis: int, from_end: bool = True) -> Value:
    """Return x with `axis` replaced by the dimensions of indices. Raises: MavcgError."""
    column = call.reshape(indices, (*indices.shape, 1))
    flat = _flat(call, column, (x.shape[axis],), (1,), (0,) * indices.rank, from_end)
    return call.add("gather", x, flat, axis=axis)


def gather_along_batches(call: NodeCall, x: Value, indices: Value, axis: int, batch: int) -> Value:
    """Return gather_along of each of the first `batch` dimensions, which x and indices have both; indices count from 0.

    Raises: MavcgError.
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
    """Return the elements of x whose positions are those of indices, but along `axis` what indices say there.

    Raises: MavcgError.
    """
    flat = _flat_of_elements(call, x, indices, axis)
    return call.add("gather", call.reshape(x, (x.type.elements,)), flat, axis=0)


def gather_nd(call: NodeCall, x: Value, indices: Value, batch: int = 0, from_end: bool = True) -> Value:
    """Return the slices of x that the last dimension of indices names, behind `batch` dimensions that both have.

    Raises: MavcgError.
    """
    flat, depth = _flat_of_rows(call, x, indices, batch, from_end)
    rest = x.shape[depth:]
    return call.add("gather", call.reshape(x, (math.prod(x.shape[:depth]), *rest)), flat, axis=0)


def scatter_elements(call: NodeCall, x: Value, indices: Value, updates: Value, axis: int, reduction: str) -> Value:
    """Return x with updates at the positions that gather_elements reads, one after the other. Raises: MavcgError."""
    if updates.shape != indices.shape or updates.dtype != x.dtype:
        raise call.fail(f"updates {updates.type} where {x.dtype}{list(indices.shape)} are needed")
    flat = _flat_of_elements(call, x, indices, axis)
    count = indices.type.elements
    parts = call.reshape(x, (x.type.elements,)), call.reshape(flat, (count,)), call.reshape(updates, (count,))
    return call.reshape(call.add("scatter", *parts, reduction=reduction), x.shape)


def scatter_nd(
    call: NodeCall, x: Value, indices: Value, updates: Value, reduction: str, from_end: bool = True
) -> Value:
    """Return x with updates in the slices that the last dimension of indices names, one after the other.

    Raises: MavcgError.
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


def _flat_of_elements(call: NodeCall, x: Value, indices: Value, axis: int) -> Value:
    """Return offsets into the flattened x, in the shape of indices, which are no larger than x along other axes."""
    lengths = list(zip(indices.shape, x.shape, strict=False))
    if indices.rank != x.rank or any(a > b for i, (a, b) in enumerate(lengths) if i != axis):
        raise call.fail(f"indices {list(indices.shape)} for data {list(x.shape)}")
    strides = dense_strides(x.shape)
    offsets = [0 if i == axis else stride for i, stride in enumerate(strides)]
    column = call.reshape(indices, (*indices.shape, 1))
    return _flat(call, column, (x.shape[axis],), (strides[axis],), offsets, True)


def _flat_of_rows(call: NodeCall, x: Value, indices: Value, batch: int, from_end: bool) -> tuple[Value, int]:
    """Return the row of x that each index names, and how many dimensions of x make its number."""
    if not 0 <= batch < min(x.rank, indices.rank) or x.shape[:batch] != indices.shape[:batch]:
        raise call.fail(f"batch_dims {batch} of data {list(x.shape)} and indices {list(indices.shape)}")
    depth = batch + indices.shape[-1]
    if not batch < depth <= x.rank:
        raise call.fail(f"indices {list(indices.shape)} into data {list(x.shape)}")
    strides = dense_strides(x.shape[:depth])
    offsets = (*strides[:batch], *(0,) * (indices.rank - 1 - batch))
    return _flat(call, indices, x.shape[batch:depth], strides[batch:], offsets, from_end), depth


def _flat(
    call: NodeCall, indices: Value, lengths: Sequence[int], strides: Sequence[int], offsets: Sequence[int],
    from_end: bool,
) -> Value:  # fmt: skip
    if indices.dtype not in _INDEX_TYPES:
        raise call.fail(f"indices are {indices.type}; {' or '.join(_INDEX_TYPES)} are needed")
    attrs = {"lengths": tuple(lengths), "strides": tuple(strides), "offsets": tuple(offsets), "from_end": from_end}
    return call.add("flat_index", indices, **attrs)
