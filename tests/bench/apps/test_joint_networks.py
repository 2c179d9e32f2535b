"""Networks of the evaluation of joint memory: parameters as published, sizes, applications made of them."""

import math
from collections.abc import Callable
from functools import partial

import pytest

from bench.apps.joint_memory import application
from bench.apps.joint_networks import densenet121, efficientnet_b0, inception_v2, mobilenet_v1
from mavcg.apps.model_network import network_of
from mavcg.graph import Graph


def parameters(graph: Graph) -> int:
    """Count the elements of all weights and biases."""
    return sum(math.prod(graph.types[name].shape) for name in graph.inputs[1:])


# Trainable parameters as published (Keras' MobileNet, torchvision's others). A batch normalisation that is folded
# leaves one parameter a channel of two; DenseNet's 3x3 and transitions have biases here, and none there.
@pytest.mark.parametrize(
    "made, published, folded",
    [
        (efficientnet_b0, 5_288_548, 21_008),
        (mobilenet_v1, 4_231_976, 10_944),
        (partial(mobilenet_v1, 0.25), 470_072, 2_736),
        (densenet121, 7_978_856, 58 * (128 - 32) + 64 - 896),
    ],
)
def test_parameters_as_published(made: Callable[[], Graph], published: int, folded: int) -> None:
    assert parameters(made()) == published - folded


def test_inception_v2_has_the_published_shapes() -> None:
    graph = inception_v2()
    joined = [graph.types[node.outputs[0]].shape for node in graph.nodes if node.op == "concat"]

    channels = [256, 320, 576, 576, 576, 576, 576, 1024, 1024, 1024]
    assert joined == [(1, s, s, c) for s, c in zip([28] * 2 + [14] * 5 + [7] * 3, channels, strict=True)]


def test_a_pipeline_has_partitions_that_run_together() -> None:
    graphs = {"a": mobilenet_v1(0.25), "b": mobilenet_v1(0.25)}
    app = application(("a", "b"), 2, graphs, {})

    assert [p.name for p in app.partitions] == ["a.0", "a.1", "b.0", "b.1"]
    assert app.runs_with("a.0", "a.1") and not app.runs_with("a.0", "b.0")
    assert [layer for p in app.partitions_of("a") for layer in p.layers] == [
        layer.name for layer in network_of(graphs["a"], "a").layers
    ]
