"""Random small applications as kernels: in one memory, by parts of rows, in the order of schedules and as pipelines
they have the bits of layer by layer.

Memory holds what nobody may read, between guards that nobody may write, so that an application keeps the bytes that
were promised; networks that run at the same time, and stages, are interleaved at random.
"""

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bench.apps.application_runner import ApplicationRunner
from bench.program_runner import KernelStore, ProgramRunner
from mavcg.apps.library_plan import ARENA_ALIGN, place_networks
from mavcg.apps.plan import plan_application
from mavcg.apps.search import Constraints, GeneticLimits
from mavcg.apps.token_simulator import simulate_schedule
from mavcg.graph import Array
from mavcg.specs.kernel import Machine
from mavcg.toolchain.target import host_target
from tests.mavcg.apps.random_models import (
    RandomModels,
    RandomNetwork,
    greedy_bytes,
    planned_graph,
    random_graph,
    random_models,
)

ARCH = host_target().arch
MACHINE = Machine(
    "host", ARCH, "x86-64-v3" if ARCH == "x86_64" else "generic", vector_bytes=32 if ARCH == "x86_64" else 16
)
FRAMES = 3  # of a turn of a pipeline


@cache
def kernels() -> KernelStore:
    return KernelStore(MACHINE)


def assert_plan_is_sound(models: RandomModels, generator: random.Random) -> None:
    """Every solution's schedule runs in its arena, token by token; no arena is above Algorithm 8's buffers."""
    limit = generator.choice((None, generator.randint(1, 40_000)))
    plan = plan_application(models.app, {}, Constraints(limit, {}), GeneticLimits(6, 2, generator.randrange(100)))
    for number, each in enumerate(plan.front):
        assert each.arena.size <= sum(buffer.size for buffer in each.derived.buffers)
        assert each.arena.lower_bound <= each.arena.size
        if number != plan.chosen:  # that one was executed by plan_application
            assert simulate_schedule(each.derived, each.arena.rings, number) > 0
    assert plan.front[0].arena.size <= plan.reuse_joint <= plan.naive
    if limit is not None and plan.meets:
        assert plan.weights + plan.front[plan.chosen].arena.size <= limit


def image(network: RandomNetwork, seed: int) -> Array:
    (tensor,) = network.whole.program.inputs
    return np.random.default_rng(seed).standard_normal(tensor.type.shape).astype(np.float32)


def assert_programs_are_right(models: RandomModels, generator: random.Random) -> None:
    """In one memory, alone and together, each network has the bits that it has layer by layer in its own."""
    application = place_networks("app", [each.planned.program for each in models.networks], models.pairs)
    for each in models.networks:
        kernels().add(each.planned.lowered.specs)
        if each.kind == "parts":
            assert each.planned.program.arena_bytes <= each.whole.program.arena_bytes
    whole = place_networks("whole", [each.whole.program for each in models.networks], models.pairs)
    padding = ARENA_ALIGN * (len(models.networks) - 1) if models.pairs else 0
    assert whole.arena_bytes <= greedy_bytes(models) + padding

    x = [[image(each, seed) for seed in range(FRAMES)] for each in models.networks]
    right = []
    for each, arrays in zip(models.networks, x, strict=True):
        alone = ProgramRunner(each.whole.lowered, MACHINE, 1, kernels())
        right.append([tuple(array.tobytes() for array in alone.run(frame)) for frame in arrays])
    runner = ApplicationRunner(
        application, [each.planned for each in models.networks], kernels(), generator.randint(1, 3)
    )
    turns = [*models.parallel, *(frozenset((number,)) for number in range(len(x)))]
    for turn in generator.sample(turns, len(turns)):
        frames = {
            n: x[n] if models.networks[n].kind == "pipeline" else x[n][: generator.randint(1, 2)] for n in sorted(turn)
        }
        outputs = runner.run(frames, generator)
        assert outputs == {n: right[n][: len(frames[n])] for n in frames}


def assert_application_is_sound(seed: int) -> None:
    models, generator = random_models(seed), random.Random(seed)
    assert_plan_is_sound(models, generator)
    assert_programs_are_right(models, generator)


def test_less_memory_than_promised_shows() -> None:
    """The guards work: a program that is given 64 bytes less than it needs writes into them."""
    planned = planned_graph(random_graph(random.Random(0), "n0"))
    runner = ProgramRunner(planned.lowered, MACHINE, parts=1)
    runner.program = replace(planned.program, arena_bytes=planned.program.arena_bytes - 64)
    x = np.zeros(planned.program.inputs[0].type.shape, np.float32)
    with pytest.raises(AssertionError, match="writes outside its buffer"):
        runner.run(x)


def test_memory_shared_by_networks_that_run_together_shows() -> None:
    """Interleaving works: networks at the same bytes at the same time write to each other's, which is seen."""
    models = next(m for m in map(random_models, range(100)) if m.parallel and len(m.networks) == 2)
    apart = place_networks("app", [each.planned.program for each in models.networks], models.pairs)
    smaller = min(apart.networks, key=lambda network: network.program.arena_bytes)
    shared = replace(apart, networks=tuple(replace(network, arena_offset=0) for network in apart.networks))
    for each in models.networks:
        kernels().add(each.planned.lowered.specs)
    assert smaller.program.arena_bytes > 0
    x = {number: [image(each, 0)] * 2 for number, each in enumerate(models.networks)}
    results = [
        ApplicationRunner(application, [each.planned for each in models.networks], kernels(), 2).run(
            x, random.Random(1)
        )
        for application in (apart, shared)
    ]
    assert results[0] != results[1]


@pytest.mark.parametrize("seed", range(2))
def test_random_applications_are_sound(seed: int) -> None:
    assert_application_is_sound(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_two_thousand_random_applications(first: int) -> None:
    for seed in range(first, first + 100):
        assert_application_is_sound(seed)
