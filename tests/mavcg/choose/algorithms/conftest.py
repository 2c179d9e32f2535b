"""Instances of many shapes, drawn from a seed, and their optima by trying every choice."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.choose.pbqp import Instance, make_instance

Random = np.random.Generator


def drawn_pairs(rng: Random, shape: str, count: int) -> list[tuple[int, int]]:
    """Edges between `count` nodes: a tree, a series-parallel graph, a dense one, or some small parts."""
    if shape == "tree":
        return [(int(rng.integers(i)), i) for i in range(1, count)]
    if shape == "series-parallel":
        pairs = [(0, 1)] if count > 1 else []
        for i in range(2, count):
            a, b = pairs[rng.integers(len(pairs))]
            pairs += [(a, i), (i, b)]  # beside the edge between them, which may get parallel ones
        return pairs
    if shape == "dense":
        return [(i, j) for i in range(count) for j in range(i) if rng.random() < 0.9]
    return [(i, j) for i in range(count) for j in range(count) if rng.random() < 0.2]  # also i == j, and both ways


def drawn(seed: int, shape: str, most_nodes: int = 7, most_alternatives: int = 4) -> Instance:
    """An instance of 1 to `most_nodes` nodes; ties, zeros, forbidden alternatives and pairs among the costs."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, most_nodes + 1))
    whole = rng.random() < 0.6  # small whole numbers make ties
    forbidden = rng.choice([0.0, 0.1, 0.4])

    def costs(*size: int) -> NDArray[np.float64]:
        some = rng.integers(-2, 6, size).astype(float) if whole else rng.normal(3, 2, size)
        some[rng.random(size) < 0.2] = 0
        some[rng.random(size) < forbidden] = np.inf
        return some

    sizes = [int(n) for n in rng.integers(1, most_alternatives + 1, count)]
    nodes = {f"n{i}": costs(size) for i, size in enumerate(sizes)}
    edges = [(f"n{a}", f"n{b}", costs(sizes[a], sizes[b])) for a, b in drawn_pairs(rng, shape, count)]
    return make_instance(nodes, edges)


def least_cost(instance: Instance) -> float:
    """The least cost of all choices: a table with an axis for each node."""
    names = list(instance.nodes)
    axis = {name: i for i, name in enumerate(names)}
    total = np.zeros([len(costs) for costs in instance.nodes.values()])

    def add(costs: NDArray[np.float64], *axes: int) -> None:
        nonlocal total
        inserted = costs.reshape([*costs.shape, *([1] * (len(names) - costs.ndim))])
        total = total + np.moveaxis(inserted, range(costs.ndim), axes)

    for name, costs in instance.nodes.items():
        add(costs, axis[name])
    for edge in instance.edges:
        if edge.source == edge.target:
            add(np.diag(edge.costs), axis[edge.source])
        else:
            add(edge.costs, axis[edge.source], axis[edge.target])
    return float(total.min())


@pytest.fixture(scope="session")
def draw() -> Callable[..., Instance]:
    """drawn(seed, shape, most_nodes, most_alternatives)."""
    return drawn


@pytest.fixture(scope="session")
def brute_force() -> Callable[[Instance], float]:
    return least_cost
