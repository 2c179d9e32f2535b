"""An XGraph computes what the graph computes that it was made of; each operator goes where it can be executed."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from mavcg.accelerators.concats import Placement, copied_parts, placements
from mavcg.accelerators.float_reference import arrange_inputs, evaluate_f32
from mavcg.accelerators.load import xgraph_of
from mavcg.accelerators.xgraph import XGraph, operations
from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference.evaluate import run
from tests.mavcg.accelerators.small_network import network
from tests.mavcg.accelerators.xgraph_text import parse_xgraph, text_of

RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module", name="graph")
def made() -> Graph:
    return network()


@pytest.mark.parametrize("dense_on_host", [True, False])
def test_same_results(graph: Graph, dense_on_host: bool) -> None:
    x = RANDOM.standard_normal((1, 3, 16, 12)).astype(np.float32)
    xgraph = xgraph_of(graph, dense_on_host)

    values = evaluate_f32(xgraph, arrange_inputs(xgraph, {"image": x}))

    (expected,) = run(graph, x)
    np.testing.assert_allclose(values[xgraph.outputs[0]].reshape(-1), expected.reshape(-1), rtol=1e-4, atol=1e-6)


def test_operators_go_where_they_can(graph: Graph) -> None:
    xgraph = xgraph_of(graph, dense_on_host=False)

    assert Counter(node.kind for node in xgraph.nodes) == {
        "input": 1,
        "conv": 1,
        "depthwise": 2,
        "eltwise": 2,
        "max_pool": 1,
        "avg_pool": 1,
        "concat": 1,
        "upsample": 1,
        "reorganise": 1,
        "deconv": 1,
        "dense": 1,
        "host": 2,
    }
    assert {node.op for node in xgraph.nodes if node.kind == "host"} == {"sigmoid", "softmax"}
    by_name = xgraph.by_name()
    assert by_name["image"].shape == (1, 16, 12, 3)
    assert by_name["dw"].dilation != (1, 1)
    assert by_name["fc"].kernel == (15, 11)
    assert operations(xgraph, by_name["c1"]) == 2 * 9 * 3 * 8 * 16 * 12


def test_text_round_trip(graph: Graph) -> None:
    xgraph = xgraph_of(graph)
    text = text_of(xgraph)

    again = parse_xgraph(text, xgraph.parameters, xgraph.hosts)

    assert again.nodes == xgraph.nodes
    assert text_of(again) == text


@pytest.mark.parametrize(
    "old,new,message",
    [
        ("xgraph net {", "graph net {", "line 1"),
        ("kernel=[3, 3]", "kernel=[3]", "line 3: kernel"),
        ("kernel=[3, 3]", "kernels=[3, 3]", "line 3"),
        ("shape=[1, 16, 12, 8]", "shape=[1, 16, 12, 9]", "where its inputs give|are needed"),
        ("%c1 = conv(%image)", "%c1 = conv(%picture)", "reads picture"),
        ("%c1 = conv(", "%c1 = convolve(", "kinds are"),
        ("parameters=sha256:", "parameters=sha1:", "is not sha256"),
        ("\n}\n", "\n", "should end the text"),
        ("return %", "return ", "line"),
        ('"relu"', "1", "act=1"),
    ],
)
def test_wrong_text_is_refused(graph: Graph, old: str, new: str, message: str) -> None:
    xgraph = xgraph_of(graph)
    text = text_of(xgraph)
    assert old in text

    with pytest.raises(MavcgError, match=message):
        parse_xgraph(text.replace(old, new, 1), xgraph.parameters, xgraph.hosts)


def test_parameters_are_those_that_were_printed(graph: Graph) -> None:
    xgraph = xgraph_of(graph)
    other = {name: replace(p, bias=p.bias + 1) for name, p in xgraph.parameters.items()}
    for parameters in ({}, other):
        with pytest.raises(MavcgError, match="parameters (of|given for) c1"):
            parse_xgraph(text_of(xgraph), parameters, xgraph.hosts)


def test_any_cut_of_a_text_is_refused(graph: Graph) -> None:
    xgraph = xgraph_of(graph)
    text = text_of(xgraph)
    for end in range(0, len(text), 7):
        with pytest.raises(MavcgError):
            parse_xgraph(text[:end], xgraph.parameters, xgraph.hosts)


def test_inputs_are_checked(graph: Graph) -> None:
    xgraph = xgraph_of(graph)
    for arrays in ({}, {"picture": np.zeros(1)}, {"image": np.zeros((1, 16, 12, 4))}):
        with pytest.raises(MavcgError, match="input"):
            arrange_inputs(xgraph, arrays)


def test_a_graph_without_accelerated_operators_is_refused() -> None:
    b = GraphBuilder("net")
    x = b.input("x", TensorType("f32", (1, 4)))
    with pytest.raises(MavcgError, match="no operator that the accelerator computes"):
        xgraph_of(b.finish((b.add("softmax", (x,), axis=1),)))


def test_parts_of_concats_lie_in_the_outermost() -> None:
    text = """xgraph net {
  %x = input() shape=[1, 4, 4, 2]
  %a = eltwise(%x) shape=[1, 4, 4, 2] op="copy"
  %b = max_pool(%x) shape=[1, 4, 4, 2]
  %inner = concat(%a, %b) shape=[1, 4, 4, 4]
  %outer = concat(%x, %inner, %a) shape=[1, 4, 4, 8]
  return %outer
}
"""
    xgraph: XGraph = parse_xgraph(text)

    placed = placements(xgraph)

    assert placed["inner"] == Placement("outer", 2, 8)
    assert placed["a"] == Placement("outer", 2, 8)
    assert placed["b"] == Placement("outer", 4, 8)
    # An input is not made here, and %a has its place already.
    assert copied_parts(xgraph) == {"inner": (), "outer": (0, 2)}
