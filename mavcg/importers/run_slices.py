"""Slices whose positions a run brings: windows of a known length, and pieces of which the run decides the length."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mavcg.importers import indices
from mavcg.importers.call import NodeCall
from mavcg.importers.counted import with_count
from mavcg.importers.emitter import Emitter
from mavcg.importers.value import Value, constant

_WHOLE = ("i32", "i64")
_DEEPEST = 32  # operators that are looked through


@dataclass(frozen=True)
class PlaceTerm:
    """A whole number as an element of a tensor plus an offset. root: the tensor's name; "": the offset alone."""

    root: str
    index: int
    offset: int


def terms_of(emitter: Emitter, value: Value, depth: int = _DEEPEST) -> list[PlaceTerm]:
    """Return the elements of a list of whole numbers as terms, through the operators by which exporters write them."""
    if value.array is not None:
        return [PlaceTerm("", 0, int(number)) for number in value.array.reshape(-1)]
    node = next((node for node in reversed(emitter.builder.nodes) if value.name in node.outputs), None)
    if node is not None and depth:
        types, known = emitter.builder.types, emitter.builder.constants
        read = [Value(types[name], "" if name in known else name, known.get(name)) for name in node.inputs if name]
        if node.op == "reshape" or (node.op == "cast" and {read[0].dtype, node.attr("to")} <= set(_WHOLE)):
            return terms_of(emitter, read[0], depth - 1)
        if node.op == "concat" and value.rank == 1:
            return [term for part in read if part.type.elements for term in terms_of(emitter, part, depth - 1)]
        if node.op in ("add", "sub") and value.dtype in _WHOLE:
            moved, by = read if read[1].is_constant or node.op == "sub" else reversed(read)
            if by.array is not None and moved.shape == value.shape:
                by_each = np.broadcast_to(by.array, value.shape).reshape(-1).tolist()
                sign = 1 if node.op == "add" else -1
                terms = terms_of(emitter, moved, depth - 1)
                return [replace(t, offset=t.offset + sign * n) for t, n in zip(terms, by_each, strict=True)]
    return [PlaceTerm(value.name, i, 0) for i in range(value.type.elements)]


def cut_in_run(call: NodeCall, x: Value, axes: Sequence[int], starts: Value, ends: Value) -> Value:
    """Return x[start:end] along axes, of positions that a run may bring; negative ones count from the end.

    A window whose end is its start plus a known length has that length, and a run in which it is not inside of x ends
    with MAVCG_ERROR_INDEX. Of another axis, one at most, the run decides the length. Raises: MavcgError for lists of
    another length than axes; UnsupportedOp for two such axes.
    """
    if any(v.dtype not in _WHOLE or v.type.elements != len(axes) for v in (starts, ends)):
        raise call.fail(f"starts {starts.type} and ends {ends.type} of {len(axes)} axes")
    first, last = terms_of(call.emitter, starts), terms_of(call.emitter, ends)
    for i, (axis, a, b) in enumerate(zip(axes, first, last, strict=True)):
        if (a.root, a.index) == (b.root, b.index):
            x = _window(call, x, axis, element_of(call, starts, i), b.offset - a.offset, bool(a.root))
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
