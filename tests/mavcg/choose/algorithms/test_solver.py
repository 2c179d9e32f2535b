"""The solver against every choice, against CP-SAT, and against itself on instances that mean the same."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.pbqp import Infeasible, Instance, make_instance, solve, total_cost
from tests.conftest import examples

SHAPES = ["tree", "series-parallel", "dense", "parts"]


def cost_or_infinity(instance: Instance) -> float:
    """The cost of a solution that says it is optimal, and is what its choice costs; infinite without one."""
    try:
        solution = solve(instance)
    except Infeasible:
        return np.inf
    assert solution.optimal and solution.gap == 0 and solution.lower_bound == solution.cost
    assert solution.cost == total_cost(instance, solution.choice)
    return solution.cost


@pytest.mark.parametrize("shape", SHAPES)
def test_finds_what_trying_everything_finds(shape: str, draw: Any, brute_force: Any) -> None:
    for seed in range(examples(550, 100)):
        instance = draw(seed, shape)
        assert cost_or_infinity(instance) == pytest.approx(brute_force(instance), abs=1e-9), seed


@pytest.mark.parametrize("shape", ["dense", "parts"])
def test_branches_where_tables_do_not_help(
    shape: str, draw: Any, brute_force: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mavcg.choose.pbqp.search.MOST_TABLE_ENTRIES", 0)
    branches = 0
    for seed in range(120):
        instance = draw(seed, shape, 6, 5)
        expected = brute_force(instance)
        assert cost_or_infinity(instance) == pytest.approx(expected, abs=1e-9), seed
        branches += solve(instance).counts["branches"] if np.isfinite(expected) else 0
    assert branches or shape == "parts"


@pytest.mark.long
@pytest.mark.parametrize("tables", [0, 1 << 14])
@pytest.mark.parametrize("shape", SHAPES)
def test_finds_what_trying_everything_finds_at_length(
    shape: str, tables: int, draw: Any, brute_force: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mavcg.choose.pbqp.search.MOST_TABLE_ENTRIES", tables)
    for seed in range(10_000, 11_500):
        instance = draw(seed, shape, 7, 5)
        assert cost_or_infinity(instance) == pytest.approx(brute_force(instance), abs=1e-9), seed


def by_cp_sat(instance: Instance) -> int:
    """The optimum of an instance of whole costs, by a model of its own: a Boolean for each alternative and pair."""
    cp_model: Any = pytest.importorskip("ortools.sat.python.cp_model")
    model = cp_model.CpModel()
    terms = []
    takes = {name: [model.new_bool_var("") for _ in costs] for name, costs in instance.nodes.items()}
    for name, costs in instance.nodes.items():
        model.add_exactly_one(takes[name])
        for taken, cost in zip(takes[name], costs.tolist(), strict=True):
            if np.isinf(cost):
                model.add(taken == 0)
            else:
                terms.append(int(cost) * taken)
    for edge in instance.edges:
        pairs = [[model.new_bool_var("") for _ in row] for row in edge.costs]
        for taken, row in zip(takes[edge.source], pairs, strict=True):
            model.add(sum(row) == taken)
        for taken, column in zip(takes[edge.target], zip(*pairs, strict=True), strict=True):
            model.add(sum(column) == taken)
        for row, costs in zip(pairs, edge.costs.tolist(), strict=True):
            for pair, cost in zip(row, costs, strict=True):
                if np.isinf(cost):
                    model.add(pair == 0)
                else:
                    terms.append(int(cost) * pair)
    model.minimize(sum(terms))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return int(round(solver.objective_value))


def random_graph(seed: int, nodes: int, alternatives: int, density: float) -> Instance:
    rng = np.random.default_rng(seed)
    vectors = {f"n{i}": rng.integers(0, 60, alternatives).astype(float) for i in range(nodes)}
    edges = []
    for i in range(nodes):
        for j in range(i):
            if rng.random() < density:
                matrix = rng.integers(0, 15, (alternatives, alternatives)).astype(float)
                matrix[rng.random(matrix.shape) < 0.05] = np.inf
                edges.append((f"n{i}", f"n{j}", matrix))
    return make_instance(vectors, edges)


@pytest.mark.long
@pytest.mark.parametrize(("nodes", "alternatives", "density"), [(9, 4, 0.9), (24, 4, 0.13)])
def test_finds_what_cp_sat_finds(nodes: int, alternatives: int, density: float) -> None:
    instance = random_graph(nodes, nodes, alternatives, density)

    assert cost_or_infinity(instance) == by_cp_sat(instance)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("nodes", "alternatives", "density"), [(10, 5, 0.8), (20, 4, 0.3), (40, 3, 0.07)])
def test_finds_what_cp_sat_finds_at_length(seed: int, nodes: int, alternatives: int, density: float) -> None:
    instance = random_graph(seed, nodes, alternatives, density)

    assert cost_or_infinity(instance) == by_cp_sat(instance)


@given(seed=st.integers(0, 1 << 30), shape=st.sampled_from(SHAPES), data=st.data())
@settings(max_examples=examples(30, 6))
def test_moving_costs_between_edges_and_nodes_changes_nothing(draw: Any, seed: int, shape: str, data: Any) -> None:
    instance = draw(seed, shape, 5, 3)
    nodes = {name: costs.copy() for name, costs in instance.nodes.items()}
    edges = []
    for edge in instance.edges:
        by_row = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=len(edge.costs), max_size=len(edge.costs))))
        nodes[edge.source] += by_row
        edges.append((edge.source, edge.target, edge.costs - by_row[:, None]))
    moved = make_instance(nodes, edges)

    assert cost_or_infinity(moved) == pytest.approx(cost_or_infinity(instance), abs=1e-9)


@given(seed=st.integers(0, 1 << 30), shape=st.sampled_from(SHAPES), more=st.floats(-100, 100), data=st.data())
@settings(max_examples=examples(30, 6))
def test_a_constant_for_a_whole_node_is_a_constant_of_the_cost(
    draw: Any, seed: int, shape: str, more: float, data: Any
) -> None:
    instance = draw(seed, shape, 5, 3)
    name = data.draw(st.sampled_from(sorted(instance.nodes)))
    dearer = make_instance(instance.nodes | {name: instance.nodes[name] + more}, instance.edges)

    assert cost_or_infinity(dearer) == pytest.approx(cost_or_infinity(instance) + more, abs=1e-9)


@given(seed=st.integers(0, 1 << 30), shape=st.sampled_from(SHAPES), data=st.data())
@settings(max_examples=examples(30, 6))
def test_names_and_orders_do_not_count(draw: Any, seed: int, shape: str, data: Any) -> None:
    instance = draw(seed, shape, 5, 3)
    names = data.draw(st.permutations(list(instance.nodes)))
    order = {name: data.draw(st.permutations(range(len(costs)))) for name, costs in instance.nodes.items()}
    new = dict(zip(names, instance.nodes, strict=True))
    edges = [
        (new[e.target], new[e.source], e.costs[order[e.source]][:, order[e.target]].T) for e in reversed(instance.edges)
    ]
    other = make_instance({new[name]: instance.nodes[name][order[name]] for name in names}, edges)

    assert cost_or_infinity(other) == pytest.approx(cost_or_infinity(instance), abs=1e-9)
