"""Algorithm 4's choice against a sort of all candidates."""

from hypothesis import given
from hypothesis.strategies import floats, integers, lists, tuples

from mavcg.choose.cheapest import cheapest


@given(lists(tuples(integers(0, 6), integers(0, 3))))
def test_the_first_of_least_cost_is_that_of_a_stable_sort(candidates: list[tuple[int, int]]) -> None:
    by_cost = sorted(candidates, key=lambda candidate: candidate[0])

    assert cheapest(candidates, lambda candidate: candidate[0]) == (by_cost[0] if by_cost else None)
    ordered = cheapest(candidates, lambda candidate: candidate[0], order=lambda candidate: candidate[1])
    assert ordered == min(candidates, default=None)


@given(lists(floats(1, 100)), floats(1, 100))
def test_the_plain_one_stays_unless_another_is_cheaper_by_the_error_of_the_model(
    costs: list[float], own: float
) -> None:
    chosen = cheapest(
        ["plain", *map(str, costs)],
        lambda name: own if name == "plain" else float(name),
        plain="plain",
        least_ratio=0.9,
    )

    assert chosen == (str(min(costs)) if costs and min(costs) < 0.9 * own else "plain")
