"""Real topologies, as the onnx package ships them: what is left of their transposes, and the same results."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph import Graph
from mavcg.graph.ops.nodes import verify
from mavcg.passes.graph.pipeline import PASSES, optimise
from mavcg.passes.graph.transposes import moving_transposes

onnx = pytest.importorskip("onnx", reason="the onnx package is not installed: it ships the models")
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def imported(name: str) -> Graph:
    """A model with random weights: those in the files are all alike, and so equal layers would be one."""
    from mavcg.importers.onnx_file import import_onnx

    path = LIGHT / f"light_{name}.onnx"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in this version of onnx")
    graph = import_onnx(path)
    rng = np.random.default_rng(0)

    def weights(array: Any) -> Any:
        if array.dtype != np.float32:
            return array
        spread = 1 / np.sqrt(array[0].size) if array.ndim > 1 else 0.3
        return rng.standard_normal(array.shape, np.float32) * np.float32(spread) + np.float32(array.ndim == 1)

    return replace(graph, constants={name: weights(array) for name, array in graph.constants.items()})


# Operators that are left besides conv2d and pad; a channel shuffle keeps its one transpose.
LEFT = {
    "squeezenet": {"conv2d": 26, "max_pool2d": 3, "concat": 8, "transpose": 1, "reduce_mean": 1, "softmax": 1},
    "resnet50": {"conv2d": 53, "max_pool2d": 1, "avg_pool2d": 1, "transpose": 1, "matmul": 1, "softmax": 1},
    "inception_v1": {
        "conv2d": 57,
        "max_pool2d": 13,
        "avg_pool2d": 1,
        "concat": 9,
        "lrn": 2,
        "transpose": 1,
        "matmul": 1,
        "softmax": 1,
    },
    "inception_v2": {
        "conv2d": 69,
        "max_pool2d": 5,
        "avg_pool2d": 8,
        "concat": 10,
        "transpose": 1,
        "matmul": 1,
        "softmax": 1,
    },
    "shufflenet": {
        "conv2d": 49,
        "max_pool2d": 1,
        "avg_pool2d": 4,
        "concat": 3,
        "transpose": 17,
        "relu": 3,
        "matmul": 1,
        "softmax": 1,
    },
    "densenet121": {
        "conv2d": 121,
        "max_pool2d": 1,
        "avg_pool2d": 3,
        "concat": 58,
        "transpose": 1,
        "mul": 62,
        "add": 62,
        "relu": 62,
        "reduce_mean": 1,
    },
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if n == "densenet121" else n for n in LEFT])
def test_one_transpose_at_the_input_is_left(name: str) -> None:
    after = optimise(imported(name))
    counted = Counter(node.op for node in after.nodes if node.op not in ("pad", "reshape"))
    assert counted == LEFT[name]
    assert moving_transposes(after) == LEFT[name]["transpose"]
    (first, *_) = [node for node in after.nodes if node.op == "transpose"]
    assert first.inputs == after.inputs
    assert all(not any(node.attr("pads")) for node in after.nodes if node.op == "conv2d")
    assert [node.op for node in optimise(after).nodes] == [node.op for node in after.nodes]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name",
    [
        "squeezenet",
        "shufflenet",
        *(pytest.param(n, marks=pytest.mark.long) for n in ("resnet50", "densenet121", "bvlc_alexnet", "vgg19")),
    ],
)
def test_the_same_results(name: str, h: Any) -> None:
    graph = imported(name)
    h.same(graph, optimise(graph), relative=1e-4)


def test_every_pass_can_be_looked_at() -> None:
    graph = imported("squeezenet")
    seen: list[tuple[str, Graph]] = []
    after = optimise(graph, lambda name, made: seen.append((name, made)))
    assert [name for name, _ in seen] == [one.__name__ for one in PASSES]
    assert seen[-1][1] is after
    for _, made in seen:
        verify(made)
        assert str(Graph.parse(str(made), made.constants)) == str(made)
