"""Values of which only a run decides the length, as handlers of all formats make, cut and join them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mavcg.graph import TensorType
from mavcg.graph.layout import dense_strides
from mavcg.importers.call import NodeCall
from mavcg.importers.counts import Count
from mavcg.importers.movement import cut
from mavcg.importers.run_numbers import RunNumber, numbers_of
from mavcg.importers.value import Value, constant


def true_places(call: NodeCall, flags: Value) -> Value:
    """Return the indices of the true ones among all elements of a bool tensor, in order, i64 with a count.

    It has no count where the flags are known. After the count come zeros, which are indices that exist. The same flags
    have the same count.
    """
    found = call.emitter.true_places.get(flags.name) if flags.name else None
    if found is None:
        found = _find_true(call, call.emitter.mask_rest(flags, call.origin))
        if flags.name and not call.emitter.open_loops:
            call.emitter.true_places[flags.name] = found
    return found


def _find_true(call: NodeCall, flags: Value) -> Value:
    length = max(2, flags.type.elements)  # an axis of length 1 is not distinguished from its neighbours in a reshape
    flat = call.reshape(flags, (flags.type.elements,))
    if flat.type.elements < length and not flat.is_constant:
        off = constant(np.zeros(length - flat.type.elements, np.bool_))
        flat = call.add("concat", flat, off, axis=0)
    made = call.add("true_places", flat)
    if made.array is not None:
        return constant(made.array[1 : 1 + int(made.array[0])])
    places = call.add("slice", made, starts=(1,), stops=(1 + length,), steps=(1,))
    first = call.add("slice", made, starts=(0,), stops=(1,), steps=(1,))
    return with_count(call, places, 0, call.reshape(first, ()))


def with_count(call: NodeCall, value: Value, axis: int, count: Value) -> Value:
    """Return a value of whose elements along an axis a run makes `count`, an i64 scalar.

    Equal counts have one name, so that lengths are known to be equal.
    """
    number = numbers_of(call.emitter, count)[0]
    found = same_count(call, number)
    if found is None:
        found = Count(0, call.emitter.place(count))
        first = min(number.factors, default=(found.tensor, 0))
        call.emitter.counts_of.setdefault(first, []).append(found.tensor)
    return replace(value, count=replace(found, axis=axis))


def same_count(call: NodeCall, number: RunNumber) -> Count | None:
    """Return a count of which a number is a multiple, with this factor and axis 0; None if there is none."""
    element = min(number.factors, default=("", 0))
    for name in call.emitter.counts_of.get(element, ()):
        (count,) = numbers_of(call.emitter, Value(TensorType("i64", ()), name))
        factor = number.factors[element] // count.factors[element] if element in count.factors else 0
        if factor > 0 and number.plus(count, -factor).constant == 0:
            return Count(0, name, factor)
    return None


def is_counted(value: Value, axis: int) -> bool:
    """Return True if only a run decides the length along an axis."""
    return value.count is not None and value.count.axis == axis


def without_count(value: Value) -> Value:
    """Return a value of the longest length, of which what is behind the count means nothing."""
    return replace(value, count=None)


def coordinates(call: NodeCall, places: Value, shape: Sequence[int], rest: int = 1, axis: int = 1) -> Value:
    """Return the coordinates of places in a row-major array of a shape, whose elements have `rest` places each, i64.

    axis: of the result that has the coordinates of a place, 0 or 1; the places are along the other one.
    """
    column = [len(shape) if i == axis else 1 for i in (0, 1)]
    line = (1, places.shape[0]) if axis == 0 else (places.shape[0], 1)
    strides = np.array(dense_strides((*shape, rest))[:-1], np.int64)
    numbers = call.add("div", call.reshape(places, line), constant(strides.reshape(column)))
    return call.add("mod", numbers, constant(np.array(shape, np.int64).reshape(column)))


def cut_counted(call: NodeCall, x: Value, axis: int, start: int, stop: int) -> Value:
    """Return the elements from start to before stop along an axis of which only a run decides the length.

    Raises: UnsupportedOp for positions from the end, and for fewer than two elements.
    """
    assert x.count is not None
    longest = x.shape[axis]
    if start < 0 or stop < 0 or min(stop, longest) - start < 2:
        raise call.unsupported(
            f"elements {start} to {stop} along axis {axis}, of which only a run decides the length",
            "positions from the beginning, and at least two elements",
        )
    stop = min(stop, longest)
    if (start, stop) == (0, longest):
        return x
    part = cut(call, without_count(x), {axis: (start, stop, 1)})
    length = call.emitter.count_value(x.count)
    for op, limit in (("sub", start), ("max", 0), ("min", stop - start)):
        length = call.add(op, length, constant(np.int64(limit)))
    return with_count(call, part, axis, length)


def join_counted(call: NodeCall, parts: Sequence[Value], axis: int) -> Value:
    """Return parts one after the other along an axis of which only a run decides some lengths."""
    everything = call.add("concat", *map(without_count, parts), axis=axis)
    flags = [
        constant(np.ones(part.shape[axis], np.bool_))
        if part.count is None
        else call.emitter.inside_count(part.count, part.shape[axis])
        for part in parts
    ]
    kept = true_places(call, call.add("concat", *flags, axis=0))
    assert kept.count is not None
    picked = call.add("gather", everything, without_count(kept), axis=axis)
    return replace(picked, count=replace(kept.count, axis=axis))


def run_shape(call: NodeCall, x: Value) -> Value:
    """Return the shape of a tensor with a count, i64 [rank]."""
    assert x.count is not None
    length = call.reshape(call.emitter.count_value(x.count), (1,))
    parts = [length if i == x.count.axis else constant(np.array([n], np.int64)) for i, n in enumerate(x.shape)]
    return call.add("concat", *parts, axis=0) if len(parts) > 1 else length
