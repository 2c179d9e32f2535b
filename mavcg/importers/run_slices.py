"""Slices whose positions a run brings: windows of a known length, and pieces of which the run decides the length."""

from collections.abc import Sequence

import numpy as np

from mavcg.importers import indices
from mavcg.importers.call import NodeCall
from mavcg.importers.counted import is_counted, with_count
from mavcg.importers.run_numbers import WHOLE, numbers_of
from mavcg.importers.value import Value, constant


def cut_in_run(call: NodeCall, x: Value, axes: Sequence[int], starts: Value, ends: Value) -> Value:
    """Return x[start:end] along axes, of positions that a run may bring; negative ones count from the end.

    A window whose end is its start plus a known length has that length, and a run in which it is not inside of x ends
    with MAVCG_ERROR_INDEX. Of another axis, one at most, the run decides the length. Raises: MavcgError for lists of
    another length than axes; UnsupportedOp for two such axes.
    """
    if any(v.dtype not in WHOLE or v.type.elements != len(axes) for v in (starts, ends)):
        raise call.fail(f"starts {starts.type} and ends {ends.type} of {len(axes)} axes")
    first, last = numbers_of(call.emitter, starts), numbers_of(call.emitter, ends)
    for i, (axis, a, b) in enumerate(zip(axes, first, last, strict=True)):
        if is_counted(x, axis):
            raise call.unsupported("positions of a run in an axis of which only it decides the length", "a fixed one")
        length = b.plus(a, -1).constant
        if length is not None:
            x = _window(call, x, axis, element_of(call, starts, i), length, a.constant is None)
        else:
            x = _piece(call, x, axis, element_of(call, starts, i), element_of(call, ends, i))
    return x


def element_of(call: NodeCall, values: Value, i: int) -> Value:
    """Return an element of a list, an i64 scalar."""
    flat = call.reshape(values, (values.type.elements,))
    return call.cast(call.reshape(call.add("slice", flat, starts=(i,), stops=(i + 1,), steps=(1,)), ()), "i64")


def window(call: NodeCall, x: Value, axis: int, start: Value, length: int) -> Value:
    """Return `length` elements along an axis from a start of the run on. One that is not inside of x is an error."""
    places = call.add("add", constant(np.arange(length)), start)
    return indices.gather_along(call, x, places, axis, from_end=False)


def _window(call: NodeCall, x: Value, axis: int, start: Value, length: int, of_run: bool) -> Value:
    longest = x.shape[axis]
    if not of_run:
        return _piece(call, x, axis, start, call.add("add", start, constant(np.int64(length))))
    if not 1 <= length <= longest:
        raise call.unsupported(f"a window of {length} of {longest} elements", "1 to all of them")
    # A window that ends before the end may be counted from there; one across it is none.
    behind = call.add("less", call.add("add", start, constant(np.int64(length))), constant(np.int64(0)))
    from_end = call.add("add", start, constant(np.int64(longest)))
    return window(call, x, axis, call.add("where", behind, from_end, start), length)


def _piece(call: NodeCall, x: Value, axis: int, start: Value, end: Value) -> Value:
    """Return x[start:end] along an axis, both moved into it; of a run's positions it has a count."""
    longest = x.shape[axis]
    first, last = (_inside(call, position, longest) for position in (start, end))
    if first.array is not None and last.array is not None:
        begin, stop = int(first.array), max(int(first.array), int(last.array))
        starts, stops = zip(*((begin, stop) if a == axis else (0, n) for a, n in enumerate(x.shape)), strict=True)
        return call.add("slice", x, starts=starts, stops=stops, steps=(1,) * x.rank)
    return _counted_piece(call, x, axis, first, call.add("max", call.add("sub", last, first), constant(np.int64(0))))


def rest(call: NodeCall, x: Value, axis: int, start: Value) -> Value:
    """Return the elements along an axis from a start of the run on. A negative one is an error."""
    length = call.add("sub", constant(np.int64(x.shape[axis])), start)
    return _counted_piece(call, x, axis, start, call.add("max", length, constant(np.int64(0))))


def _counted_piece(call: NodeCall, x: Value, axis: int, first: Value, length: Value) -> Value:
    """Return `length` elements from `first` on."""
    longest = x.shape[axis]
    if x.count is not None:
        raise call.unsupported("two axes of which only a run decides the length", "one")
    if longest < 2:  # such an axis is not distinguished from its neighbours in a reshape
        raise call.unsupported(f"a piece of axis {axis} of {x.type} that a run chooses", "at least two elements")
    if first.array is None or int(first.array):
        places = call.add("min", call.add("add", constant(np.arange(longest)), first), constant(np.int64(longest - 1)))
        x = indices.gather_along(call, x, places, axis, from_end=False)
    return with_count(call, x, axis, length)


def _inside(call: NodeCall, position: Value, longest: int) -> Value:
    """Return a position counted from the beginning, moved into 0 to `longest`."""
    zero, most = constant(np.int64(0)), constant(np.int64(longest))
    from_end = call.add("add", position, most)
    position = call.add("where", call.add("less", position, zero), from_end, position)
    return call.add("min", call.add("max", position, zero), most)
