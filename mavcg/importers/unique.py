"""Different elements of a tensor, by a sort: for Unique of ONNX and UNIQUE of TFLite."""

from dataclasses import dataclass, replace

import numpy as np

from mavcg.graph import DTYPES
from mavcg.importers.call import NodeCall
from mavcg.importers.counted import true_places, without_count
from mavcg.importers.value import Value, constant

MOST_KEYS = 256  # elements of a slice, by each of which all slices are sorted


@dataclass(frozen=True)
class Distinct:
    """Different slices of a tensor along an axis, i64.

    first: place of the first one of each; occurrences: how often it occurs; both with a count. number_of: for each
    slice of the tensor, the number of the different one that it is.
    """

    first: Value
    number_of: Value
    occurrences: Value


def distinct(call: NodeCall, x: Value, axis: int, ordered: bool) -> Distinct:
    """Return the different slices along an axis, in their order, or (not ordered) that in which they occur.

    Raises: UnsupportedOp for slices of too many elements.
    """
    count, rows = x.shape[axis], call.transpose(x, (axis, *(a for a in range(x.rank) if a != axis)))
    keys = call.reshape(rows, (count, x.type.elements // count))
    if not x.is_constant and keys.shape[1] > MOST_KEYS:
        raise call.unsupported(f"slices of {keys.shape[1]} elements of computed data", f"at most {MOST_KEYS}")
    keys = call.cast(keys, "u8") if x.dtype == "bool" else keys
    order = _order(call, keys)
    begins = _begins(call, call.add("gather", keys, order, axis=0))
    places = true_places(call, begins)
    first = call.add("gather", order, places, axis=0)
    number_of = _scatter(call, order, _numbers(call, begins))
    occurrences = _lengths(call, places, count)
    if ordered:
        return Distinct(first, number_of, occurrences)
    occurs = _scatter(call, order, begins)  # for the first one of equal slices
    by_occurrence = true_places(call, occurs)
    moved = call.add("gather", _numbers(call, occurs), without_count(first), axis=0)
    numbers = call.add("gather", number_of, by_occurrence, axis=0)
    return Distinct(
        by_occurrence,
        call.add("gather", moved, number_of, axis=0),
        call.add("gather", without_count(occurrences), numbers, axis=0),
    )


def _order(call: NodeCall, keys: Value) -> Value:
    """Return the order of rows by their first element, then by their second, and so on; equal ones stay in order."""
    count, width = keys.shape
    order = constant(np.arange(count))
    for column in reversed(range(width)):
        key = call.add("slice", keys, starts=(0, column), stops=(count, column + 1), steps=(1, 1))
        key = call.add("gather", call.reshape(key, (count,)), order, axis=0)
        order = call.add("gather", order, call.add("arg_top", key, axis=0, count=count, smallest=True), axis=0)
    return order


def _begins(call: NodeCall, rows: Value) -> Value:
    """Return, for each row, True if it is not equal to the one before it."""
    count, width = rows.shape
    first = constant(np.ones(1, np.bool_))
    if count == 1 or not width:
        return constant(np.arange(count) == 0)
    pair = (call.add("slice", rows, starts=(i, 0), stops=(count - 1 + i, width), steps=(1, 1)) for i in (0, 1))
    other = call.cast(call.add("not", call.add("equal", *pair)), "u8")
    other = call.add("reduce_max", other, axes=(1,), keepdims=False)
    return call.add("concat", first, call.cast(other, "bool"), axis=0)


def _numbers(call: NodeCall, flags: Value) -> Value:
    """Return, for each flag, the number of true ones before the last one up to it."""
    return call.add("sub", call.add("cumulative_sum", call.cast(flags, "i64"), axis=0), constant(np.int64(1)))


def _scatter(call: NodeCall, order: Value, values: Value) -> Value:
    none = constant(np.zeros(values.shape, DTYPES[values.dtype]))
    return call.add("scatter", none, order, values, reduction="none")


def _lengths(call: NodeCall, places: Value, end: int) -> Value:
    """Return the distance from each place to the next one, of the last one to the end."""
    length = places.shape[0]
    following = call.add("slice", without_count(places), starts=(1,), stops=(length,), steps=(1,))
    following = call.add("concat", following, constant(np.array([end])), axis=0)
    if places.count is None:
        return call.add("sub", following, places)
    inside = call.add("less", constant(np.arange(length) + 1), call.emitter.count_value(places.count))
    following = call.add("where", inside, following, constant(np.int64(end)))
    return replace(call.add("sub", following, without_count(places)), count=places.count)
