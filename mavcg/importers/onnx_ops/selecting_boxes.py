"""Handler of NonMaxSuppression, of whose boxes only a run decides the number."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mavcg.importers.counted import coordinates, true_places, without_count
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.value import Value, constant


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


HANDLERS: Mapping[str, Handler] = {"NonMaxSuppression": non_max_suppression}
