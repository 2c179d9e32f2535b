"""Networks divided into segments and CPU parts: convex, in order, as few as brute force finds; their programs' bits."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import integers

from mavcg.accelerators.codegen.division import divide, host_plan
from mavcg.accelerators.fusion.path_exact import cheapest_path
from mavcg.accelerators.fusion.path_instance import PathInstance, PricedGroup
from mavcg.accelerators.fusion.plan import path_of_segments
from mavcg.accelerators.image.elf_file import read_elf, write_elf
from mavcg.accelerators.xgraph import XGraph
from tests.mavcg.accelerators.compiled import check_against_reference, random_program
from tests.mavcg.accelerators.random_networks import random_dag


def can_run(graph: XGraph, stages: dict[str, int]) -> bool:
    """True if no node reads a later stage."""
    return all(stages[i] <= stages[node.name] for node in graph.nodes for i in node.inputs)


def least_segments(graph: XGraph) -> int:
    """The least number of segments of all assignments of nodes to stages."""
    names = [node.name for node in graph.nodes]
    for segments in itertools.count():
        of_kind = [range(node.on_accelerator, 2 * segments + 1, 2) for node in graph.nodes]
        if any(can_run(graph, dict(zip(names, stages, strict=True))) for stages in itertools.product(*of_kind)):
            return segments
    raise AssertionError


@given(integers(0, 10_000))
def test_stages_run_in_order_and_are_as_few_as_can_be(seed: int) -> None:
    graph = random_dag(seed, 5)
    division = divide(graph)

    stages = {"x": 0}
    for number, names in enumerate(division.cpu):
        stages |= dict.fromkeys(names, 2 * number)
    for number, segment in enumerate(division.segments):
        stages |= dict.fromkeys(segment.nodes, 2 * number + 1)
    assert len(stages) == len(graph.nodes) == 1 + len(division.accelerator) + sum(map(len, division.cpu))
    assert can_run(graph, stages)
    assert all(stages[node.name] % 2 == node.on_accelerator for node in graph.nodes)
    assert len(division.segments) == least_segments(graph)


@given(integers(0, 10_000))
def test_the_host_gives_and_takes_what_exists(seed: int) -> None:
    graph = random_dag(seed, 12)
    division = divide(graph)
    plan, nodes = host_plan(graph, division), graph.by_name()

    on_host, on_device = {"x"}, set[str]()
    for number, part in enumerate(plan.cpu):
        assert on_host.issuperset(part.inputs)
        computed = on_host.union(part.nodes)
        assert all(computed.issuperset(nodes[name].inputs) for name in part.nodes)
        on_host.update(part.outputs)
        if number < len(division.segments):
            segment = division.segments[number]
            assert on_host.issuperset(segment.inputs)
            on_device.update(segment.inputs, segment.nodes)
            assert all(on_device.issuperset(nodes[name].inputs) for name in segment.nodes)
            on_host.update(segment.outputs)
    assert on_host.issuperset(graph.outputs)


@pytest.mark.parametrize("seed", [1, 3, 4, 11, 13, 23, 25])
def test_programs_of_several_segments_have_the_bits_of_the_reference(seed: int, tmp_path: Path) -> None:
    generated = random_program(seed, mixed=True)
    assert generated is not None
    graph, target, program = generated

    assert len(program.segments) > 1
    assert check_against_reference(graph, target, program, seed) > 0
    write_elf(program, tmp_path / "p.elf")
    assert read_elf(tmp_path / "p.elf") == program


@pytest.mark.long
def test_many_programs_of_several_segments_have_the_bits_of_the_reference() -> None:
    for seed in range(100, 500):
        generated = random_program(seed, mixed=True)
        if generated is not None:
            check_against_reference(*generated, seed)


def test_no_group_crosses_segments_and_each_segment_is_searched() -> None:
    nodes = ("a", "b", "c", "d")
    groups = [PricedGroup((name,), 2.0) for name in nodes]
    groups += [PricedGroup(("a", "b"), 3.0), PricedGroup(("c", "d"), 1.0)]
    instance = PathInstance.of(groups, [("a", "b"), ("b", "c"), ("c", "d")])

    path = path_of_segments(instance, cheapest_path, {"a": 0, "b": 0, "c": 1, "d": 1})

    assert (path.chosen, path.cost, path.optimal) == ((4, 5), 4.0, True)
