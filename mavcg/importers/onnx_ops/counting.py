"""Handlers of operators of whose results only a run decides the number: NonZero, Compress, Unique."""

from collections.abc import Mapping

import numpy as np

from mavcg.importers import indices
from mavcg.importers.counted import coordinates, is_counted, true_places, without_count
from mavcg.importers.limits import LARGEST_TOP
from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.unique import distinct
from mavcg.importers.value import constant


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


HANDLERS: Mapping[str, Handler] = {"Compress": compress, "NonZero": non_zero, "Unique": unique}
