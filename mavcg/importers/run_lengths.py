"""Ranges, largest elements and pads whose numbers a run brings: the result has a bound and a count.

The bound is proven from the graph (run_bounds.py); a count is moved into it in the run.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mavcg.graph import DTYPES
from mavcg.graph.ops.op import FLOATS
from mavcg.importers import indices
from mavcg.importers.call import NodeCall
from mavcg.importers.counted import is_counted, same_count, with_count, without_count
from mavcg.importers.run_bounds import bounds_of
from mavcg.importers.run_numbers import WHOLE, RunNumber, numbers_of
from mavcg.importers.run_slices import element_of
from mavcg.importers.value import Value, constant

LONGEST = 1 << 20  # maximum elements along an axis of which a run decides the length
NO_BOUND = "of which nothing says how large it may be: bound it, as by Min with a constant"


def range_in_run(call: NodeCall, start: Value, limit: Value, step: int) -> Value:
    """Return the numbers start, start + step, .. before limit, of their type. A run may bring start and limit.

    Raises: MavcgError for a step of 0 and numbers of different types; UnsupportedOp for floats, and for numbers without
    a bound.
    """
    if start.dtype != limit.dtype or start.type.elements != 1 or limit.type.elements != 1 or step == 0:
        raise call.fail(f"from {start.type} to {limit.type} by {step}; scalars of one type, and a step other than 0")
    if start.dtype not in WHOLE:
        raise call.unsupported(f"from {start.type} to {limit.type}, of a run", f"a range of {' or '.join(WHOLE)}")
    dtype, size = start.dtype, abs(step)
    first = call.cast(call.reshape(start, ()), "i64")
    (begin,), (end,) = numbers_of(call.emitter, start), numbers_of(call.emitter, limit)
    if (length := end.plus(begin, -1).constant) is not None:  # it is the same in each run
        number = max(-((-length if step > 0 else length) // size), 0)
        call.count_size(number, 8)
        return call.cast(call.add("add", first, constant(np.arange(number, dtype=np.int64) * step)), dtype)
    (least_start, most_start), (least, most) = (bounds_of(call.emitter, value) for value in (start, limit))
    span = most - least_start if step > 0 else most_start - least
    bound = max(math.ceil(span / size), 2)  # an axis of length 1 is not distinguished from its neighbours in a reshape
    if bound > LONGEST:
        raise call.unsupported(f"a limit {NO_BOUND}", f"a bound of {LONGEST} elements")
    last = call.cast(call.reshape(limit, ()), "i64")
    numbers = call.add("add", first, constant(np.arange(bound, dtype=np.int64) * step))
    if size == 1 and (same := same_count(call, RunNumber().plus(end, step).plus(begin, -step))) is not None:
        return replace(call.cast(numbers, dtype), count=same)
    length_of = call.add("sub", last, first) if step > 0 else call.add("sub", first, last)
    count = call.add("div", call.add("add", length_of, constant(np.int64(size - 1))), constant(np.int64(size)))
    return with_count(call, call.cast(numbers, dtype), 0, move_inside(call, count, bound))


def move_inside(call: NodeCall, number: Value, most: int) -> Value:
    """Return a whole number moved into 0 to `most`."""
    return call.add("min", call.add("max", number, constant(np.int64(0))), constant(np.int64(most)))


def top_in_run(
    call: NodeCall, x: Value, axis: int, number: Value, largest: bool, most_elements: int
) -> tuple[Value, Value]:
    """Return the first elements along an axis in descending (or ascending) order, and their places, i64.

    number: of elements, which a run brings; more than there are, or less than none, end it with MAVCG_ERROR_INDEX.
    most_elements: maximum bound of it. x: may have a count along the axis. Raises: UnsupportedOp for a larger bound,
    and for less than two elements.
    """
    if number.type.elements != 1 or number.dtype in FLOATS:
        raise call.fail(f"its number of elements is {number.type} where one whole number is needed")
    length = x.shape[axis]
    bound = int(min(length, max(bounds_of(call.emitter, number)[1], 2)))
    if not 2 <= bound <= most_elements or (x.count is not None and not is_counted(x, axis)):
        raise call.unsupported(
            f"as many of {length} elements as a run brings",
            f"2 to {most_elements} elements, or a number bounded by Min",
        )
    count = indices.check_index(call, number, length + 1)
    if x.count is not None:  # what is behind the count comes last
        there = call.emitter.count_value(x.count)
        count = call.add("sub", there, indices.check_index(call, call.add("sub", there, count), length + 1))
        column = [length if i == axis else 1 for i in range(x.rank)]
        inside = call.reshape(call.emitter.inside_count(x.count, length), column)
        x = call.add("where", inside, without_count(x), constant(_last(x.dtype, largest), x.dtype))
    best = call.add("arg_top", x, axis=axis, count=bound, smallest=not largest)
    count = move_inside(call, count, bound)
    values = indices.gather_elements(call, x, best, axis)
    return with_count(call, values, axis, count), with_count(call, best, axis, count)


def _last(dtype: str, largest: bool) -> float:
    """Return the number of a type that comes last in descending or ascending order."""
    if dtype in FLOATS:
        return -np.inf if largest else np.inf
    info = np.iinfo(DTYPES[dtype])
    return info.min if largest else info.max


def pad_in_run(
    call: NodeCall, x: Value, axis: int, pads: tuple[Value, Value], mode: str, filler: Value | None
) -> Value:
    """Return a tensor with elements before and after those of an axis, whose numbers a run brings.

    pads: elements before and after, i64 scalars; negative ones remove. mode: constant, edge, reflect or wrap. filler: a
    scalar of x's type, of mode constant. x: may have a count along the axis, of mode constant. Raises: UnsupportedOp
    for pads without a bound, and for two axes of which only the run decides the length.
    """
    length = x.shape[axis]
    if x.count is not None and (not is_counted(x, axis) or mode != "constant"):
        raise call.unsupported("two axes of which only a run decides the length", "one, by constants")
    there = constant(np.int64(length)) if x.count is None else call.emitter.count_value(x.count)
    parts = [numbers_of(call.emitter, part)[0] for part in (there, *pads)]
    total = parts[0].plus(parts[1]).plus(parts[2])
    bound = total.constant if total.constant is not None else _bound_of(call, there, pads)
    if length < 2 or bound is None or bound < 2 or bound > LONGEST:
        raise call.unsupported(
            f"pads of {length} elements to {bound} in a run" if bound is not None and bound < 2 else f"pads {NO_BOUND}",
            f"a bound of 2 to {LONGEST} elements",
        )
    before, after = pads
    places = call.add("sub", constant(np.arange(bound, dtype=np.int64)), before)
    inside = call.add("less_equal", constant(np.int64(0)), places)
    inside = call.add("and", inside, call.add("less", places, there))
    made = indices.gather_along(call, without_count(x), _source(call, places, length, mode), axis, from_end=False)
    if mode == "constant":
        assert filler is not None
        column = [bound if i == axis else 1 for i in range(x.rank)]
        made = call.add("where", call.reshape(inside, column), made, call.reshape(filler, ()))
    if total.constant is not None:
        return made
    count = call.add("add", call.add("add", there, before), after)
    return with_count(call, made, axis, move_inside(call, count, bound))


def _bound_of(call: NodeCall, there: Value, pads: Sequence[Value]) -> int | None:
    bound = sum(bounds_of(call.emitter, part)[1] for part in (there, *pads))
    return int(bound) if math.isfinite(bound) else None


def _source(call: NodeCall, places: Value, length: int, mode: str) -> Value:
    """Return, for places before, in and behind a row, the places in it that they are filled from."""
    if mode == "wrap":
        return call.add("mod", places, constant(np.int64(length)))
    if mode == "reflect":  # there and back is a period
        period = constant(np.int64(2 * (length - 1)))
        around = call.add("mod", places, period)
        return call.add("min", around, call.add("sub", period, around))
    return move_inside(call, places, length - 1)


def pads_in_run(
    call: NodeCall, x: Value, axes: Sequence[int], pads: Value, mode: str, filler: Value | None
) -> tuple[Value, list[int], list[int]]:
    """Return (x with the pads that a run brings, the others' numbers before, after, by dimension of x).

    axes: those of the list, all numbers before them first. An axis of which only a run decides the length is padded
    here, too. Raises: as pad_in_run.
    """
    numbers = numbers_of(call.emitter, pads)
    before, after = [0] * x.rank, [0] * x.rank
    for i, axis in enumerate(axes):
        both = numbers[i], numbers[len(axes) + i]
        if any(number.constant is None or (number.offset and is_counted(x, axis)) for number in both):
            elements = element_of(call, pads, i), element_of(call, pads, len(axes) + i)
            x = pad_in_run(call, x, axis, elements, mode, filler)
        else:
            before[axis], after[axis] = (number.offset for number in both)
    return x, before, after
