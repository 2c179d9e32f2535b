"""Random small applications as kernels: by parts of rows, under random limits, they have the bits of layer by layer.

Each network's program runs in memory that holds what nobody may read, between guards that nobody may write: so it keeps
the arena that was promised.
"""

import random
from dataclasses import replace

import numpy as np
import pytest

from bench.program_runner import ProgramRunner
from mavcg.accel.networks import with_seeded_weights
from mavcg.apps.application import Application, sequential
from mavcg.apps.model_network import network_of
from mavcg.apps.plan import plan_application
from mavcg.apps.search import Constraints, GeneticLimits
from mavcg.graph import Graph
from mavcg.hardware.target import host_target
from mavcg.lowering.image_rows import with_image_rows
from mavcg.lowering.lower import lower_graph
from mavcg.lowering.row_phases import ArenaTooLargeError, plan_within
from mavcg.lowering.step_list import PlannedModel, plan_model
from mavcg.memory.node_order import order_nodes
from mavcg.passes.graph.pipeline import optimise
from mavcg.planner.accelerators.networks.builder import NetworkBuilder
from mavcg.specs.kernel import Machine, Packing

ARCH = host_target().arch
MACHINE = Machine(
    "host", ARCH, "x86-64-v3" if ARCH == "x86_64" else "generic", vector_bytes=32 if ARCH == "x86_64" else 16
)


def random_network(generator: random.Random, name: str) -> Graph:
    """Convolutions, depthwise ones, pools, sums and joins over a small image, with a branch here and there."""
    net = NetworkBuilder(name, generator.randint(5, 16), generator.randint(5, 12))
    tensors = [net.conv(net.image, "first", generator.choice((4, 8)), 3, pad=1)]
    for number in range(generator.randint(1, 4)):
        x = tensors[-1] if generator.random() < 0.7 else generator.choice(tensors)
        _, height, width, channels = net.shape(x)
        alike = [other for other in tensors if net.shape(other)[:3] == net.shape(x)[:3] and other != x]
        kind = generator.choice(("conv", "point", "depthwise", "pool", "add", "concat"))
        if kind == "add" and [other for other in alike if net.shape(other) == net.shape(x)]:
            x = net.add(x, next(other for other in alike if net.shape(other) == net.shape(x)), f"add{number}", "relu")
        elif kind == "concat" and alike:
            x = net.concat(x, alike[0])
        elif kind == "pool" and min(height, width) > 3:
            x = net.max_pool(x, 2, generator.randint(1, 2))
        elif kind == "depthwise":
            x = net.conv(x, f"layer{number}", channels, 3, generator.randint(1, 2), pad=1, groups=channels)
        else:
            size = 1 if kind == "point" else 3
            x = net.conv(x, f"layer{number}", generator.choice((4, 8, 16)), size, pad=size // 2)
        tensors.append(x)
    return order_nodes(optimise(with_seeded_weights(net.finish(tensors[-1])))).graph


def by_parts(planned: PlannedModel, generator: random.Random) -> PlannedModel:
    """Plan within a random limit between the least arena and layer by layer."""
    try:
        return plan_within(planned, 1)
    except ArenaTooLargeError as error:
        least = error.least_bytes
    return plan_within(planned, generator.randint(least, max(least, planned.program.arena_bytes)))


def assert_application_is_sound(seed: int) -> None:
    generator = random.Random(seed)
    graphs = [random_network(generator, f"n{number}") for number in range(generator.randint(1, 2))]
    cnns = tuple(network_of(graph, graph.name) for graph in graphs)
    app = Application(cnns, tuple(sequential(cnn) for cnn in cnns))
    # Executes the chosen schedule token by token.
    plan = plan_application(app, {}, Constraints(None, {}), GeneticLimits(6, 2, seed))
    assert all(each.arena.size <= sum(b.size for b in each.derived.buffers) for each in plan.front)
    assert plan.front[0].arena.size <= plan.reuse_joint <= plan.naive

    for graph in graphs:
        planned = plan_model(with_image_rows(lower_graph(graph, Packing(16 if ARCH == "x86_64" else 8))))
        parts = by_parts(planned, generator)
        assert parts.program.arena_bytes <= planned.program.arena_bytes
        runner = ProgramRunner(planned.lowered, MACHINE, parts=1)
        tensor = planned.program.inputs[0]
        x = np.random.default_rng(seed).standard_normal(tensor.type.shape).astype(np.float32)
        right = [array.tobytes() for array in runner.run(x)]
        runner.program, runner.parts = parts.program, generator.randint(1, 3)
        assert [array.tobytes() for array in runner.run(x)] == right


def test_less_memory_than_promised_shows() -> None:
    """The guards work: a program that is given a row less than it needs writes into them."""
    graph = random_network(random.Random(0), "n0")
    planned = plan_model(with_image_rows(lower_graph(graph, Packing(16 if ARCH == "x86_64" else 8))))
    runner = ProgramRunner(planned.lowered, MACHINE, parts=1)
    runner.program = replace(planned.program, arena_bytes=planned.program.arena_bytes // 2)
    x = np.zeros(planned.program.inputs[0].type.shape, np.float32)
    with pytest.raises(AssertionError, match="writes outside its buffer"):
        runner.run(x)


@pytest.mark.parametrize("seed", range(2))
def test_random_applications(seed: int) -> None:
    assert_application_is_sound(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_two_thousand_random_applications(first: int) -> None:
    for seed in range(first, first + 100):
        assert_application_is_sound(seed)
