"""Selection in networks with 8-bit convolutions: what there is to choose, what it costs, and what a library takes."""

from pathlib import Path

import numpy as np
import pytest

from mavcg.choose.algorithms.costs.database_file import open_db
from mavcg.choose.algorithms.costs.modelled import modelled_costs
from mavcg.choose.algorithms.costs.provider import MEASURED, Cost
from mavcg.choose.algorithms.costs.rows import Record
from mavcg.choose.algorithms.network import network_of
from mavcg.choose.algorithms.questions import ModelQuestion, SelectQuestion
from mavcg.choose.algorithms.select_model import select_for_library, within_weights
from mavcg.choose.algorithms.select_network import problem_of, select_network
from mavcg.choose.algorithms.select_workers import board_of, workers_of
from mavcg.choose.algorithms.strategies import compare
from mavcg.choose.lowering.lower import lower_candidates
from mavcg.choose.predict.algorithms import predict_algorithms
from mavcg.cost.board_model import board_model
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels.int8.im2row import IM2ROW
from mavcg.kernels.primitives.eight_bit import DEFAULTS
from mavcg.kernels.primitives.registry import eight_bit_primitives
from mavcg.lab.tuning.work_list import plan_of
from mavcg.passes.graph.pads import explicit_padding
from mavcg.profiles.load import cores_for
from mavcg.runtime.machines import packing_for
from mavcg.toolchain.target import parse_target

BOARD = "rk3588"


def mixed_graph() -> Graph:
    """A convolution of f32, and 8-bit ones with a choice (3x3 of 3 channels), without one (1x1), and depthwise."""
    b = GraphBuilder("mixed")
    x = b.input("x", TensorType("f32", (1, 16, 16, 3)))
    first = b.add("conv2d", [x, b.constant(np.ones((8, 3, 3, 3), np.float32))], pads=(1, 1, 1, 1), act="relu")
    q = b.input("q", TensorType("i8", (1, 16, 16, 3)))

    def convolve(image: str, m: int, k: int, stride: int, groups: int = 1) -> str:
        c = b.types[image].shape[3]
        constants = (np.ones((m, k, k, c // groups), np.int8), np.zeros(m, np.int32), np.full(m, 1e-3, np.float32))
        return b.add(
            "qconv2d",
            [image, *map(b.constant, constants)],
            stride=(stride, stride),
            groups=groups,
            x_zero=0,
            out_zero=0,
            lo=-128,
            hi=127,
            to="i8",
        )

    q = convolve(convolve(convolve(q, 16, 3, 2), 24, 1, 1), 24, 3, 1, 24)
    return explicit_padding(b.finish([first, q]))


def test_every_convolution_is_a_node_and_each_strategy_does_the_network() -> None:
    graph = mixed_graph()
    network = network_of(graph)
    scenarios = [node.scenario for node in network.convolutions if node.scenario is not None]
    costs = modelled_costs(workers_of(board_of(BOARD))[0])
    problem = problem_of(network, costs, SelectQuestion(), 8)
    comparison = compare(problem)

    assert not network.left_out
    assert [(s.c, s.m, s.kernel, s.groups, s.dtype) for s in scenarios] == [
        (3, 8, (3, 3), 1, "f32"),
        (3, 16, (3, 3), 1, "i8"),
        (16, 24, (1, 1), 1, "i8"),
        (24, 24, (3, 3), 24, "i8"),
    ]
    names = [[one.name for one in problem.alternatives[node.name]] for node in network.convolutions[1:]]
    assert names == [
        ["qconv_implicit_hwc_hwc", "qconv_im2row_hwc_hwc"],
        ["qconv_implicit_hwc_hwc"],
        ["qconv_depthwise_hwc_hwc"],
    ]
    assert {"pbqp", "local", "sum2d", "family:qconv_im2row", "family:winograd"} <= set(comparison)
    best = comparison["pbqp"]
    assert best is not None and best.proven
    for other in comparison.values():
        assert other is not None and best.total_ms <= other.total_ms * (1 + 1e-12)


def test_fewer_threads_take_longer_and_no_core_shares_a_row() -> None:
    network = network_of(mixed_graph())
    of = [
        select_network("mixed", network, BOARD, SelectQuestion(threads=threads)).selected.total_ms for threads in (1, 2)
    ]
    assert of[0] / 2 <= of[1] < of[0]


def test_tune_measures_what_the_engine_takes_first_and_all_that_may_be_faster() -> None:
    plan = plan_of(network_of(mixed_graph()), eight_bit_primitives(), modelled_costs(workers_of(board_of(BOARD))[0]))
    jobs = [(what[0].k, what[1]) for job in plan.jobs if isinstance(what := job.what, tuple)]
    assert (3, "qconv_im2row_hwc_hwc") in jobs and {name for _, name in jobs[:3]} == DEFAULTS


@pytest.mark.parametrize("faster", ["qconv_implicit_hwc_hwc", "qconv_im2row_hwc_hwc"])
def test_a_library_takes_what_was_measured_to_be_faster(faster: str, tmp_path: Path) -> None:
    graph, board = mixed_graph(), board_of(BOARD)
    network = network_of(graph)
    node = network.convolutions[1]
    assert node.scenario is not None
    core = workers_of(board)[0].cluster.core
    with open_db(tmp_path / "costs.db") as database:
        for name in ("qconv_implicit_hwc_hwc", "qconv_im2row_hwc_hwc"):
            cost = Cost(0.001 if name == faster else 0.1, MEASURED, 0.0, 10)
            database.put(Record((node.scenario, name), cost, core, 1, 8))
    target = parse_target(board.target)
    packing, model = packing_for(target), board_model(cores_for(board.cores), target, board)
    predicted = predict_algorithms(lower_candidates(graph, packing, 0.0), model)
    question = ModelQuestion(db=tmp_path / "costs.db")
    selection = select_for_library(graph, packing, model, question, predicted, lambda words: None)

    assert selection is not None and selection.choice.chosen[node.name].name == faster
    assert selection.algorithms.get(node.tensor, "") == (IM2ROW if "im2row" in faster else "")
    weights = sum(graph.constants[graph.producers()[n.tensor].inputs[1]].nbytes for n in network.convolutions)
    lighter = within_weights(selection, graph, packing, 64 * weights)
    assert lighter.choice.chosen[node.name].name in {p.name for p in eight_bit_primitives()}
