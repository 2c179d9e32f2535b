"""Handlers of operators that take parts of a tensor: slices, splits and reversals; 8-bit integers pass unchanged."""

from collections.abc import Mapping, Sequence

import numpy as np

from mavcg.importers import indices
from mavcg.importers.call import known_at_build
from mavcg.importers.limits import UnsupportedOp, problem
from mavcg.importers.movement import cut, split_axis
from mavcg.importers.run_numbers import WHOLE, RunNumber, numbers_of
from mavcg.importers.run_slices import cut_in_run, element_of, rest, window
from mavcg.importers.tflite_ops.call import Handler, Results, TfliteCall
from mavcg.importers.value import Value, constant


def unpack(call: TfliteCall) -> Results:
    """Import UNPACK: split along a dimension into results without it, one for each index."""
    x = call.input(0, rank_min=1)
    axis = call.axis(int(call.option("Axis", 0)), x.rank)
    if x.shape[axis] != len(call.results):
        raise call.fail(f"dimension {axis} of {x.type} does not make {len(call.results)} results")
    parts = split_axis(call, x, axis, [1] * len(call.results))
    return tuple(call.reshape(p, (*x.shape[:axis], *x.shape[axis + 1 :])) for p in parts)


@known_at_build("axis")
def split(call: TfliteCall) -> Results:
    """Import SPLIT: cut a dimension into equal parts."""
    (axis,) = call.ints(0, "axis", 1)
    x = call.input(1)
    at, count = call.axis(axis, x.rank), len(call.results)
    if x.shape[at] % count:
        raise call.fail(f"dimension {at} of {x.type} does not divide into {count} equal parts")
    return split_axis(call, x, at, [x.shape[at] // count] * count)


@known_at_build("size_splits", "axis")
def split_v(call: TfliteCall) -> Results:
    """Import SPLIT_V: cut a dimension into parts of given lengths; one length may be -1, to be inferred."""
    x = call.input(0)
    lengths = list(call.ints(1, "size_splits", len(call.results)))
    (axis,) = call.ints(2, "axis", 1)
    at = call.axis(axis, x.rank)
    if lengths.count(-1) == 1:
        rest = x.shape[at] - sum(n for n in lengths if n != -1)
        lengths = [rest if n == -1 else n for n in lengths]
    if any(n < 0 for n in lengths) or sum(lengths) != x.shape[at]:
        raise call.fail(f"parts of {lengths} do not make dimension {at} of {x.type}")
    return split_axis(call, x, at, lengths)


@known_at_build("size")
def slice_(call: TfliteCall) -> Results:
    """Import SLICE: `size` elements from `begin` in each dimension; a size of -1 means all up to the end."""
    x = call.input(0)
    if call.input(1).array is None:
        return _windows_of_run(call, x, call.input(1), call.ints(2, "size", x.rank))
    begin, size = call.ints(1, "begin", x.rank), call.ints(2, "size", x.rank)
    stops = [n if s == -1 else b + s for n, b, s in zip(x.shape, begin, size, strict=True)]
    if any(not 0 <= b <= e <= n for n, b, e in zip(x.shape, begin, stops, strict=True)):
        raise call.fail(f"{list(size)} elements from {list(begin)} on are not inside {x.type}")
    return cut(call, x, {axis: (start, stop, 1) for axis, (start, stop) in enumerate(zip(begin, stops, strict=True))})


def _windows_of_run(call: TfliteCall, x: Value, begin: Value, size: Sequence[int]) -> Value:
    """Return boxes whose begin a run brings. One that is not inside of x ends it with MAVCG_ERROR_INDEX."""
    if begin.dtype not in ("i32", "i64") or begin.shape != (x.rank,):
        raise call.fail(f"begin {begin.type} of {x.type}")
    for axis, (number, length) in enumerate(zip(numbers_of(call.emitter, begin), size, strict=True)):
        of_run, offset = number.constant is None, number.offset
        if of_run and length == -1:
            x = rest(call, x, axis, element_of(call, begin, axis))
            continue
        if of_run and not 1 <= length <= x.shape[axis]:
            raise call.unsupported(f"a size of {length} where the run brings the begin", f"1 to {x.shape[axis]}")
        start = element_of(call, begin, axis) if of_run else constant(np.int64(offset))
        length = x.shape[axis] - offset if length == -1 else length
        if not 0 <= length <= x.shape[axis]:
            raise call.fail(f"{length} elements from {offset} on are not inside axis {axis} of {x.type}")
        x = window(call, x, axis, start, length)
    return x


@known_at_build("begin", "end", "strides")
def strided_slice(call: TfliteCall) -> Results:
    """Import STRIDED_SLICE: NumPy's x[begin:end:stride, ...]; bit i of each mask option applies to entry i."""
    x = call.input(0)
    if call.input(1).array is None or call.input(2).array is None:
        return _strided_slice_of_run(call, x)
    begin = call.ints(1, "begin")
    end, stride = call.ints(2, "end", len(begin)), call.ints(3, "strides", len(begin))
    masks = _masks(call)
    ellipses = [i for i in range(len(begin)) if masks["Ellipsis"] >> i & 1]
    new = [i for i in range(len(begin)) if masks["NewAxis"] >> i & 1 and i not in ellipses]
    covered = len(begin) - len(ellipses) - len(new)
    if len(ellipses) > 1 or covered > x.rank:
        raise call.fail(f"{covered} entries and {len(ellipses)} ellipses are too many for {x.type}")
    ranges: list[tuple[int, int, int]] = []  # start, stop, step of each dimension of x
    made: list[int] = []
    for i, (first, last, step) in enumerate(zip(begin, end, stride, strict=True)):
        if i in ellipses:
            skipped = x.shape[len(ranges) : len(ranges) + x.rank - covered]
            ranges += [(0, length, 1) for length in skipped]
            made += skipped
        elif i in new:
            made.append(1)
        elif masks["ShrinkAxis"] >> i & 1:
            chosen_one = 0 if masks["Begin"] >> i & 1 and step > 0 else first
            at = call.axis(chosen_one, x.shape[len(ranges)], f"dimension {len(ranges)}, element")
            ranges.append((at, at + 1, 1))
        else:
            if call.option("Offset", False):
                last += first
            start = None if masks["Begin"] >> i & 1 else first
            stop = None if masks["End"] >> i & 1 else last
            if step == 0:
                raise call.fail("a stride is 0")
            chosen = range(x.shape[len(ranges)])[start:stop:step]
            ranges.append((chosen.start, chosen.stop, step) if len(chosen) else (0, 0, 1))
            made.append(len(chosen))
    made += x.shape[len(ranges) :]
    ranges += [(0, length, 1) for length in x.shape[len(ranges) :]]
    return call.reshape(cut(call, x, dict(enumerate(ranges))), made)


def _masks(call: TfliteCall) -> dict[str, int]:
    names = ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")
    return {name: int(call.option(name + "Mask", 0)) for name in names}


def _strided_slice_of_run(call: TfliteCall, x: Value) -> Value:
    """Return a STRIDED_SLICE of which a run brings begins or ends, with strides of 1.

    Raises: MavcgError for lists of other lengths; for what cut_in_run refuses, that begin or end is not known.
    """
    begin, end, strides, masks = call.input(1), call.input(2), call.ints(3, "strides"), _masks(call)
    missing = (1, "begin") if begin.array is None else (2, "end")
    if any(v.dtype not in WHOLE or v.shape != (len(strides),) for v in (begin, end)) or len(strides) > x.rank:
        raise call.fail(f"begin {begin.type}, end {end.type} and strides {list(strides)} of {x.type}")
    if masks["Ellipsis"] or masks["NewAxis"] or call.option("Offset", False) or set(strides) != {1}:
        raise call.not_known(*missing, "supported: strides of 1, without an ellipsis, new axes and offsets")
    first, last = numbers_of(call.emitter, begin), numbers_of(call.emitter, end)
    removed = [axis for axis in range(len(strides)) if masks["ShrinkAxis"] >> axis & 1]
    try:
        for axis in reversed(range(len(strides))):
            start = _bound(call, begin, axis, first, None if not masks["Begin"] >> axis & 1 else 0)
            if axis in removed:
                x = indices.gather_along(call, x, start, axis)
                continue
            stop = _bound(call, end, axis, last, None if not masks["End"] >> axis & 1 else x.shape[axis])
            if start.array != 0 or stop.array != x.shape[axis]:
                x = cut_in_run(call, x, [axis], call.reshape(start, (1,)), call.reshape(stop, (1,)))
    except UnsupportedOp as error:
        raise call.not_known(*missing, problem(error)) from error
    return x


def _bound(call: TfliteCall, given: Value, axis: int, numbers: Sequence[RunNumber], known: int | None) -> Value:
    """Return an entry of begin or end, i64 scalar. known: replaces it."""
    number = numbers[axis].constant if known is None else known
    return element_of(call, given, axis) if number is None else constant(np.int64(number))


@known_at_build("axes")
def reverse_v2(call: TfliteCall) -> Results:
    """Import REVERSE_V2."""
    x = call.input(0)
    axes = {call.axis(a, x.rank, "axes") for a in call.ints(1, "axes")}
    return cut(call, x, {axis: (x.shape[axis] - 1, -1, -1) for axis in axes if x.shape[axis]})


HANDLERS: Mapping[str, Handler] = {
    "REVERSE_V2": reverse_v2,
    "SLICE": slice_,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "STRIDED_SLICE": strided_slice,
    "UNPACK": unpack,
}
