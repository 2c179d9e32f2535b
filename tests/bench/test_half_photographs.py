"""Detections and classes, as bench.half_photographs compares them."""

import numpy as np
import pytest

from bench.half_photographs import DETECTORS, anchors, detections, overlap, same_class, same_detections


@pytest.mark.parametrize("name", list(DETECTORS))
def test_each_anchor_is_a_centre_of_a_cell(name: str) -> None:
    centres = anchors(DETECTORS[name])
    assert len(centres) == {"face_detection_full_range": 48 * 48}.get(name, 896)
    assert centres.min() > 0 and centres.max() < 1
    assert np.allclose(np.unique(centres, axis=0).mean(axis=0), 0.5)


def test_the_better_of_two_boxes_of_a_face_is_kept() -> None:
    detector = DETECTORS["face_detection_front"]
    boxes, scores = np.zeros((1, 896, 16), np.float32), np.full((1, 896, 1), -5.0, np.float32)
    for anchor, score in ((0, 1.0), (1, 2.0), (700, 3.0), (300, -0.1)):
        boxes[0, anchor, :4], scores[0, anchor] = (anchor == 1, 0, 32, 64), score
    found = detections(detector, (scores, boxes))
    first, second = anchors(detector)[700], anchors(detector)[1] + (1 / 128, 0)
    assert np.allclose(found, [np.concatenate([c - (0.125, 0.25), c + (0.125, 0.25)]) for c in (first, second)])
    scores[:] = -5
    assert detections(detector, (boxes, scores)).shape == (0, 4)


def test_detections_are_the_same_in_any_order_if_they_overlap() -> None:
    a, b = np.array([0.1, 0.1, 0.3, 0.3]), np.array([0.5, 0.5, 0.9, 0.9])
    near, far = a + 0.002, a + 0.02
    assert overlap(a, a) == 1 and overlap(a, b) == 0 and 0.9 < overlap(a, near) < 1
    assert same_detections(np.array([b, near]), np.array([a, b]))
    assert not same_detections(np.array([b, far]), np.array([a, b]))
    assert not same_detections(np.array([b]), np.array([a, b])) and not same_detections(np.array([a, b]), np.array([b]))
    assert same_detections(np.zeros((0, 4)), np.zeros((0, 4)))


def test_the_largest_score_decides_the_class() -> None:
    assert same_class([np.array([0.1, 0.9])], [np.array([0.3, 0.4])])
    assert not same_class([np.array([0.9, 0.1])], [np.array([0.3, 0.4])])
