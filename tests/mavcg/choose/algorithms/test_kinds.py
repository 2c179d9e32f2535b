"""Networks of rectangular, grouped and dilated convolutions and of batches: the selection against every choice."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from mavcg.choose.algorithms.choice import Problem, make_choice, make_problem
from mavcg.choose.algorithms.costs.modelled import modelled_costs
from mavcg.choose.algorithms.network import Network, network_of
from mavcg.choose.algorithms.select_workers import board_of, workers_of
from mavcg.choose.algorithms.strategies import select
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels.primitives.registry import all_primitives

# (kernel, attributes) of a chain of convolutions.
CHAINS: dict[str, list[tuple[tuple[int, int], dict[str, Any]]]] = {
    "1x7, 7x1": [((1, 7), {"pads": (0, 3, 0, 3)}), ((7, 1), {"pads": (3, 0, 3, 0)}), ((3, 1), {})],
    "grouped": [((1, 1), {}), ((3, 3), {"groups": 8, "pads": (1, 1, 1, 1)}), ((1, 1), {})],
    "dilated": [((3, 3), {"dilation": (d, d), "pads": (d,) * 4}) for d in (1, 2, 4)],
    "axes apart": [((3, 5), {"stride": (1, 2)}), ((3, 3), {"dilation": (1, 2)}), ((1, 1), {"stride": (2, 1)})],
}


def chain(name: str, batch: int) -> Network:
    b = GraphBuilder("chain")
    x = b.input("x", TensorType("f32", (batch, 17, 17, 32)))
    for kernel, attrs in CHAINS[name]:
        weights = np.ones((32, *kernel, 32 // attrs.get("groups", 1)), np.float32)
        x = b.add("conv2d", [x, b.constant(weights)], **attrs)
    return network_of(b.finish([x]))


def least_of_all(problem: Problem) -> float:
    """The cost of the best of all choices; of primitives with the same layouts only the cheapest can be in it."""
    names, numbers = list(problem.alternatives), []
    for some in problem.alternatives.values():
        cheapest: dict[tuple[str, str], int] = {}
        for i in sorted(range(len(some)), key=lambda i: some[i].cost.ms):
            cheapest.setdefault((some[i].layout_in, some[i].layout_out), i)
        numbers.append(list(cheapest.values()))
    return min(make_choice(problem, dict(zip(names, each, strict=True))).total_ms for each in product(*numbers))


@pytest.mark.parametrize("name", CHAINS)
def test_no_choice_costs_less_and_each_convolution_has_several_primitives(name: str) -> None:
    network = chain(name, 1 if name == "dilated" else 2)
    problem = make_problem(network, modelled_costs(workers_of(board_of("rk3588"))[0]), all_primitives())
    selection = select(problem)

    assert not network.left_out and len(network.convolutions) == 3
    for node in network.convolutions:
        families = {one.primitive.family for one in problem.alternatives[node.name] if one.primitive}
        assert {"sum2d", "direct", "implicit", "im2"} <= families, node.scenario
    assert selection.proven and selection.total_ms == pytest.approx(least_of_all(problem))
