"""The choice of layers and points: the sets that are measured, the front beside brute force, and refusals."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.model.quantise.front import (
    LayerJudgement,
    Point,
    best_first,
    choose_point,
    measure_points,
    mixtures,
    on_front,
)

LAYERS = (
    LayerJudgement("slower", "Conv", 1.0, 2.0, 0.01),
    LayerJudgement("cheap", "Conv", 3.0, 1.0, 0.01),
    LayerJudgement("costly", "Conv", 3.0, 2.0, 0.50),
    LayerJudgement("left", "Gemm", 3.0, 1.0, None),
    LayerJudgement("middle", "Gemm", 2.0, 1.0, 0.02),
)


def test_layers_that_pay_are_ordered_by_error_for_time() -> None:
    assert best_first(LAYERS) == ["cheap", "middle", "costly"]


def test_sets_go_from_none_over_those_that_pay_to_all_that_can() -> None:
    # Gains 2, 1, 1: a third of 4 ms is saved by the first layer, two thirds by two. A third of four layers is two.
    assert set(mixtures(LAYERS, 4)) == {
        (),
        ("cheap",),
        ("cheap", "middle"),
        ("cheap", "costly", "middle"),
        ("slower", "cheap"),
        ("slower", "cheap", "middle"),
        ("slower", "cheap", "costly", "middle"),
    }
    assert mixtures(LAYERS, 0) == [(), ("cheap", "costly", "middle"), ("slower", "cheap", "costly", "middle")]


POINTS = measure_points(
    [(), ("a",), ("a", "b"), ("a", "b", "c")],
    lambda layers: {0: (4.0, 0.0), 1: (3.0, 0.01), 2: (2.0, 0.2), 3: (2.5, 0.3)}[len(layers)],
)


def test_the_fastest_point_within_the_error_is_chosen() -> None:
    assert [(point.ms, point.error) for point in POINTS] == [(4.0, 0.0), (3.0, 0.01), (2.5, 0.3), (2.0, 0.2)]
    assert on_front(POINTS) == (True, True, False, True)
    assert choose_point(POINTS, 0.1, None) == 1 and choose_point(POINTS, 0.5, None) == 3
    assert choose_point(POINTS, 0.1, 2) == 2


@pytest.mark.parametrize(
    ("max_error", "number", "words"),
    [(0.001, None, "the least error with layers in 8 bits is 0.01"), (0.1, 4, "points 0 to 3"), (0.1, 0, "no layer")],
)
def test_a_point_that_the_front_does_not_have_is_refused(max_error: float, number: int | None, words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        choose_point(POINTS, max_error, number)
    with pytest.raises(MavcgError, match="none can be in 8 bits"):
        choose_point(POINTS[:1], 1.0, None)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6))
def test_a_point_is_on_the_front_unless_another_is_better(costs: list[tuple[int, int]]) -> None:
    points = [Point(("a",), ms, error) for ms, error in costs]
    worse = {
        a
        for (a, p), (_, q) in permutations(enumerate(costs), 2)
        if all(y <= x for x, y in zip(p, q, strict=True)) and p != q
    }
    assert [at for at, kept in enumerate(on_front(points)) if not kept] == sorted(worse)
