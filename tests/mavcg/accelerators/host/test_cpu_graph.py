"""CPU parts as graphs: the same integers as the fixed-point reference, for all kinds of nodes and roundings."""

import random

import numpy as np
import pytest

from mavcg.accelerators.fixed_point import ROUNDINGS, evaluate
from mavcg.accelerators.host.cpu_graph import cpu_graph
from mavcg.accelerators.image.host import CpuPart
from mavcg.graph.reference.evaluate import run
from tests.mavcg.accelerators.random_networks import random_inputs, random_network


def assert_equal_to_reference(seed: int) -> None:
    """Compute a whole random network as a CPU part."""
    chance = random.Random(seed)
    graph, rounding = random_network(chance), chance.choice(ROUNDINGS)
    if graph.nodes[0].scale is not None:
        return  # operations with an 8-bit file's scales stay on the accelerator
    nodes = tuple(node.name for node in graph.nodes if node.kind != "input")
    part = CpuPart(nodes, tuple(node.name for node in graph.inputs()), nodes)
    images, by_name = random_inputs(graph, seed), graph.by_name()

    expected = evaluate(graph, images, rounding)
    computed = run(cpu_graph(graph, part, "part", rounding), *(images[name] for name in part.inputs))

    for name, values in zip(nodes, computed, strict=True):
        radix = by_name[name].radix
        assert radix is not None
        assert np.array_equal(np.ldexp(values.astype(np.float64), radix), expected[name]), f"seed {seed}, {name}"


def test_random_networks_agree_with_the_reference() -> None:
    for seed in range(12):
        assert_equal_to_reference(seed)


@pytest.mark.long
def test_many_random_networks() -> None:
    for seed in range(1000):
        assert_equal_to_reference(seed)
