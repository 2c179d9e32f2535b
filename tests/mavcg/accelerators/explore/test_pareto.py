"""Pareto fronts against the definition, taken literally."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mavcg.accelerators.explore.pareto import all_dominated, pareto_front

ROWS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 4), min_size=width, max_size=width), min_size=1, max_size=30)
)


def dominates(a: list[int], b: list[int]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and a != b


@given(ROWS)
def test_front_is_what_no_row_dominates(rows: list[list[int]]) -> None:
    expected = [i for i, row in enumerate(rows) if not any(dominates(other, row) for other in rows)]

    assert pareto_front(np.array(rows, np.float64)).tolist() == expected


@given(ROWS, st.integers(1, 10))
def test_all_dominated_is_strict(rows: list[list[int]], cut: int) -> None:
    values, front = rows[:cut], rows[cut:] or rows[:1]
    expected = all(any(dominates(other, row) for other in front) for row in values)

    assert all_dominated(np.array(values, np.float64), np.array(front, np.float64)) == expected


def test_equal_points_are_on_the_front_together() -> None:
    assert pareto_front(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [2.0, 2.0]])).tolist() == [0, 1, 2]
