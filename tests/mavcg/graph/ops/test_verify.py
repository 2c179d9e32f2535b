"""Graphs that break a rule are refused, each for what it breaks."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.graph.ops.nodes import verify

GOOD = Graph.parse("""
graph g {
  input %x: f32[2]
  const %c: f32[1] = {2.0}
  %a: f32[2] = mul(%x, %c)
  %b: f32[2] = clip(%a) hi=6.0 lo=0.0 # "relu6"
  return %b
}
""")


def test_a_good_graph_passes() -> None:
    verify(GOOD)


def with_node(at: int, **changed: Any) -> Graph:
    nodes = list(GOOD.nodes)
    nodes[at] = replace(nodes[at], **changed)
    return replace(GOOD, nodes=tuple(nodes))


def with_type(name: str, tensor: TensorType) -> Graph:
    return replace(GOOD, types={**GOOD.types, name: tensor})


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (replace(GOOD, nodes=GOOD.nodes[::-1]), r"node 'relu6' \(clip\): it reads %a, which no earlier node makes"),
        (with_node(1, outputs=("a",)), r"node 'relu6' \(clip\): %a is made twice"),
        (with_node(1, outputs=("x",)), "%x is made twice"),
        (with_node(1, outputs=("",)), "a tensor without a name"),
        (with_node(1, outputs=("b", "e")), "2 outputs where the operator has 1"),
        (with_node(1, op="clap"), "unknown operator clap; perhaps clip is meant"),
        (with_node(1, attrs=(("lo", 0.0),)), r"its attributes are \(lo\) where \(hi, lo\)"),
        (with_node(1, inputs=("q",)), "it reads %q"),
        (with_type("b", TensorType("f32", (3,))), r"%b is declared as f32\[3\] and is f32\[2\]"),
        (with_type("b", TensorType("f16", (2,))), r"%b is declared as f16\[2\] and is f32\[2\]"),
        (with_type("c", TensorType("f32", ())), r"constant %c is declared as f32\[\] and is f32\[1\]"),
        (with_type("x", TensorType("f32", (-1,))), r"%x is f32\[-1\], which is not a tensor type"),
        (with_type("x", TensorType("f33", (1,))), r"%x is f33\[1\], which is not a tensor type"),
        (with_type("x", TensorType("f32", (1 << 40,))), "no tensor may be larger than 1 TiB"),
        (with_type("x", TensorType("f32", (0, 1 << 62))), "no tensor may be larger than 1 TiB"),
        (replace(GOOD, types={"x": GOOD.types["x"]}), "%c has no type"),
        (replace(GOOD, constants={**GOOD.constants, "x": np.zeros(2, np.float32)}), "%x is made twice"),
        (replace(GOOD, inputs=("x", "x")), "%x is made twice"),
        (replace(GOOD, outputs=("z",)), "graph g: no node makes its output %z"),
        (replace(GOOD, outputs=()), "graph g: it has no outputs"),
    ],
)
def test_broken_graphs_are_refused_with_a_reason(graph: Graph, message: str) -> None:
    with pytest.raises(MavcgError, match=message):
        verify(graph)
