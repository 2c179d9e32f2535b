"""Definitions of operators that choose elements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.graph import Array, Node


def _true_places(node: Node, inputs: Sequence[Any]) -> Array:
    places = np.flatnonzero(inputs[0])
    return np.concatenate([[places.size], places, np.zeros(inputs[0].size - places.size, np.int64)])


def _corners(boxes: Array, centred: bool) -> tuple[Array, Array]:
    """Return the least and the greatest corners of boxes, [boxes, 2], in f32, in which the overlap is defined."""
    boxes = boxes.astype(np.float32)
    if centred:
        half = boxes[:, 2:] / np.float32(2)
        return boxes[:, :2] - half, boxes[:, :2] + half
    return np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])


def _overlaps(low: Array, high: Array, one: int) -> Array:
    """Return the intersection over the union of a box with each box, [boxes]; 0 with an empty one."""
    sides = np.maximum(np.minimum(high, high[one]) - np.maximum(low, low[one]), 0)
    shared = sides[:, 0] * sides[:, 1]
    areas = (high - low)[:, 0] * (high - low)[:, 1]
    union = areas + areas[one] - shared
    exists = (shared > 0) & (areas > 0) & (areas[one] > 0) & (union > 0)
    return np.where(exists, shared / np.where(exists, union, 1), 0)


def _suppress_boxes(node: Node, inputs: Sequence[Any]) -> Array:
    boxes, scores, overlap, least, most, count = inputs
    bound = node.attr("bound")
    chosen = np.full((*scores.shape[:2], bound), -1, np.int64)
    number = boxes.shape[1] if count is None else min(max(int(count.reshape(())), 0), boxes.shape[1])
    limit = bound if most is None else min(bound, max(int(most.reshape(())), 0))
    threshold = np.float32(overlap.reshape(()))
    for batch in range(scores.shape[0]):
        low, high = _corners(boxes[batch], node.attr("centred"))
        for kind, of_kind in enumerate(scores[batch]):
            left = np.arange(number)
            if least is not None:
                left = left[of_kind[:number] > least.reshape(())]
            for place in range(limit):
                if not left.size:
                    break
                best = left[np.argmax(of_kind[left])]
                chosen[batch, kind, place] = best
                shared = _overlaps(low, high, best)[left]
                far = shared < threshold if node.attr("at_overlap") else shared <= threshold
                left = left[far & (left != best)]
    return chosen


DEFINITIONS: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {
    "true_places": _true_places,
    "suppress_boxes": _suppress_boxes,
}
