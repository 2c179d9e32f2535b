"""An application's networks whose indices come from a run: a fault of one ends the run that it is in."""

import random

import numpy as np
import pytest

from bench.apps.application_runner import ApplicationRunner
from bench.program_runner import KernelStore
from mavcg.apps.library_plan import place_networks
from mavcg.choose.plan import Plan
from mavcg.graph import Array, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.specs.kernel import Machine
from mavcg.toolchain.target import host_target
from tests.mavcg.apps.random_models import planned_graph

MACHINE = Machine(
    "host",
    host_target().arch,
    "x86-64-v3" if host_target().arch == "x86_64" else "generic",
    vector_bytes=32 if host_target().arch == "x86_64" else 16,
)
TABLE = np.random.default_rng(5).standard_normal((7, 5)).astype(np.float32)
RIGHT = np.array([[0], [6], [3]])


def picking(name: str) -> Plan:
    """Rows of a table, whose numbers are the input."""
    builder = GraphBuilder(name)
    rows = builder.input("rows", TensorType("i64", RIGHT.shape))
    flat = builder.add("flat_index", [rows], lengths=(7,), strides=(1,), offsets=(0,), from_end=False)
    picked = builder.add("gather", [builder.constant(TABLE), flat], axis=0)
    return planned_graph(builder.finish([builder.add("neg", [picked])]))


@pytest.fixture(scope="module")
def runner() -> ApplicationRunner:
    """Two networks that may run at the same time."""
    networks = [picking("first"), picking("second")]
    kernels = KernelStore(MACHINE)
    for each in networks:
        kernels.add(each.lowered.specs)
    application = place_networks("app", [each.program for each in networks], frozenset((frozenset((0, 1)),)))
    return ApplicationRunner(application, networks, kernels, 2)


def test_indices_of_a_run(runner: ApplicationRunner) -> None:
    frames: dict[int, list[Array]] = {0: [RIGHT, RIGHT[::-1]], 1: [RIGHT]}
    right = {n: [((-TABLE[frame[:, 0]]).tobytes(),) for frame in each] for n, each in frames.items()}
    assert runner.run(frames, random.Random(0)) == right


@pytest.mark.parametrize("index", [7, -1, 2**62])
def test_an_index_that_does_not_exist(runner: ApplicationRunner, index: int) -> None:
    wrong = RIGHT.copy()
    wrong[2] = index
    with pytest.raises(AssertionError, match="second: .*an index does not exist"):
        runner.run({0: [RIGHT], 1: [RIGHT, wrong]}, random.Random(1))
    test_indices_of_a_run(runner)  # a fault is of its run
