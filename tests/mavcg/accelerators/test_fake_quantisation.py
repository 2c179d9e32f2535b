"""Models of 8 bits become f32 ones with the ranges of their integers; what is no pair stays."""

import numpy as np
import pytest

from mavcg.accelerators.fake_quantisation import without_fake_quantisation
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference.evaluate import run

PAIR = """graph g {
  input %x: f32[2]
  const %s: f32[] = {0.5}
  const %z: u8[] = {3}
  %r: f32[2] = softplus(%x)
  %q: u8[2] = quantize(%r, %s, %z) axis=0 to="u8"
  %y: f32[2] = dequantize(%q, %s, %z) axis=0
  %t: f32[2] = tanh(%y)
  return %t
}
"""


def test_a_pair_becomes_its_range() -> None:
    made = without_fake_quantisation(Graph.parse(PAIR))

    assert [node.op for node in made.nodes] == ["softplus", "clip", "tanh"]
    assert made.nodes[1].attr("lo") == -1.5 and made.nodes[1].attr("hi") == 126.0


@pytest.mark.parametrize(
    "old,new",
    [("const %z: u8[] = {3}", "const %z: u8[] = {3}\n  const %o: u8[] = {4}"), ("const %s: f32[] = {0.5}", "")],
)
def test_what_is_no_pair_stays(old: str, new: str) -> None:
    text = PAIR.replace(old, new)
    text = (
        text.replace("dequantize(%q, %s, %z)", "dequantize(%q, %s, %o)")
        if new
        else text.replace("input %x: f32[2]", "input %x: f32[2]\n  input %s: f32[]")
    )
    graph = Graph.parse(text)

    assert [node.op for node in without_fake_quantisation(graph).nodes] == [node.op for node in graph.nodes]


def test_inputs_and_moves_have_no_range_of_their_own() -> None:
    b = GraphBuilder("g")
    x = b.input("x", TensorType("f32", (1, 4, 4, 2)))
    s, z = b.constant(np.float32(0.1)), b.constant(np.int8(0))

    def pair(name: str) -> str:
        return b.add("dequantize", (b.add("quantize", (name, s, z), to="i8"), s, z))

    pooled = pair(b.add("max_pool2d", (pair(x),), kernel=(2, 2), stride=(2, 2)))
    joined = pair(b.add("concat", (pooled, pooled), axis=3))
    graph = b.finish((b.add("sigmoid", (joined,)),))

    made = without_fake_quantisation(graph)

    assert [node.op for node in made.nodes] == ["max_pool2d", "concat", "sigmoid"]
    array = np.random.default_rng(0).standard_normal((1, 4, 4, 2)).astype(np.float32)
    np.testing.assert_allclose(run(made, array)[0], run(graph, array)[0], atol=0.02)


def test_an_output_of_the_graph_stays_one() -> None:
    graph = Graph.parse(PAIR.replace("return %t", "return %y"))
    x = np.array([300.0, -5.0], np.float32)

    made = without_fake_quantisation(graph)

    assert made.outputs == ("y",)
    np.testing.assert_allclose(run(made, x)[0], run(graph, x)[0], atol=0.25)


def test_an_input_of_integers_becomes_a_real_one() -> None:
    b = GraphBuilder("g")
    x = b.input("x", TensorType("i8", (1, 4)))
    s, z = b.constant(np.float32(0.25)), b.constant(np.int8(3))
    graph = b.finish((b.add("sigmoid", (b.add("dequantize", (x, s, z)),)),))

    made = without_fake_quantisation(graph)

    assert made.types["x"] == TensorType("f32", (1, 4))
    integers = np.array([[3, 7, -5, 127]], np.int8)
    reals = ((integers.astype(np.float32)) - 3) * 0.25
    np.testing.assert_array_equal(run(made, reals.astype(np.float32))[0], run(graph, integers)[0])
