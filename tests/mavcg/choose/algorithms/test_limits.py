"""What has no solution, what has no time, and what instances must not be."""

import math
from typing import Any

import numpy as np
import pytest

from mavcg.choose.pbqp import Infeasible, Instance, make_instance, solve, total_cost
from mavcg.errors import MavcgError

INF = math.inf


def random_clique(nodes: int, alternatives: int) -> Instance:
    rng = np.random.default_rng(7)
    names = [f"n{i:02}" for i in range(nodes)]
    vectors = {name: rng.random(alternatives) for name in names}
    size = (alternatives, alternatives)
    return make_instance(vectors, [(a, b, rng.random(size)) for a in names for b in names if a < b])


def test_nothing_to_choose() -> None:
    solution = solve(make_instance({}))

    assert (solution.choice, solution.cost, solution.optimal, solution.gap) == ({}, 0, True, 0)


def test_the_paper_s_example_of_a_chain() -> None:
    # Figure 2: B, C, B are cheapest by themselves; what lies between them makes another choice the best.
    convert = [[0, 3, 5], [6, 0, 5], [1, 5, 0]]
    nodes = {"conv1": [8, 6, 10], "conv2": [17, 19, 14], "conv3": [20, 17, 22]}
    alone = solve(make_instance(nodes))
    joined = solve(make_instance(nodes, [("conv1", "conv2", convert), ("conv2", "conv3", convert)]))

    assert list(alone.choice.values()) == [1, 2, 1]
    assert list(joined.choice.values()) != [1, 2, 1]
    assert joined.cost == 42 and joined.optimal  # B, B, B: 6 + 19 + 17; the next best A, A, B costs 45


def test_of_equal_choices_the_order_of_nodes_picks_none() -> None:
    nodes = {name: [1.0, 1.0] for name in "dbca"}
    edges: list[Any] = [(a, b, [[0, 1], [1, 0]]) for a, b in ("ab", "bc", "cd", "da", "ac", "bd")]
    turned = dict(reversed(nodes.items()))

    assert solve(make_instance(nodes, edges)).choice == solve(make_instance(turned, edges[::-1])).choice


def test_parallel_edges_add_up_and_an_edge_to_itself_is_the_node_s() -> None:
    nodes = {"a": [0, 0], "b": [0, 0]}
    edges: list[Any] = [("a", "b", [[0, 3], [3, 0]]), ("b", "a", [[4, 1], [0, 2]]), ("a", "a", [[1, INF], [9, 0]])]
    solution = solve(make_instance(nodes, edges))

    # [a, b]: 0 + 4 + 1, 3 + 0 + 1, 3 + 1 + 0, 0 + 2 + 0
    assert solution.choice == {"a": 1, "b": 1} and solution.cost == 2
    assert solution.counts["parallel_edges"] == 1 and solution.counts["self_edges"] == 1


@pytest.mark.parametrize(
    ("nodes", "edges", "said"),
    [
        ({"a": [1], "b": [INF, INF]}, [], "node 'b': all"),
        ({"a": [1, 2], "b": [1]}, [("a", "b", [[INF], [INF]])], "node 'a': none .* 'b'"),
        (
            {"a": [1], "b": [1, 1], "c": [1]},
            [("a", "b", [[0, INF]]), ("b", "c", [[INF], [0]])],
            "node '[abc]': none",
        ),
        ({"a": [0, 1]}, [("a", "a", [[INF, 0], [0, INF]])], "node 'a': all"),
    ],
)
def test_what_allows_no_choice_is_named(nodes: Any, edges: Any, said: str) -> None:
    with pytest.raises(Infeasible, match=said):
        solve(make_instance(nodes, edges))


@pytest.mark.parametrize(("colours", "nodes"), [(3, 4), (4, 5), (5, 6)])
def test_a_clique_has_too_few_colours(colours: int, nodes: int) -> None:
    differ = np.where(np.eye(colours), INF, 0.0)
    names = [f"n{i}" for i in range(nodes)]
    edges = [(a, b, differ) for a in names for b in names if a < b]

    with pytest.raises(Infeasible, match="n0|n1|n2|n3"):
        solve(make_instance({name: np.zeros(colours) for name in names}, edges))
    one_less = [edge for edge in edges if edge[:2] != ("n0", "n1")]
    assert solve(make_instance({name: np.zeros(colours) for name in names}, one_less)).cost == 0


def test_when_time_runs_out_the_gap_is_honest() -> None:
    instance = random_clique(24, 8)
    solution = solve(instance, time_limit_s=0.05)

    assert not solution.optimal and 0 < solution.gap < 1
    assert solution.lower_bound < solution.cost == total_cost(instance, solution.choice)
    assert solution.gap == (solution.cost - solution.lower_bound) / solution.cost


def test_a_bound_in_no_time_does_not_pass_the_optimum() -> None:
    instance = random_clique(8, 4)
    optimum, hasty = solve(instance), solve(instance, time_limit_s=1e-6)

    assert optimum.optimal
    assert hasty.lower_bound <= optimum.cost <= hasty.cost


def test_large_numbers_instead_of_infinity_are_numbers() -> None:
    differ = np.where(np.eye(3), 1e30, 0.0)
    nodes = {name: [0.5, 0.25, 0.125] for name in "abcd"}
    edges = [(a, b, differ) for a, b in ("ab", "ac", "ad", "bc", "bd")]
    solution = solve(make_instance(nodes, edges))

    # c and d take one colour, and a and b the two others: 0.125 + 0.125 + 0.25 + 0.5.
    assert solution.optimal and solution.cost == 1
    assert solution.choice["c"] == solution.choice["d"] == 2


@pytest.mark.parametrize(
    ("nodes", "edges", "said"),
    [
        ({"a": []}, [], "nodes.a: has no alternatives"),
        ({"a": [1, math.nan]}, [], r"nodes.a\[1\]: nan is not a cost"),
        ({"a": [-INF]}, [], r"nodes.a\[0\]: -inf is not a cost"),
        ({"a": [1e201]}, [], r"nodes.a\[0\]: 1e\+201 is not a cost"),
        ({"a": [[1]]}, [], "nodes.a: has 2 dimensions"),
        ({"a": [1], "b": [1]}, [("a", "c", [[1]])], r"edges\[0\].to: no node is named 'c'"),
        ({"a": [1], "b": [1, 2]}, [("a", "b", [[1], [2]])], r"edges\[0\].costs: 2 x 1 costs; .* requires 1 x 2"),
        ({"a": [1], "b": [1]}, [("a", "b", [[1], [2, 3]])], r"edges\[0\].costs: .*rows of one length"),
    ],
)
def test_what_is_no_instance_is_refused(nodes: Any, edges: Any, said: str) -> None:
    with pytest.raises(MavcgError, match=said):
        make_instance(nodes, edges)


@pytest.mark.parametrize("limit", [0, -1, math.nan])
def test_a_time_limit_is_above_nothing(limit: float) -> None:
    with pytest.raises(MavcgError, match="time limit"):
        solve(make_instance({"a": [1]}), limit)


def test_a_choice_must_be_one() -> None:
    instance = make_instance({"a": [1, 2]})

    assert total_cost(instance, {"a": 1}) == 2
    for choice in ({}, {"a": 2}, {"a": -1}):
        with pytest.raises(MavcgError, match="choice of 'a'"):
            total_cost(instance, choice)
