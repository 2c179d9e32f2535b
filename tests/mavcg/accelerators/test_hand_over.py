"""The hand-over's cost decides what goes to the CPU: small operations between the CPU's, no convolution of weight."""

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis.strategies import integers

from mavcg.accelerators.codegen.division import divide
from mavcg.accelerators.hand_over import HandOver, assign_operations, hand_over
from mavcg.accelerators.target import IsaTarget, find_target
from mavcg.accelerators.xgraph import Parameters, XGraph, XNode
from tests.conftest import examples
from tests.mavcg.accelerators.random_networks import random_dag

ZU2 = find_target("zu2")


def chain(*kinds: str, side: int = 16) -> XGraph:
    """Nodes one after another on maps [1, side, side, 32]; the first reads the input x."""
    shape, parameters = (1, side, side, 32), dict[str, Parameters]()
    nodes = [XNode("x", "input", (), shape, radix=4)]
    for number, kind in enumerate(kinds):
        name = f"n{number}"
        node = XNode(name, kind, (nodes[-1].name,), shape, op="copy" if kind == "eltwise" else "", radix=4)
        if kind == "conv":
            node = replace(node, kernel=(3, 3), pads=(1, 1, 1, 1), weight_radix=(7,))
            parameters[name] = Parameters(np.ones((32, 3, 3, 32), np.int8), np.zeros(32, np.int32))
        nodes.append(node)
    return XGraph("chain", tuple(nodes), (nodes[-1].name,), parameters)


def cpu_of(graph: XGraph, target: IsaTarget = ZU2) -> set[str]:
    return {node.name for node in assign_operations(graph, target).nodes if node.on_cpu}


def test_a_copy_between_nodes_of_the_cpu_goes_there() -> None:
    graph = chain("conv", "host", "eltwise", "host", "conv")

    assert cpu_of(graph) == {"n2"}
    assert len(divide(assign_operations(graph, ZU2)).segments) == 2


def test_convolutions_stay_where_they_are_fast() -> None:
    assert cpu_of(chain("conv", "host", "conv", "host", "conv", side=64)) == set()


def test_the_only_segment_stays() -> None:
    assert cpu_of(chain("host", "eltwise", "host")) == set()


def test_without_the_cpus_figures_all_stay() -> None:
    graph = chain("conv", "host", "eltwise", "host")
    assert cpu_of(graph, replace(ZU2, host_gops=None)) == cpu_of(graph, replace(ZU2, host_call_us=None)) == set()


def test_a_call_that_costs_nothing_leaves_less_to_the_cpu() -> None:
    graph = chain("conv", "host", "conv", "host", "conv", side=8)

    assert len(cpu_of(graph, replace(ZU2, host_call_us=1000.0))) > len(cpu_of(graph, replace(ZU2, host_call_us=0.001)))


def test_the_hand_over_counts_calls_and_bytes() -> None:
    graph = chain("conv", "host", "conv")

    assert hand_over(graph, divide(graph)) == HandOver(2, 4 * 16 * 16 * 32)


@settings(max_examples=examples(40, 10))
@given(integers(0, 10_000))
def test_where_calls_alone_count_there_are_as_few_as_brute_force_finds(seed: int) -> None:
    """All nodes are tiny here, so that a call costs more than all else."""
    graph = random_dag(seed, 6)
    ours = [node.name for node in graph.nodes if node.on_accelerator]
    if not ours:
        return
    nodes = graph.by_name()

    def calls(on_cpu: frozenset[str]) -> int:
        moved = graph.with_nodes({name: replace(nodes[name], on_cpu=True) for name in on_cpu})
        return len(divide(moved).segments)

    subsets = (frozenset(c) for size in range(len(ours)) for c in itertools.combinations(ours, size))
    assert len(divide(assign_operations(graph, ZU2)).segments) <= min(map(calls, subsets)) == 1
