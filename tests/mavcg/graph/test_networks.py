"""The five networks: valid graphs, the figures of tables 4.1 and 8.1, and what the usual ones are known for."""

import numpy as np
import pytest

from mavcg.accelerators.plans.graph_layers import layers_of
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.networks import NAMES, network, yolov2
from mavcg.graph.ops.nodes import verify
from mavcg.graph.reference import run

# Uncached and cached layers (table 4.1; AlexNet is not in it). The paper has 15 for YOLOv2: two of its layers have
# all tensor parameters in common and are counted apart by something else.
TABLE_4_1 = {"vgg16": (16, 12), "resnet50": (50, 21), "squeezenet": (26, 18), "yolov2": (23, 14)}
# MiB of f32 weights without biases, and layers (table 8.1).
TABLE_8_1 = {
    "vgg16": (527.741, 16),
    "resnet50": (86.723, 50),
    "alexnet": (237.914, 8),
    "squeezenet": (4.698, 26),
    "yolov2": (194.328, 23),  # 194.265 with conv2 as 1x1, below
}
# 2^30 multiply-accumulates (table 8.1, "Gflops"); its 1.0 for SqueezeNet is not what its layers have.
GIBI_MACS = {"vgg16": 14.408, "resnet50": 4.536, "alexnet": 1.057, "squeezenet": 0.399, "yolov2": 29.308}


def _mib(graph: Graph) -> float:
    return round(sum(layer.weight_elements for layer in layers_of(graph)) * 4 / 2**20, 3)


def _gibi_macs(graph: Graph) -> float:
    return round(sum(layer.macs for layer in layers_of(graph)) / 2**30, 3)


@pytest.mark.parametrize("paper_variant", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_network_is_a_valid_graph_that_reads_all_its_weights(name: str, paper_variant: bool) -> None:
    graph = network(name, paper_variant)
    verify(graph)
    readers = graph.readers()
    assert all(readers.get(weights) for weights in graph.inputs)
    assert not graph.constants
    assert Graph.parse(str(graph)) == graph


@pytest.mark.parametrize("name", TABLE_4_1)
def test_layers_that_share_a_schedule_are_those_of_table_4_1(name: str) -> None:
    layers = layers_of(network(name, paper_variant=True))
    assert (len(layers), len({layer.key for layer in layers})) == TABLE_4_1[name]


def test_alexnet_repeats_no_layer() -> None:
    layers = layers_of(network("alexnet", paper_variant=True))
    assert len({layer.key for layer in layers}) == len(layers) == 8


@pytest.mark.parametrize("name", NAMES)
def test_size_and_work_are_those_of_table_8_1(name: str) -> None:
    graph = network(name, paper_variant=True)
    assert (_mib(graph), len(layers_of(graph))) == TABLE_8_1[name]
    assert _gibi_macs(graph) == GIBI_MACS[name]


def test_table_8_1_counts_yolov2_with_its_second_convolution_as_1x1() -> None:
    graph = yolov2(paper_variant=True, conv2_kernel=1)
    verify(graph)
    assert (_mib(graph), _gibi_macs(graph), len(layers_of(graph))) == (194.265, 27.898, 23)


# Parameters with biases as the usual implementations count them: torchvision's documentation for all but YOLOv2
# and AlexNet, whose grouped form has 60 965 224 (Caffe's bvlc_alexnet). Batch normalisation is one bias a channel here:
# torchvision's ResNet-50 has scale and shift for 26 560 channels, 25 557 032 in all.
@pytest.mark.parametrize(
    ("name", "parameters"),
    [("vgg16", 138_357_544), ("resnet50", 25_557_032 - 26_560), ("squeezenet", 1_235_496), ("alexnet", 60_965_224)],
)
def test_the_usual_networks_have_the_parameters_they_are_known_to_have(name: str, parameters: int) -> None:
    graph = network(name)
    assert sum(graph.types[given].elements for given in graph.inputs if given != "image") == parameters


def test_yolov2_has_a_grid_of_32_pixels() -> None:
    usual, paper = network("yolov2"), network("yolov2", paper_variant=True)
    assert usual.shape(usual.outputs[0]) == (1, 13, 13, 425)
    assert paper.shape(paper.outputs[0]) == (1, 19, 19, 425)
    # The passthrough comes from the last layer before the last pool, as four positions in one.
    layers = {layer.name: layer for layer in layers_of(usual)}
    assert (layers["conv21"].ic, layers["conv21"].oh, layers["conv22"].ic) == (512, 26, 4 * 64 + 1024)


def test_squeezenet_pools_as_each_variant_says() -> None:
    for paper, sides in ((False, [111, 55, 27, 13]), (True, [113, 57, 29, 15])):
        layers = layers_of(network("squeezenet", paper))
        assert list(dict.fromkeys(layer.oh for layer in layers)) == sides


def test_only_the_usual_resnet_has_projections() -> None:
    assert sum("projection" in layer.name for layer in layers_of(network("resnet50"))) == 4
    assert not any("projection" in layer.name for layer in layers_of(network("resnet50", paper_variant=True)))


def test_a_shortcut_without_projection_is_a_sampled_image_with_zeros_behind() -> None:
    graph = network("resnet50", paper_variant=True)
    producers = graph.producers()
    widened = [node for node in graph.nodes if node.op == "pad"]
    assert [graph.shape(node.output) for node in widened] == [
        (1, 64, 64, 256),
        (1, 32, 32, 512),
        (1, 16, 16, 1024),
        (1, 8, 8, 2048),
    ]
    sampled = [producers[node.inputs[0]] for node in widened[1:]]
    assert all(node.op == "slice" and node.attr("steps") == (1, 2, 2, 1) for node in sampled)


def test_a_network_computes_what_its_weights_say() -> None:
    """SqueezeNet with weights that are all zero but the last bias: softmax of relu of that bias."""
    graph = network("squeezenet")
    bias = np.linspace(-5, 5, 1000, dtype=np.float32)
    given = [bias if name == "conv10.b" else np.zeros(graph.shape(name), np.float32) for name in graph.inputs]
    (found,) = run(graph, *given)
    expected = np.exp(np.maximum(bias, 0))
    np.testing.assert_allclose(found[0], expected / expected.sum(), rtol=1e-5)


def test_another_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(MavcgError, match=r"network lenet: unknown; choose one of vgg16, resnet50"):
        network("lenet")
