"""Handlers of NonZero, Compress, Unique and NonMaxSuppression, of whose results only a run decides the number."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mavcg.importers import indices
from mavcg.importers.counted import coordinates, is_counted, true_places, without_count
from mavcg.importers.limits import LARGEST_TOP
from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.unique import distinct
from mavcg.importers.value import Value, constant


def non_zero(call: OnnxCall) -> Results:
    """Import NonZero: the coordinates of the elements that are not 0, [rank, count]."""
    x = call.input(0)
    if x.rank == 0:  # as onnxruntime and ONNX's reference: a scalar counts as a list of one element
        x = call.reshape(x, (1,))
    if x.type.elements == 0:
        return constant(np.zeros((x.rank, 0), np.int64))
    flags = x if x.dtype == "bool" else call.add("not", call.add("equal", x, call.scalar(0, x)))
    return coordinates(call, true_places(call, flags), x.shape, axis=0)


def compress(call: OnnxCall) -> Results:
    """Import Compress: the slices along an axis, or elements without one, where a condition is true."""
    x, condition = call.input(0), call.input(1, rank=1)
    if condition.dtype != "bool":
        raise call.fail(f"its input condition is {condition.type} where a list of bools is needed")
    if "axis" in call.attrs:
        axis = call.axis(call.attr_int("axis"), x.rank)
    else:
        x, axis = call.reshape(x, (x.type.elements,)), 0
    length = x.shape[axis]
    if x.count is not None or condition.count is not None:
        if x.count != condition.count or not is_counted(x, axis) or axis != 0:
            raise call.unsupported("data and a condition of which only a run decides other lengths", "the same one")
        condition, x = call.emitter.mask_rest(condition, call.origin), without_count(x)
    if condition.array is None and condition.shape[0] > length:
        condition = cut(call, condition, {0: (0, length, 1)})
    if length == 0 and condition.array is None:
        return x
    return indices.gather_along(call, x, true_places(call, condition), axis)


def unique(call: OnnxCall) -> Results:
    """Import Unique: different elements, or slices along an axis, with the place of the first one of each, the number
    of each element's, and how often each occurs."""
    x, ordered = call.input(0), call.attr_bool("sorted", True)
    if x.count is not None:
        raise call.unsupported("data of which only a run decides the length", "a fixed one")
    axis = call.axis(call.attr_int("axis"), x.rank) if "axis" in call.attrs else None
    if axis is None:
        x, axis = call.reshape(x, (x.type.elements,)), 0
    count = x.shape[axis]
    if not x.is_constant and count > LARGEST_TOP:
        raise call.unsupported(f"{count} elements of computed data", f"at most {LARGEST_TOP}")
    if count == 0:
        none = constant(np.zeros(0, np.int64))
        return x, none, none, none
    found = distinct(call, x, axis, ordered)
    return indices.gather_along(call, x, found.first, axis), found.first, found.number_of, found.occurrences


def non_max_suppression(call: OnnxCall) -> Results:
    """Import NonMaxSuppression: batch, class and number of each box that remains, the best of each class first."""
    boxes, scores = call.input(0, rank=3), call.input(1, rank=3)
    batch, classes, count = scores.shape
    if boxes.shape != (batch, count, 4):
        raise call.fail(f"boxes {boxes.type} for scores {scores.type}")
    centred = call.attr_int("center_point_box", 0)
    if centred not in (0, 1):
        raise call.fail(f"center_point_box {centred}; it is 0 or 1")
    most = call.maybe(2) or constant(np.int64(0))
    if most.type.elements != 1 or most.dtype not in ("i32", "i64"):
        raise call.fail(f"{call.input_name(2)} is {most.type} where one i64 is needed")
    bound = count if most.array is None else min(max(int(most.array.reshape(())), 0), count)
    number = _number_of_boxes(call, boxes, scores)
    overlap, least = _threshold(call, 3) or constant(np.float32(0)), _threshold(call, 4)
    if bound * batch * classes == 0:
        return constant(np.zeros((0, 3), np.int64))
    limits = overlap, least, most if most.array is None else None, number
    attrs = {"bound": bound, "centred": bool(centred)}
    chosen = call.add("suppress_boxes", without_count(boxes), without_count(scores), *limits, **attrs)
    places = true_places(call, call.add("greater_equal", chosen, call.scalar(0, chosen)))
    numbers = call.add("gather", call.reshape(chosen, (chosen.type.elements,)), places, axis=0)
    of_class = coordinates(call, places, (batch, classes), bound)
    return call.add("concat", of_class, call.reshape(numbers, (*numbers.shape, 1)), axis=1)


def _number_of_boxes(call: OnnxCall, boxes: Value, scores: Value) -> Value | None:
    """Return the number of boxes in a run, if only that decides it."""
    if boxes.count is None and scores.count is None:
        return None
    if scores.count is None or scores.count.axis != 2 or boxes.count != replace(scores.count, axis=1):
        raise call.unsupported("boxes and scores of which only a run decides other lengths", "that of the boxes")
    return call.emitter.count_value(scores.count)


def _threshold(call: OnnxCall, i: int) -> Value | None:
    """Return a threshold that is given, an f32 scalar."""
    given = call.maybe(i)
    if given is not None and (given.dtype != "f32" or given.type.elements != 1):
        raise call.fail(f"{call.input_name(i)} is {given.type} where one f32 is needed")
    return given


HANDLERS: Mapping[str, Handler] = {
    "Compress": compress,
    "NonMaxSuppression": non_max_suppression,
    "NonZero": non_zero,
    "Unique": unique,
}
