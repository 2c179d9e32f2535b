"""Quantisation: positions are within limits and tied where nothing shifts; errors are those of 8 bits."""

from dataclasses import replace

import numpy as np
import pytest

from bench.accelerators.accel_accuracy import accuracy_of
from mavcg.accelerators.fixed_point import convolution_sums, evaluate, to_integers, to_reals
from mavcg.accelerators.float_reference import arrange_inputs, evaluate_f32, evaluate_node_f32
from mavcg.accelerators.image.program import NodeRadix
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.quantise import QuantisedGraph, quantise, sqnr_db, with_radices
from mavcg.accelerators.shapes import check_xgraph
from mavcg.accelerators.tensor_radices import EVENLY, LARGEST, Sample, widest_radix
from mavcg.accelerators.validate import integer_images
from mavcg.accelerators.xgraph import CONVOLUTIONS, Parameters, XGraph, XNode
from mavcg.errors import MavcgError
from mavcg.graph import Array
from tests.mavcg.accelerators.small_network import network

IMAGES = [
    {"image": np.random.default_rng(seed).standard_normal((1, 3, 16, 12)).astype(np.float32)} for seed in range(6)
]


@pytest.fixture(scope="module", name="real")
def real_graph() -> XGraph:
    return xgraph_of(network(), dense_on_host=False)


@pytest.fixture(scope="module", name="images")
def calibration(real: XGraph) -> list[dict[str, Array]]:
    return [arrange_inputs(real, image) for image in IMAGES]


@pytest.fixture(scope="module", name="quantised")
def made(real: XGraph, images: list[dict[str, Array]]) -> QuantisedGraph:
    return quantise(real, images[:3], "half_up")


def test_the_graph_is_quantised(real: XGraph, quantised: QuantisedGraph) -> None:
    check_xgraph(quantised.graph)
    by_name = quantised.graph.by_name()

    assert all(n.radix is not None for n in quantised.graph.nodes if n.on_accelerator or n.kind == "input")
    assert [node.name for node in quantised.graph.nodes] == [node.name for node in real.nodes]
    for node in quantised.graph.nodes:
        if node.kind in CONVOLUTIONS:
            assert quantised.graph.parameters[node.name].weights.dtype == np.int8
            assert len(node.weight_radix) in ((1, node.channels) if node.kind == "depthwise" else (1,))
        if node.kind in ("max_pool", "upsample", "reorganise"):
            assert node.radix == by_name[node.inputs[0]].radix
        if node.kind == "concat":
            assert {by_name[name].radix for name in node.inputs} == {node.radix}
    assert by_name[quantised.graph.outputs[0]].radix is None  # softmax on the CPU, in f32


@pytest.mark.parametrize("rounding", ["half_up", "half_away", "floor"])
@pytest.mark.parametrize("granularity", ["tensor", "depthwise", "channel", "scale"])
def test_errors_are_those_of_8_bits(
    real: XGraph, images: list[dict[str, Array]], rounding: str, granularity: str
) -> None:
    quantised = quantise(real, images[:3], rounding, granularity)

    accuracy = accuracy_of(real, quantised.graph, images[3:], rounding)

    assert accuracy.inputs == 3
    assert min(accuracy.sqnr_db.values()) > 10
    assert accuracy.top1_agreement == 1
    assert min(layer.sqnr_db for layer in quantised.layers) > 15
    lengths = {len(n.weight_radix) for n in quantised.graph.nodes if n.kind in CONVOLUTIONS}
    every = {n.channels for n in real.nodes if n.kind in CONVOLUTIONS}
    depthwise = {n.channels for n in real.nodes if n.kind == "depthwise"}
    assert lengths == {"tensor": {1}, "depthwise": {1} | depthwise, "channel": every, "scale": every}[granularity]


def test_reported_errors_are_those_of_the_integers(
    real: XGraph, images: list[dict[str, Array]], quantised: QuantisedGraph
) -> None:
    for layer in quantised.layers:
        expected, got = [], []
        for image in images[:3]:
            values = evaluate(quantised.graph, integer_images(quantised.graph, image), "half_up")
            expected.append(evaluate_f32(real, image)[layer.node])
            got.append(to_reals(values[layer.node], layer.radix))
        assert layer.sqnr_db == pytest.approx(sqnr_db(expected, got))


def test_the_search_is_not_worse_than_the_widest_position(
    real: XGraph, images: list[dict[str, Array]], quantised: QuantisedGraph
) -> None:
    """Of the first convolution, whose input is the same: no position of its result has a smaller error."""
    found = {layer.node: layer for layer in quantised.layers}["c1"]
    values = [evaluate_f32(real, image)["c1"] for image in images[:3]]
    node = quantised.graph.by_name()["c1"]
    for radix in range(found.radix - 3, found.radix + 3):
        tried = quantised.graph.with_nodes({"c1": replace(node, radix=radix)})
        made = [evaluate(tried, integer_images(tried, image), "half_up")["c1"] for image in images[:3]]
        assert sqnr_db(values, [to_reals(q, radix) for q in made]) <= found.sqnr_db


def test_positions_by_channel_keep_small_channels() -> None:
    """A depthwise convolution whose channels' weights differ by powers of ten."""
    numbers = np.random.default_rng(7)
    scales = np.array([8, 0.02, 0.5, 0.03, 3, 0.01, 0.1, 0.06], np.float32)
    weights = numbers.uniform(0.5, 1, (8, 3, 3, 1)).astype(np.float32) * scales[:, None, None, None]
    node = XNode("d", "depthwise", ("x",), (1, 12, 12, 8), (3, 3), pads=(1, 1, 1, 1), groups=8)
    nodes = (XNode("x", "input", (), (1, 12, 12, 8)), node)
    graph = XGraph("unequal", nodes, ("d",), {"d": Parameters(weights, np.zeros(8, np.float32))})
    given = [{"x": numbers.standard_normal((1, 12, 12, 8)).astype(np.float32)} for _ in range(2)]

    tensor, depthwise = (quantise(graph, given, "half_up", granularity) for granularity in ("tensor", "depthwise"))

    assert not tensor.graph.parameters["d"].weights[[1, 3, 5]].any()
    assert (np.abs(depthwise.graph.parameters["d"].weights).max(axis=(1, 2, 3)) >= 63).all()
    assert depthwise.layers[-1].sqnr_db >= tensor.layers[-1].sqnr_db


def test_bias_correction_brings_the_means_together(real: XGraph, images: list[dict[str, Array]]) -> None:
    """No layer that reads the input has a greater error; a corrected one's sums have the mean of the f32 ones."""
    plain, corrected = (quantise(real, images[:3], "half_up", correct_bias=on) for on in (False, True))
    errors = [{layer.node: layer.sqnr_db for layer in made.layers} for made in (plain, corrected)]
    nodes = corrected.graph.by_name()
    node, source = nodes["dw"], nodes["c1"]

    assert not any(n.bias_steps for n in plain.graph.nodes)
    assert errors[1]["c1"] >= errors[0]["c1"] and node.bias_steps
    unit = np.ldexp(1.0, -(np.asarray(node.weight_radix) + (source.radix or 0)))
    sums, expected = [], []
    for image in images[:3]:
        x = evaluate(corrected.graph, integer_images(corrected.graph, image), "half_up")["c1"]
        sums.append(convolution_sums(node, corrected.graph.parameters["dw"], x) * unit)
        linear = replace(node, act="", act_args=())
        expected.append(evaluate_node_f32(linear, real.parameters["dw"], [evaluate_f32(real, image)["c1"]]))
    means = [np.mean(each, axis=(0, 1, 2, 3)) for each in (sums, expected)]
    assert (np.abs(means[0] - means[1]) <= unit).all()


def test_weights_of_an_8_bit_file_keep_their_values(real: XGraph, images: list[dict[str, Array]]) -> None:
    """Weights are int8 times any scale of their channel, whose largest is not always 127."""
    numbers, parameters = np.random.default_rng(3), dict(real.parameters)
    for name, p in real.parameters.items():
        integers = numbers.integers(-90, 91, p.weights.shape)
        scales = numbers.uniform(1e-3, 0.05, len(p.weights)).astype(np.float32)
        weights = integers * scales.reshape(-1, *(1,) * (p.weights.ndim - 1))
        parameters[name] = Parameters(weights.astype(np.float32), p.bias)

    made = quantise(replace(real, parameters=parameters), images[:1], "half_up", "scale").graph

    for node in made.nodes:
        if node.name in parameters:
            scale = np.ldexp(node.multipliers, -np.asarray(node.weight_radix))
            kept = made.parameters[node.name].weights * scale.reshape(-1, 1, 1, 1)
            assert np.allclose(kept, parameters[node.name].weights, rtol=1e-4, atol=0)


def test_a_file_has_what_the_reference_needs(real: XGraph, images: list[dict[str, Array]]) -> None:
    """Positions, multipliers and steps of biases make the same integers of the model again."""
    quantised = quantise(real, images[:1], "half_up", "scale")
    nodes = [node for node in quantised.graph.nodes if node.radix is not None]
    assert any(node.bias_steps for node in nodes)
    radices = tuple(NodeRadix(n.name, n.radix or 0, n.weight_radix, n.bias_steps, n.multipliers) for n in nodes)

    again = with_radices(real, radices, "p.elf")

    for name, expected in quantised.graph.parameters.items():
        assert np.array_equal(again.parameters[name].weights, expected.weights)
        assert np.array_equal(again.parameters[name].bias, expected.bias)
    broken = tuple(replace(one, bias_steps=one.bias_steps[1:]) for one in radices)
    with pytest.raises(MavcgError, match=r"p\.elf: c1 has 7 steps of biases; build it again"):
        with_radices(real, broken, "p.elf")


def test_samples_know_the_error_of_the_whole() -> None:
    values = np.random.default_rng(0).standard_normal(4 * (EVENLY + LARGEST)).astype(np.float32)
    whole = Sample(values, np.ones(values.size))

    sampled = Sample.of(values)

    assert sampled.values.size <= EVENLY + LARGEST
    assert sampled.counts.sum() == pytest.approx(values.size)
    assert sampled.best_radix() == whole.best_radix()
    for radix in (3, 5, 7):
        assert sampled.error(radix) == pytest.approx(whole.error(radix), rel=0.1)


@pytest.mark.parametrize("largest,radix", [(0.0, 24), (127.0, 0), (128.0, -1), (1.0, 6), (1e9, -16), (1e-9, 24)])
def test_widest_radix(largest: float, radix: int) -> None:
    assert widest_radix(np.array([largest, -largest / 2])) == radix
    if -16 < radix < 24:
        assert abs(int(to_integers(np.array([largest]), radix)[0])) > 63


def test_wrong_inputs_are_refused(real: XGraph, images: list[dict[str, Array]]) -> None:
    with pytest.raises(MavcgError, match="no calibration inputs"):
        quantise(real, [], "half_up")
    broken = {"image": images[0]["image"] * np.float32("nan")}
    with pytest.raises(MavcgError, match="not finite"):
        quantise(real, [broken], "half_up")


def test_zeros_are_quantised(real: XGraph) -> None:
    """A calibration input without any signal gives a graph that works all the same."""
    zero = {"image": np.zeros((1, 16, 12, 3), np.float32)}

    quantised = quantise(real, [zero], "half_up")

    check_xgraph(quantised.graph)
    assert (
        evaluate(quantised.graph, integer_images(quantised.graph, zero), "half_up")[quantised.graph.outputs[0]].size
        == 5
    )
