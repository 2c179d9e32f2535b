"""Shapes with a length that a run brings (Reshape, Expand, ConstantOfShape, Tile): an axis has a bound and a count."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mavcg.importers import movement
from mavcg.importers.call import NodeCall
from mavcg.importers.counted import is_counted, same_count, with_count
from mavcg.importers.limits import MOST_INTS
from mavcg.importers.run_bounds import bounds_of
from mavcg.importers.run_lengths import LONGEST, NO_BOUND, move_inside
from mavcg.importers.run_numbers import WHOLE, RunNumber, numbers_of
from mavcg.importers.run_slices import element_of
from mavcg.importers.value import Value


def _lengths(call: NodeCall, shape: Value) -> tuple[list[RunNumber], int | None]:
    """Return (the entries of a shape, the number of the one that a run brings). Raises: UnsupportedOp for several."""
    if shape.dtype not in WHOLE or shape.rank != 1 or shape.type.elements > MOST_INTS:
        raise call.fail(f"a shape {shape.type}; a list of at most {MOST_INTS} whole numbers is needed")
    numbers = numbers_of(call.emitter, shape)
    of_run = [i for i, number in enumerate(numbers) if number.constant is None]
    if len(of_run) > 1:
        raise call.unsupported("several lengths that a run brings", "one")
    return numbers, of_run[0] if of_run else None


def _bound(call: NodeCall, shape: Value, axis: int, times: int = 1) -> int:
    """Return the bound of an entry of a shape. times: elements for each one."""
    most = bounds_of(call.emitter, element_of(call, shape, axis))[1]
    if most * times > LONGEST:
        raise call.unsupported(f"a length {NO_BOUND}", f"a bound of {LONGEST} elements")
    return max(int(most), 2)  # an axis of length 1 is not distinguished from its neighbours in a reshape


def _with_length(call: NodeCall, value: Value, axis: int, length: Value, times: int, bound: int) -> Value:
    """Return a value with a count along an axis: `times` a length, i64 scalar, that is at most a bound."""
    number = RunNumber().plus(numbers_of(call.emitter, length)[0], times)
    if (same := same_count(call, number)) is not None:
        return replace(value, count=replace(same, axis=axis))
    count = move_inside(call, length, bound)
    return with_count(call, value, axis, count if times == 1 else call.add("mul", count, call.scalar(times, count)))


def shape_of_reshape(call: NodeCall, x: Value, shape: Value) -> tuple[int, ...]:
    """Return the shape of a Reshape with -1 for the length that a run brings, which is that of x's count.

    Raises: UnsupportedOp if it is another length, or if there is another -1.
    """
    numbers, axis = _lengths(call, shape)
    if axis is None:
        return tuple(number.offset for number in numbers)
    others = [number.offset for i, number in enumerate(numbers) if i != axis]
    if x.count is not None and -1 not in others and all(n > 0 for n in others):
        (count,) = numbers_of(call.emitter, call.emitter.count_value(x.count))
        rest = x.type.elements // x.shape[x.count.axis]
        # The entry times the others is the count times what each of its indices has.
        product = int(np.prod(others, dtype=np.int64))
        if RunNumber().plus(numbers[axis], product).plus(count, -rest).constant == 0:
            return tuple(-1 if i == axis else number.offset for i, number in enumerate(numbers))
    raise call.unsupported("a length that a run brings", "that of the tensor, where only a run decides it")


def expand_in_run(call: NodeCall, x: Value, shape: Value) -> Value:
    """Return x broadcast to a shape with a length that a run brings. Raises: UnsupportedOp for one without a bound."""
    numbers, axis = _lengths(call, shape)
    assert axis is not None
    rank = max(x.rank, len(numbers))
    at = axis + rank - len(numbers)
    own = at - (rank - x.rank)
    lengths = [number.offset for number in numbers]
    if own >= 0 and is_counted(x, own):
        (count,) = numbers_of(call.emitter, element_of(call, shape, axis))
        (there,) = numbers_of(call.emitter, call.emitter.count_value(x.count)) if x.count else (count,)
        if count.plus(there, -1).constant != 0:
            raise call.unsupported("two lengths that a run brings", "the same one")
        lengths[axis] = x.shape[own]
        return _broadcast(call, x, lengths)
    if x.count is not None or (own >= 0 and x.shape[own] != 1):
        raise call.unsupported(f"{x.type} along an axis of a length that a run brings", "a length of 1 there")
    lengths[axis] = _bound(call, shape, axis)
    return _with_length(call, _broadcast(call, x, lengths), at, element_of(call, shape, axis), 1, lengths[axis])


def _broadcast(call: NodeCall, x: Value, lengths: Sequence[int]) -> Value:
    try:
        shape = np.broadcast_shapes(x.shape, tuple(lengths))
    except ValueError as error:
        raise call.fail(f"{x.type} does not broadcast with {list(lengths)}") from error
    call.check_shape(shape, x)
    return x if shape == x.shape else call.add("broadcast_to", x, shape=shape)


def tile_in_run(call: NodeCall, x: Value, repeats: Value) -> Value:
    """Return x repeated along each dimension, along one of them as often as a run brings.

    Raises: UnsupportedOp for a number without a bound, and for another axis of which only a run decides the length.
    """
    numbers, axis = _lengths(call, repeats)
    if axis is None or len(numbers) != x.rank:
        raise call.fail(f"repeats {repeats.type} for {x.type}; a number for each dimension is needed")
    if x.count is not None or x.shape[axis] == 0:
        raise call.unsupported("two lengths that a run brings", "one")
    bound = _bound(call, repeats, axis, x.shape[axis])
    times = [bound if i == axis else n.offset for i, n in enumerate(numbers)]
    call.check_shape([n * t for n, t in zip(x.shape, times, strict=True)], x)
    made = movement.tile(call, x, times)
    return _with_length(call, made, axis, element_of(call, repeats, axis), x.shape[axis], bound)
