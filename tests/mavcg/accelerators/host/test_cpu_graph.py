"""CPU parts as graphs: the same integers as the fixed-point reference, for all kinds of nodes and roundings."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg
from mavcg.accelerators.fixed_point import ROUNDINGS, evaluate
from mavcg.accelerators.host.cpu_graph import cpu_graph
from mavcg.accelerators.host.sums import greatest_product
from mavcg.accelerators.image.host import CpuPart
from mavcg.accelerators.xgraph import Parameters, XGraph, XNode
from mavcg.graph import Array, Graph
from mavcg.graph.reference.evaluate import run
from mavcg.model.model import build_model
from mavcg.model.request import ModelOptions, make_model_request
from tests.mavcg.accelerators.random_networks import random_inputs, random_network

Compute = Callable[[Graph, Sequence[Array]], Sequence[Array]]
MULTIPLIED = (26, 253)  # seeds: products of more than 24 bits, rounded half away and half up


def interpreted(graph: Graph, inputs: Sequence[Array]) -> Sequence[Array]:
    return run(graph, *inputs)


def assert_equal_to_reference(seed: int, compute: Compute = interpreted) -> None:
    """Compute a whole random network as a CPU part."""
    chance = random.Random(seed)
    graph, rounding = random_network(chance), chance.choice(ROUNDINGS)
    if graph.nodes[0].scale is not None:
        return  # operations with an 8-bit file's scales stay on the accelerator
    nodes = tuple(node.name for node in graph.nodes if node.kind != "input")
    part = CpuPart(nodes, tuple(node.name for node in graph.inputs()), nodes)
    images, by_name = random_inputs(graph, seed), graph.by_name()

    expected = evaluate(graph, images, rounding)
    computed = compute(cpu_graph(graph, part, "part", rounding), [images[name] for name in part.inputs])

    for name, values in zip(nodes, computed, strict=True):
        radix = by_name[name].radix
        assert radix is not None
        assert np.array_equal(np.ldexp(values.astype(np.float64), radix), expected[name]), f"seed {seed}, {name}"


def test_random_networks_agree_with_the_reference() -> None:
    for seed in (*range(12), *MULTIPLIED):
        assert_equal_to_reference(seed)


@pytest.mark.parametrize("seed", MULTIPLIED)
def test_libraries_of_parts_multiply_sums_as_the_reference(tmp_path: Path, seed: int) -> None:
    """Products of a sum, a multiplier of 16 bits and a slope do not fit f32: at seed 253 one was a step off."""
    text, library = tmp_path / "part.graph", tmp_path / "libpart.so"

    def built(graph: Graph, inputs: Sequence[Array]) -> Sequence[Array]:
        assert "f64" in str(graph)
        text.write_text(str(graph))
        request, _ = make_model_request(text, str(library), ModelOptions(board="host", max_error=0.0))
        build_model(replace(request, graph=graph), lambda line: None)
        return mavcg.load(library).run(*inputs)

    assert_equal_to_reference(seed, built)


@pytest.mark.parametrize(
    ("changed", "bits"),
    [
        ({}, 15),  # 2 * 64 * 128 + 3
        ({"multipliers": (1 << 15,)}, 15),  # a factor of 2 takes no bit
        ({"multipliers": (0xFFFF,)}, 31),
        ({"act": "leaky", "act_args": (0.1,)}, 18),  # 26 / 256 = 13 * 2^-7
        ({"act": "leaky", "act_args": (0.0,)}, 15),
    ],
)
def test_bits_of_products(changed: Mapping[str, Any], bits: int) -> None:
    source = XNode("x", "input", (), (1, 1, 1, 2), radix=3)
    conv = XNode("c", "conv", ("x",), (1, 1, 1, 1), kernel=(1, 1), radix=0, weight_radix=(4,))
    parameters = Parameters(np.full((1, 1, 1, 2), -64, np.int8), np.array([-3], np.int32))
    graph = XGraph("g", (source, replace(conv, **changed)), ("c",), {"c": parameters})
    assert greatest_product(graph, graph.nodes[1]).bit_length() == bits


@pytest.mark.long
def test_many_random_networks() -> None:
    for seed in range(1000):
        assert_equal_to_reference(seed)
