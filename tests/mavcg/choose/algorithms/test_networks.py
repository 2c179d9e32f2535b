"""Instances of the shapes of real networks, at 70 alternatives a convolution."""

from typing import Any

import numpy as np
import pytest

from bench.pbqp import densenet121_chained, densenet121_dense, densenet121_joined, googlenet, resnet50, vgg19
from mavcg.choose.pbqp import solve, total_cost


@pytest.mark.parametrize("network", [vgg19, googlenet, resnet50, densenet121_chained])
def test_series_parallel_networks_take_no_search(network: Any) -> None:
    solution = solve(network(np.random.default_rng(5)))

    assert solution.optimal
    assert solution.counts["searched_nodes"] == solution.counts["branches"] == 0
    assert solution.counts["r1"] + solution.counts["r2"] > len(solution.choice) / 2


@pytest.mark.parametrize("network", [densenet121_joined, densenet121_dense])
def test_dense_blocks_take_few_branches(network: Any) -> None:
    solution = solve(network(np.random.default_rng(5)))

    assert solution.optimal
    # Some 120 nodes of 2 to 10 alternatives that are not dominated; seconds would count the machine's load, too.
    assert solution.counts["searched_nodes"] > 100
    assert solution.counts["branches"] < 40 and solution.counts["bound_rounds"] < 400


def test_local_choices_and_changes_of_one_node_are_not_cheaper() -> None:
    instance = googlenet(np.random.default_rng(6))
    solution = solve(instance)
    local = {name: int(np.argmin(costs)) for name, costs in instance.nodes.items()}

    assert solution.cost < total_cost(instance, local)
    for name in sorted(instance.nodes)[::6]:
        for other in range(len(instance.nodes[name])):
            assert total_cost(instance, {**solution.choice, name: other}) >= solution.cost
