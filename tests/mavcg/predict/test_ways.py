"""Which way a node is computed: by the prediction, for the board, within the error that is allowed."""

import numpy as np
import pytest

from mavcg.board import Board, Cluster
from mavcg.graph import Graph, TensorType
from mavcg.graph_builder import GraphBuilder
from mavcg.kernels.winograd_step import STAGED
from mavcg.machines import machines_for, packing_for
from mavcg.passes.graph.pipeline import optimise
from mavcg.predict.ways import Chosen, Way, _best, choose_ways
from mavcg.predict.work import step_works
from mavcg.profiles.load import cores_for, load_board
from mavcg.target import parse_target


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


def chosen(graph: Graph, board: str | None, max_error: float = 1e-4) -> Chosen:
    cores = ("cortex-a55", "cortex-a76") if board else ("znver3",)
    target = parse_target(load_board(board).target if board else "x86_64-linux-gnu")
    machines = machines_for(cores_for(cores), target)
    return choose_ways(graph, packing_for(target), machines, target, load_board(board) if board else None, max_error)


@pytest.mark.parametrize("board", [None, "rk3588"])
def test_a_layer_with_many_channels_is_computed_by_winograd(board: str | None) -> None:
    found = chosen(net(), board)

    tiles = {way.removesuffix(STAGED) for way in found.ways.values()}
    assert tiles <= {"winograd_2d_f2_k3", "winograd_2d_f4_k3"} and len(found.ways) == 2
    families = {spec.family for spec in found.lowered.specs}
    assert any(family.startswith("winograd") for family in families) and "conv2d_f32" not in families
    for ways in found.considered.values():
        assert ways[0].name == "" and all(way.ms > 0 for way in ways)
        # Transformed weights are larger: 16 or 36 numbers instead of 9.
        assert [round(9 * way.weight_bytes / ways[0].weight_bytes) for way in ways] == [9, 16, 36, 16, 36]
    assert "winograd" in str(found)


def test_with_no_error_allowed_sums_are_by_definition() -> None:
    found = chosen(net(), None, 0.0)

    assert not found.ways and not found.considered
    assert {spec.family for spec in found.lowered.specs} >= {"conv2d_f32"}


def test_few_channels_and_other_kernels_stay_as_they_are() -> None:
    assert not chosen(net(channels=3, side=8), None).ways
    assert not chosen(net(kernel=1), None).considered


def test_a_way_has_to_be_worth_it() -> None:
    own, slow, fast = Way("", 1.0, 0.5, 9), Way("a", 0.95, 0.48, 16), Way("b", 0.5, 0.3, 36)

    assert _best([own]) is own
    assert _best([own, slow]) is own
    assert _best([own, slow, fast]) is fast


def test_a_way_is_judged_by_one_core_and_by_all() -> None:
    alone, shared = Way("alone", 1.0, 0.9, 0), Way("shared", 1.1, 0.6, 0)

    assert _best([Way("", 3.0, 1.5, 0), alone, shared]) is shared
    assert _best([Way("", 3.0, 1.5, 0), alone, Way("shared", 2.0, 0.8, 0)]) is alone


def host_like(cores: int) -> Board:
    """Cores of which one alone reads its memory at 20 GB/s and several at 40."""
    cluster = Cluster(
        "znver3", tuple(range(cores)), max_khz=3_200_000, l2_gb_per_s=90, l3_gb_per_s=60, memory_gb_per_s=20.0,
        fma_per_cycle=2.0,
    )  # fmt: skip
    return Board("two", "", "x86_64-linux-gnu", (cluster,), l3_bytes=2 << 20, memory_gb_per_s=40.0)


def test_threads_share_weights_that_are_large_beside_the_image() -> None:
    target = parse_target("x86_64-linux-gnu")
    machines = machines_for(cores_for(("znver3",)), target)

    def of(graph: Graph) -> Chosen:
        return choose_ways(graph, packing_for(target), machines, target, host_like(2), 1e-4)

    large, small = of(net(channels=128, side=8)), of(net(channels=32, side=56))

    assert large.ways and all(way.endswith(STAGED) for way in large.ways.values())
    assert set(small.ways.values()) == {"winograd_2d_f4_k3"}
    for ways in large.considered.values():
        # One kernel: every thread reads all weights; three: its part of them.
        speedup = {way.name: way.ms / way.together_ms for way in ways}
        assert speedup["winograd_2d_f4_k3_staged"] > 1.2 * speedup["winograd_2d_f4_k3"]


def test_bytes_that_the_steps_of_a_node_leave_for_one_another() -> None:
    found = chosen(net(channels=128, side=8), None).lowered
    inputs, products, output = [w for w in step_works(found) if w.family.startswith("winograd")][:3]

    # 4 tiles of 36 numbers in 128 channels; planes are an odd number of lines.
    assert 4 * 36 * 4 * 128 < inputs.bytes_of("output") < 1.1 * 4 * 36 * 4 * 128
    assert products.bytes_of("input") == inputs.bytes_of("output") and products.apart
    assert products.bytes_of("weight") == 4 * 36 * 128 * 128
    assert output.bytes_of("input") == products.bytes_of("output")
    assert [w.macs for w in (inputs, products, output)] == [0, 8 * 8 * 9 * 128 * 128, 0]
