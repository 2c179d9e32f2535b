"""Algorithms of nodes by predicted time: for the board, within the error that is allowed."""

from dataclasses import dataclass

import numpy as np
import pytest

from mavcg.choose.lowering.lower import LoweredGraph, lower_candidates
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.choose.predict import algorithms
from mavcg.choose.predict.algorithms import (
    WORTH,
    AlgorithmTime,
    PredictedAlgorithms,
    fastest_of,
    predict_algorithms,
    worth_on,
)
from mavcg.choose.predict.program_work import step_works
from mavcg.cost.board_model import board_model, core_model
from mavcg.cost.model_error import ModelError, model_error
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.hardware.board import Board, Cluster
from mavcg.hardware.core_model import BoardModel
from mavcg.kernels.primitives.winograd.node_step import STAGED
from mavcg.passes.graph.pipeline import optimise
from mavcg.profiles.load import cores_for, load_board
from mavcg.runtime.machines import packing_for
from mavcg.toolchain.target import parse_target


def net(channels: int = 64, side: int = 28, kernel: int = 3) -> Graph:
    """Two convolutions with as much padding as keeps the size; the second one's residual is the first."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("net")
    x = b.input("x", TensorType("f32", (1, side, side, channels)))
    w = rng.standard_normal((channels, kernel, kernel, channels), dtype=np.float32)
    pads = (kernel // 2,) * 4
    one = b.add("conv2d", [x, b.constant(w)], origin="one", pads=pads)
    two = b.add("conv2d", [one, b.constant(w[::-1].copy())], origin="two", pads=pads)
    return optimise(b.finish([b.add("add", [one, two])]))


@dataclass(frozen=True)
class Lowered:
    """A graph with its predicted algorithms, lowered by them."""

    predicted: PredictedAlgorithms
    lowered: LoweredGraph


def predict(graph: Graph, board: BoardModel, max_error: float) -> Lowered:
    candidates = lower_candidates(graph, packing_for(board.target), max_error)
    predicted = predict_algorithms(candidates, board)
    return Lowered(predicted, candidates.lower(predicted.fastest))


def chosen(graph: Graph, board: str | None, max_error: float = 1e-4) -> Lowered:
    cores = ("cortex-a55", "cortex-a76") if board else ("znver3",)
    target = parse_target(load_board(board).target if board else "x86_64-linux-gnu")
    model = board_model(cores_for(cores), target, load_board(board) if board else None)
    return predict(graph, model, max_error)


@pytest.mark.parametrize("board", [None, pytest.param("rk3588", marks=pytest.mark.long)])
def test_a_layer_with_many_channels_is_computed_by_winograd(board: str | None) -> None:
    found = chosen(net(), board).predicted
    specs = chosen(net(), board).lowered.specs

    tiles = {name.removesuffix(STAGED) for name in found.fastest.values()}
    assert tiles <= {"winograd_2d_f2_k3", "winograd_2d_f4_k3"} and len(found.fastest) == 2
    families = {spec.family for spec in specs}
    assert any(family.startswith("winograd") for family in families) and "conv2d_f32" not in families
    for times in found.considered.values():
        assert times[0].name == "" and all(time.ms > 0 for time in times)
        # Transformed weights are larger: 16 or 36 numbers instead of 9.
        assert [round(9 * time.weight_bytes / times[0].weight_bytes) for time in times] == [9, 16, 36, 16, 36]
    assert "winograd" in str(found)


def test_with_no_error_allowed_sums_are_by_definition() -> None:
    found = chosen(net(), None, 0.0)

    assert not found.predicted.fastest and not found.predicted.considered
    assert {spec.family for spec in found.lowered.specs} >= {"conv2d_f32"}


def test_few_channels_and_other_kernels_stay_as_they_are() -> None:
    assert not chosen(net(channels=3, side=8), None).predicted.fastest
    assert not chosen(net(kernel=1), None).predicted.considered


def test_an_algorithm_has_to_be_worth_it() -> None:
    own, slow = AlgorithmTime("", 1.0, 0.5, 9), AlgorithmTime("a", 0.95, 0.48, 16)
    fast = AlgorithmTime("b", 0.5, 0.3, 36)

    assert fastest_of([own]) is own
    assert fastest_of([own, slow]) is own
    assert fastest_of([own, slow, fast]) is fast


def test_a_gain_within_the_error_of_the_cores_model_is_none() -> None:
    a73, a76 = (
        core_model(Board("b", "", "aarch64-linux-gnu.2.17", (Cluster(name, (0,)),)), 0)
        for name in ("cortex-a73", "cortex-a76")
    )
    assert worth_on(a76) == WORTH  # which is less than its model's error leaves
    assert a73.core is not None and worth_on(a73) == 1 - model_error(a73.core).fraction < WORTH

    own, other = AlgorithmTime("", 1.0, 1.0, 9), AlgorithmTime("a", 0.88, 0.88, 16)
    assert fastest_of([own, other], worth_on(a76)) is other
    assert fastest_of([own, other], worth_on(a73)) is own


def test_a_model_that_errs_by_more_than_the_whole_time_leaves_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    core = core_model(Board("b", "", "aarch64-linux-gnu.2.17", (Cluster("cortex-a73", (0,)),)), 0)
    monkeypatch.setattr(algorithms, "model_error", lambda _: ModelError(1.5))
    own, other = AlgorithmTime("", 1.0, 1.0, 9), AlgorithmTime("a", 0.09, 0.09, 16)
    assert worth_on(core) == 0.1
    assert fastest_of([own, other], worth_on(core)) is other


def test_an_algorithm_is_judged_by_one_core_and_by_all() -> None:
    alone, shared = AlgorithmTime("alone", 1.0, 0.9, 0), AlgorithmTime("shared", 1.1, 0.6, 0)

    assert fastest_of([AlgorithmTime("", 3.0, 1.5, 0), alone, shared]) is shared
    assert fastest_of([AlgorithmTime("", 3.0, 1.5, 0), alone, AlgorithmTime("shared", 2.0, 0.8, 0)]) is alone


def host_like(cores: int) -> Board:
    """Cores of which one alone reads its memory at 20 GB/s and several at 40."""
    cluster = Cluster(
        "znver3",
        tuple(range(cores)),
        max_khz=3_200_000,
        l2_gb_per_s=90,
        l3_gb_per_s=60,
        memory_gb_per_s=20.0,
        fma_per_cycle=2.0,
    )
    return Board("two", "", "x86_64-linux-gnu", (cluster,), l3_bytes=2 << 20, memory_gb_per_s=40.0)


def test_threads_share_weights_that_are_large_beside_the_image() -> None:
    model = board_model(cores_for(("znver3",)), parse_target("x86_64-linux-gnu"), host_like(2))

    def of(graph: Graph) -> PredictedAlgorithms:
        return predict(graph, model, 1e-4).predicted

    large, small = of(net(channels=128, side=8)), of(net(channels=32, side=56))

    assert large.fastest and all(name.endswith(STAGED) for name in large.fastest.values())
    assert set(small.fastest.values()) == {"winograd_2d_f4_k3"}
    for times in large.considered.values():
        # One kernel: every thread reads all weights; three: its part of them.
        speedup = {time.name: time.ms / time.together_ms for time in times}
        assert speedup["winograd_2d_f4_k3_staged"] > 1.2 * speedup["winograd_2d_f4_k3"]


def test_bytes_that_the_steps_of_a_node_leave_for_one_another() -> None:
    found = chosen(net(channels=128, side=8), None).lowered
    inputs, products, output = [w for w in step_works(plan_lowered(found)) if w.family.startswith("winograd")][:3]

    # 4 tiles of 36 numbers in 128 channels; planes are an odd number of lines.
    assert 4 * 36 * 4 * 128 < inputs.bytes_of("output") < 1.1 * 4 * 36 * 4 * 128
    assert products.bytes_of("input") == inputs.bytes_of("output") and products.disjoint_reads
    assert products.bytes_of("weight") == 4 * 36 * 128 * 128
    assert output.bytes_of("input") == products.bytes_of("output")
    assert [w.macs for w in (inputs, products, output)] == [0, 8 * 8 * 9 * 128 * 128, 0]
