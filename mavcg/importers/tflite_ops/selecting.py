"""TFLite operators that choose elements or boxes: WHERE of one input, UNIQUE, NON_MAX_SUPPRESSION_V4 and _V5."""

from collections.abc import Mapping

import numpy as np

from mavcg.importers import indices
from mavcg.importers.call import known_at_build
from mavcg.importers.counted import coordinates, true_places
from mavcg.importers.limits import LARGEST_TOP
from mavcg.importers.tflite_ops.call import Handler, Results, TfliteCall
from mavcg.importers.unique import distinct
from mavcg.importers.value import Value, constant


def where(call: TfliteCall) -> Results:
    """Import WHERE of one input: the coordinates of what is not 0, of whose number a run decides."""
    x = call.input(0, rank_min=1)
    if len(call.inputs) != 1:
        raise call.fail(f"{len(call.inputs)} inputs; one is needed")
    if x.type.elements == 0:
        return constant(np.zeros((0, x.rank), np.int64))
    flags = x if x.dtype == "bool" else call.add("not", call.add("equal", x, call.scalar(0, x)))
    return coordinates(call, true_places(call, flags), x.shape)


def unique(call: TfliteCall) -> Results:
    """Import UNIQUE: different elements in the order in which they occur, and the number of each element's."""
    x = call.input(0, rank=1)
    if len(call.results) != 2 or x.count is not None:
        raise call.unsupported(
            f"{len(call.results)} outputs of {x.type}", "elements and their numbers, of fixed length"
        )
    if x.shape[0] > LARGEST_TOP:
        raise call.unsupported(f"{x.shape[0]} elements", f"at most {LARGEST_TOP}")
    to = call.results[1].dtype or "i32"
    if x.shape[0] == 0:
        return x, constant(np.zeros(0), to)
    found = distinct(call, x, 0, ordered=False)
    return indices.gather_along(call, x, found.first, 0), call.cast(found.number_of, to)


@known_at_build("max_output_size")
def non_max_suppression(call: TfliteCall) -> Results:
    """Import NON_MAX_SUPPRESSION_V4: places of the boxes that remain, then zeros; their number."""
    return _suppress(call, False)


@known_at_build("max_output_size", "soft_nms_sigma")
def non_max_suppression_with_scores(call: TfliteCall) -> Results:
    """Import NON_MAX_SUPPRESSION_V5, which also returns the scores."""
    return _suppress(call, True)


def _suppress(call: TfliteCall, with_scores: bool) -> Results:
    """Return the results of a non-maximum suppression."""
    boxes, scores, (most,) = call.operand(0, rank=2), call.operand(1, rank=1), call.ints(2, "max_output_size", 1)
    overlap, least = (_one_number(call, i) for i in (3, 4))
    sigma = call.array(5, "soft_nms_sigma") if with_scores else np.zeros(())
    if boxes.shape != (scores.shape[0], 4) or len(call.results) != 2 + with_scores:
        raise call.fail(f"boxes {boxes.type} for scores {scores.type}, {len(call.results)} outputs")
    if sigma.size != 1 or sigma.reshape(()) != 0:
        raise call.unsupported(f"soft_nms_sigma {sigma.reshape(-1)[:1]}", "0, where a box remains or does not")
    call.check_shape((most,), scores)
    number = scores.shape[0]
    bound = min(most, number)
    chosen = call.add(
        "suppress_boxes",
        call.reshape(boxes, (1, number, 4)),
        call.reshape(scores, (1, 1, number)),
        overlap,
        least,
        bound=bound,
        at_overlap=True,
    )
    chosen = call.reshape(chosen, (bound,))
    there = call.add("greater_equal", chosen, call.scalar(0, chosen))
    count = call.add("reduce_sum", call.cast(there, "i32"), axes=(0,), keepdims=False)
    places = call.add("max", chosen, call.scalar(0, chosen))
    padded = call.pad(call.cast(places, "i32"), (0,), (most - bound,), 0)
    if not with_scores:
        return padded, count
    if not number:
        return padded, constant(np.zeros(most, np.float32)), count
    kept = call.add("where", there, call.add("gather", scores, places, axis=0), call.scalar(0, scores))
    return padded, call.pad(kept, (0,), (most - bound,), 0), count


def _one_number(call: TfliteCall, i: int) -> Value:
    value = call.operand(i)
    if value.dtype != "f32" or value.type.elements != 1:
        raise call.fail(f"{call.input_name(i)} is {value.type} where one f32 is needed")
    return value


HANDLERS: Mapping[str, Handler] = {
    "NON_MAX_SUPPRESSION_V4": non_max_suppression,
    "NON_MAX_SUPPRESSION_V5": non_max_suppression_with_scores,
    "UNIQUE": unique,
    "WHERE": where,
}
