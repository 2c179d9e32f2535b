"""How a batch is shared by threads: against every assignment, the costs of a single image, and the command line."""

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.choose.algorithms.network import Network, network_of
from mavcg.choose.algorithms.questions import SelectQuestion
from mavcg.choose.algorithms.select_batch import batch_time, of_batch, plan_batch
from mavcg.choose.algorithms.select_network import problem_on
from mavcg.choose.algorithms.select_workers import board_of, workers_of
from mavcg.choose.algorithms.strategies import select
from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.passes.graph.pipeline import optimise


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 5))
def test_no_assignment_of_images_ends_sooner(image_ms: list[int], images: int) -> None:
    ends = [
        max(ms * chosen.count(group) for group, ms in enumerate(image_ms))
        for chosen in product(range(len(image_ms)), repeat=images)
    ]
    assert batch_time(image_ms, images) == min(ends)


def network() -> Network:
    source, b = np.random.default_rng(0), GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 28, 28, 32)))
    for k in (1, 3):
        weights = source.standard_normal((32, k, k, 32)).astype(np.float32)
        x = b.add("conv2d", [x, b.constant(weights)], pads=(k // 2,) * 4)
    return network_of(optimise(b.finish([x])))


def test_one_thread_computes_one_image_after_the_other() -> None:
    question = SelectQuestion()
    (plan,) = plan_batch(network(), "rk3588", question, 7)
    problem, _ = problem_on(network(), workers_of(board_of("rk3588")), question)

    assert (plan.at_a_time, plan.threads_each) == (1, 1)
    assert plan.batch_ms == pytest.approx(7 * select(problem).total_ms)


@pytest.mark.long
@pytest.mark.parametrize("board", [pytest.param("rk3588", marks=pytest.mark.long), "exynos9820"])
def test_divisions_of_four_threads(board: str) -> None:
    single = {plan.at_a_time: plan for plan in plan_batch(network(), board, SelectQuestion(threads=4), 1)}
    many = plan_batch(network(), board, SelectQuestion(threads=4), 6)

    assert {(plan.at_a_time, plan.threads_each, len(plan.image_ms)) for plan in many} == {
        (1, 4, 1),
        (2, 2, 2),
        (4, 1, 4),
    }
    assert {plan.images_a_call for plan in many} == {1, 2}
    assert [plan.batch_ms for plan in many] == sorted(plan.batch_ms for plan in many)
    for plan in many:
        assert plan.images_a_call == 2 or single[plan.at_a_time].batch_ms == min(plan.image_ms)
        assert 6 * min(plan.image_ms) / plan.at_a_time <= plan.batch_ms * (1 + 1e-9)


def test_weights_that_no_cache_holds_are_read_once_for_several_images_a_call() -> None:
    """The classifier of a network: 16 MB of weights for a single pixel."""
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 1, 1, 2048)))
    graph = b.finish([b.add("conv2d", [x, b.constant(np.ones((2048, 1, 1, 2048), np.float32))])])
    plans = plan_batch(network_of(graph), "rk3588", SelectQuestion(), 8)

    assert [plan.images_a_call for plan in plans] == [8, 4, 2, 1]
    assert plans[0].batch_ms < 0.7 * plans[-1].batch_ms


def test_a_network_of_several_images_is_that_of_the_graph() -> None:
    def conv(batch: int) -> Network:
        b = GraphBuilder("g")
        x = b.input("x", TensorType("f32", (batch, 9, 9, 16)))
        y = b.add("conv2d", [x, b.constant(np.ones((16, 3, 3, 16), np.float32))], pads=(1, 1, 1, 1))
        y = b.add("max_pool2d", [b.add("add", [b.add("relu", [y]), x])], kernel=(3, 3))
        y = b.add("mul", [y, b.constant(np.ones(16, np.float32))])
        return network_of(b.finish([y]))

    assert of_batch(conv(1), 4) == conv(4)


def test_numbers_of_images_that_make_no_sense() -> None:
    with pytest.raises(MavcgError, match="--batch 0: give 1 to"):
        plan_batch(network(), "rk3588", SelectQuestion(), 0)


def test_the_command_line(mavcg: Callable[..., Any]) -> None:
    ended = mavcg("select", "alexnet", "--board", "rk3588", "--threads", "2", "--batch", "6", "--json")
    document = json.loads(ended.stdout)
    divisions = document["batch"]["divisions"]

    assert document["batch"]["images"] == 6 and len(divisions) == 4
    assert document["threads"] == divisions[0]["threads_each"]
    for division in divisions:
        assert division["images_per_s"] == pytest.approx(6e3 / division["batch_ms"])
    table = mavcg("select", "alexnet", "--board", "rk3588", "--threads", "2", "--batch", "2")
    assert "images at a time" in table.stdout and "Least: " in table.stdout
    refused = mavcg("select", "alexnet", "--board", "rk3588", "--batch", "2", "--per-cluster")
    assert refused.status == 2 and "--batch" in refused.stderr
