"""Nodes whose neighbours tell few of their alternatives apart: split in two, with the same optimum."""

from collections.abc import Callable

import numpy as np
import pytest

from bench.pbqp import densenet121_joined
from mavcg.choose.pbqp import Instance, make_instance, solve, total_cost
from mavcg.choose.pbqp.problem import problem_of
from mavcg.choose.pbqp.split import split_nodes

LAYOUTS = 3


def layered(seed: int, nodes: int = 5) -> Instance:
    """All nodes joined; an edge knows the layout that the first one writes and the one that the second one reads."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 13, nodes)
    reads, writes = ([rng.integers(0, LAYOUTS, size) for size in sizes] for _ in range(2))
    costs = {f"n{i}": rng.integers(0, 9, size).astype(float) for i, size in enumerate(sizes)}
    edges = []
    for a in range(nodes):
        for b in range(a + 1, nodes):
            convert = rng.integers(0, 5, (LAYOUTS, LAYOUTS)).astype(float)
            convert[rng.random(convert.shape) < 0.1] = np.inf
            np.fill_diagonal(convert, 0)
            edges.append((f"n{a}", f"n{b}", convert[writes[a]][:, reads[b]]))
    return make_instance(costs, edges)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_optimum_by_brute_force(first: int, brute_force: Callable[[Instance], float]) -> None:
    split = 0
    for seed in range(first, first + 20):
        instance = layered(seed)
        best = brute_force(instance)
        if not np.isfinite(best):
            continue
        solution = solve(instance)
        split += solution.counts["split"]

        assert solution.optimal
        assert solution.cost == pytest.approx(best)
        assert total_cost(instance, solution.choice) == solution.cost
    assert split > 0


def test_every_choice_costs_what_it_did() -> None:
    instance = layered(7)
    problem, names = problem_of(instance)
    before = {node: len(costs) for node, costs in problem.costs.items()}
    split_nodes(problem, len(names))

    assert problem.origin and set(problem.origin.values()) <= set(before)
    assert all(len(costs) <= max(LAYOUTS, before.get(node, 0)) for node, costs in problem.costs.items())
    rng = np.random.default_rng(1)
    for _ in range(30):
        at = {node: int(rng.integers(len(costs))) for node, costs in problem.costs.items()}
        cost = sum(float(problem.costs[node][i]) for node, i in at.items())
        cost += sum(float(m[at[a], at[b]]) for a, row in problem.edges.items() for b, m in row.items() if a < b)
        chosen = problem.complete({node: int(problem.labels[node][i]) for node, i in at.items()})
        if np.isfinite(cost):  # else no alternative has both classes
            assert total_cost(instance, {names[node]: number for node, number in chosen.items()}) == cost


def test_a_node_that_is_one_choice_stays_one() -> None:
    rng = np.random.default_rng(2)
    costs = {name: rng.random(6) for name in "abc"}
    problem, names = problem_of(
        make_instance(costs, [("a", "b", rng.random((6, 6))), ("b", "c", rng.random((6, 6))), ("a", "c", np.eye(6))])
    )
    split_nodes(problem, len(names))

    assert not problem.origin and set(problem.costs) == {0, 1, 2}


def test_a_block_that_holds_nothing_better_ends_the_search() -> None:
    # The first choice of this instance is the best, and a part that hangs on one node shows it.
    solution = solve(densenet121_joined(np.random.default_rng(1)))

    assert solution.optimal and solution.counts["blocks"] > 0
    assert solution.gap == 0
