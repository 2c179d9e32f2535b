"""The built-in networks: the counts that papers give, seeded weights, every operation on the accelerator or named."""

from collections import Counter

import numpy as np
import pytest

from mavcg.accelerators.fusion.report import accelerated_operations
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.networks import (
    NAMES,
    googlenet,
    mobilenet_v2,
    network,
    resnet50,
    resnet152,
    with_seeded_weights,
    yolo_small,
)
from mavcg.accelerators.xgraph import XGraph
from mavcg.errors import MavcgError
from mavcg.graph import Graph


def kinds(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes)


@pytest.mark.parametrize("made,nodes", [(resnet50, 120), (resnet152, 358), (googlenet, 137)])
def test_node_counts_are_those_of_table_3(made: object, nodes: int) -> None:
    """Convolutions, ReLUs, pools, sums and concats, as DNNVM counts nodes."""
    assert callable(made)
    counted = kinds(made())

    assert sum(counted[op] for op in ("conv2d", "relu", "max_pool2d", "reduce_mean", "add", "concat")) == nodes


def test_mobilenet() -> None:
    graph = mobilenet_v2()

    assert kinds(graph)["conv2d"] == 52
    assert sum(node.op == "conv2d" and node.attr("groups") > 1 for node in graph.nodes) == 17


def test_weights_are_seeded() -> None:
    one, again = with_seeded_weights(yolo_small()), with_seeded_weights(yolo_small())

    assert one.inputs == ("image",)
    assert all(np.array_equal(one.constants[name], again.constants[name]) for name in one.constants)
    deviation = float(one.constants["conv9.w"].std())
    assert deviation == pytest.approx((2 / (9 * 192)) ** 0.5, rel=0.02)


def test_yolo_has_all_moves() -> None:
    xgraph: XGraph = xgraph_of(network("yolo_small"))

    assert not xgraph.hosts
    assert {"upsample", "reorganise", "concat", "max_pool"} <= {node.kind for node in xgraph.nodes}
    assert sum(node.act == "leaky" for node in xgraph.nodes) == 9


@pytest.mark.parametrize("name,gop", [("googlenet", 3.16), ("mobilenet_v2", 0.60), ("squeezenet", 0.70)])
def test_operations(name: str, gop: float) -> None:
    xgraph = xgraph_of(network(name))

    assert accelerated_operations(xgraph) / 1e9 == pytest.approx(gop, rel=0.02)
    assert {node.op for node in xgraph.nodes if node.kind == "host"} <= {"matmul", "softmax"}


def test_unknown_names_are_refused() -> None:
    with pytest.raises(MavcgError, match=", ".join(NAMES[:2])):
        network("lenet")
