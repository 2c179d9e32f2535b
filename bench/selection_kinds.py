"""Selections for rectangular, grouped and dilated convolutions, for a batch, and for 8-bit networks.

    python -m bench.selection_kinds            the tables, of modelled costs: nothing is measured
    python -m bench.selection_kinds --record   and bench/results/selection_kinds.json

A network is a part of a well-known one with its sizes: an Inception v3 block of 17 x 17 (1x7 and 7x1), a ResNeXt-50
block (32 groups), a DeepLab v3 stage (dilation 2 and 4), a ResNet-50 block of 4 images a call. Times are of its
convolutions and conversions on one thread of the board's fastest core. 8-bit networks are those of bench.models: of
each convolution with a choice, what both primitives are predicted to take.
"""

import argparse
from collections import Counter
from typing import Any

import numpy as np

from bench.models import model_path, shapes_of
from bench.record import facts, write
from mavcg.choose.algorithms.choice import make_problem
from mavcg.choose.algorithms.costs.modelled import modelled_costs
from mavcg.choose.algorithms.network import network_of
from mavcg.choose.algorithms.select_workers import board_of, workers_of
from mavcg.choose.algorithms.strategies import select, strategy_names
from mavcg.choose.lowering.lower import lower_candidates
from mavcg.choose.predict.algorithms import predict_algorithms
from mavcg.cost.board_model import board_model
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.importers.load import import_model
from mavcg.kernels.primitives.registry import all_primitives
from mavcg.model.choose_algorithms import eight_bit_json
from mavcg.passes.graph.pipeline import optimise
from mavcg.profiles.load import cores_for
from mavcg.runtime.machines import packing_for
from mavcg.toolchain.target import parse_target

BOARDS = ("rk3588", "exynos9820")
EIGHT_BIT = ("mobilenet_v2-int8", "resnet50-random-int8", "inception_v3-random-int8")
COMPARED = ("sum2d", "local", "family:im2", "family:direct_blocked", "family:winograd")


class _Net:
    """A chain of f32 convolutions with relu and arbitrary weights."""

    def __init__(self, name: str, size: int, channels: int, batch: int = 1) -> None:
        self.b = GraphBuilder(name)
        self.x = self.b.input("x", TensorType("f32", (batch, size, size, channels)))

    def conv(self, m: int, kernel: tuple[int, int], dilation: int = 1, groups: int = 1, stride: int = 1) -> "_Net":
        in_ch = self.b.types[self.x].shape[3]
        pads = tuple(dilation * (k - 1) // 2 for k in kernel) * 2
        weights = self.b.constant(np.ones((m, *kernel, in_ch // groups), np.float32))
        self.x = self.b.add(
            "conv2d",
            [self.x, weights],
            pads=pads,
            dilation=(dilation,) * 2,
            groups=groups,
            stride=(stride,) * 2,
            act="relu",
        )
        return self

    def graph(self) -> Graph:
        return self.b.finish([self.x])


def networks() -> dict[str, Graph]:
    """Return the f32 networks by name."""
    inception = _Net("inception", 17, 768).conv(160, (1, 1))
    for kernel in ((7, 1), (1, 7), (7, 1)):
        inception.conv(160, kernel)
    deeplab = _Net("deeplab", 33, 1024)
    for dilation in (2, 2, 4):
        deeplab.conv(256, (1, 1)).conv(256, (3, 3), dilation).conv(1024, (1, 1))
    return {
        "inception_v3 17x17": inception.conv(192, (1, 7)).graph(),
        "resnext50 stage 2": _Net("resnext", 56, 256)
        .conv(128, (1, 1))
        .conv(128, (3, 3), groups=32)
        .conv(256, (1, 1))
        .graph(),
        "deeplab_v3 stage 4": deeplab.graph(),
        "resnet50 stage 5, 4 images": _Net("resnet", 7, 2048, 4)
        .conv(512, (1, 1))
        .conv(512, (3, 3))
        .conv(2048, (1, 1))
        .graph(),
    }


def selected(graph: Graph, board: str) -> dict[str, Any]:
    """Return the selection for a network on a board, and the costs of other strategies."""
    network = network_of(graph)
    problem = make_problem(network, modelled_costs(workers_of(board_of(board))[0]), all_primitives())
    selection = select(problem)
    nodes = [
        {
            "scenario": node.scenario.text,
            "primitive": selection.choice.chosen[node.name].name,
            "alternatives": len(problem.alternatives[node.name]),
        }
        for node in network.convolutions
        if node.scenario is not None
    ]
    able = strategy_names(problem)
    others = {name: select(problem, name).total_ms for name in COMPARED if name in able}
    return {"ms": selection.total_ms, "optimal": selection.proven, "nodes": nodes, "others_ms": others}


def eight_bit(model: str, board: str) -> list[dict[str, Any]]:
    """Return the 8-bit convolutions of a model that have a choice on a board, with both times."""
    graph = optimise(import_model(model_path(model), shapes_of(model)))
    of_board = board_of(board)
    target = parse_target(of_board.target)
    candidates = lower_candidates(graph, packing_for(target), 0.0)
    predicted = predict_algorithms(candidates, board_model(cores_for(of_board.cores), target, of_board))
    return eight_bit_json(candidates.storage.graph, predicted, predicted.fastest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write bench/results/selection_kinds.json")
    record: dict[str, Any] = facts("modelled", "bench.selection_kinds --record") | {"f32": {}, "int8": {}}
    arguments = parser.parse_args()
    for board in BOARDS:
        for name, graph in networks().items():
            row = record["f32"].setdefault(name, {})[board] = selected(graph, board)
            others = ", ".join(f"{strategy} {ms / row['ms']:.2f}" for strategy, ms in row["others_ms"].items())
            print(f"{name} on {board}: {row['ms']:.3f} ms, optimal {row['optimal']}; times as long: {others}")
            for node in row["nodes"]:
                print(f"    {node['scenario']:40} {node['primitive']} of {node['alternatives']}")
        for model in EIGHT_BIT:
            rows = record["int8"].setdefault(model, {})[board] = eight_bit(model, board)
            print(f"{model} on {board}: {dict(Counter(row['primitive'] for row in rows))}")
            for each in rows:
                ratio = each["cost_ms"]["qconv_im2row_hwc_hwc"] / each["cost_ms"]["qconv_implicit_hwc_hwc"]
                print(f"    {each['name']:40} {each['primitive']}, im2row over implicit {ratio:.2f}")
    if arguments.record:
        write("selection_kinds", record)


if __name__ == "__main__":
    main()
