"""Kernels that choose elements: the places of true ones, and boxes that do not overlap."""

from typing import Any

import numpy as np
import pytest

AssertNode = Any
Inside = Any


@pytest.mark.parametrize("length", [1, 8, 65])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_true_places(assert_node: AssertNode, inside: Inside, length: int, share: float) -> None:
    flags = np.random.default_rng(length).random(length) < share
    places, *_ = assert_node("true_places", (flags,))
    count = int(flags.sum())
    assert places.tolist() == [count, *np.flatnonzero(flags), *[0] * (length - count)]
    assert_node("true_places", (flags,), views={"x0": inside("bool", (length,)), "y": inside("i64", (length + 1,))})


def test_places_of_nothing(assert_node: AssertNode) -> None:
    assert assert_node("true_places", (np.zeros(0, np.bool_),))[0].tolist() == [0]


def suppressed(boxes: Any, scores: Any, overlap: float, least: float, most: int) -> list[int]:
    """Return the boxes that remain, by the definition: each is compared with all that were chosen before it."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    chosen: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        sides = [np.maximum(np.minimum(high[i], high[j]) - np.maximum(low[i], low[j]), 0) for j in chosen]
        shared = [float(np.prod(side)) for side in sides]
        areas = [float(np.prod(high[k] - low[k])) for k in (*chosen, i)]
        near = (s > 0 and s / (a + areas[-1] - s) > overlap for s, a in zip(shared, areas, strict=False))
        if scores[i] > least and len(chosen) < most and not any(near):
            chosen.append(int(i))
    return chosen


@pytest.mark.parametrize("seed", range(6))
def test_boxes_remain(assert_node: AssertNode, seed: int) -> None:
    draw = np.random.default_rng(seed)
    batch, classes, count, most = (int(draw.integers(1, n)) for n in (3, 4, 41, 41))
    overlap = float(draw.random())
    # Whole numbers, whose overlaps are the same in every arithmetic, and scores of which many are equal.
    boxes = draw.integers(0, 12, (batch, count, 4)).astype(np.float32)
    scores = (draw.integers(0, 8, (batch, classes, count)) / 8).astype(np.float32)
    limits = (np.float32(overlap), np.float32(0.25), np.array([most], np.int64))
    made, *_ = assert_node("suppress_boxes", (boxes, scores, *limits), bound=count)
    for b in range(batch):
        for c in range(classes):
            want = suppressed(boxes[b], scores[b, c], float(np.float32(overlap)), 0.25, most)
            assert made[b, c].tolist() == want + [-1] * (count - len(want))


@pytest.mark.parametrize("centred", [False, True])
def test_boxes_of_other_memory(assert_node: AssertNode, inside: Inside, centred: bool) -> None:
    draw = np.random.default_rng(3)
    boxes, scores = draw.random((2, 30, 4), np.float32), draw.random((2, 3, 30), np.float32)
    views = {
        "x0": inside("f32", boxes.shape),
        "x1": inside("f32", scores.shape),
        "y": inside("i64", (2, 3, 7)),
    }
    assert_node("suppress_boxes", (boxes, scores, np.float32(0.4)), bound=7, centred=centred, views=views)


@pytest.mark.parametrize("count", [-1, 0, 5, 10, 1 << 40])
def test_of_some_boxes(assert_node: AssertNode, count: int) -> None:
    draw = np.random.default_rng(4)
    boxes, scores = draw.random((1, 10, 4), np.float32), draw.random((1, 1, 10), np.float32)
    made, *_ = assert_node("suppress_boxes", (boxes, scores, np.float32(1), None, None, np.int64(count)), bound=10)
    assert sorted(made[made >= 0]) == list(range(min(max(count, 0), 10)))


def test_hostile_boxes(assert_node: AssertNode) -> None:
    nan, inf = float("nan"), float("inf")
    boxes = np.array([[[nan, 0, 1, 1], [0, 0, inf, inf], [0, 0, 1, 1], [-inf, -inf, inf, inf]]], np.float32)
    scores = np.array([[[nan, inf, -inf, 0]]], np.float32)
    for least in (None, np.float32(-1)):
        made, *_ = assert_node("suppress_boxes", (boxes, scores, np.float32(0.5), least), bound=4)
        assert set(made.ravel()) <= {-1, 0, 1, 2, 3}
