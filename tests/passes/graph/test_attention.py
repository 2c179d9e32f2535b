"""Attention found in products of matrices and a softmax."""

from typing import Any

import pytest

from mavcg.passes.graph.attention import fuse_attention
from mavcg.passes.graph.pipeline import optimise

INPUTS = """input %q: f32[1,5,2,4]
        input %k: f32[1,6,2,4]
        input %v: f32[1,6,2,3]
        input %m: f32[1,1,1,6]
        const %c: f32[] = {4.0}
        const %h: f32[1] = {0.5}
        const %one: f32[] = {1.0}
        const %low: f32[] = {-3e38}
        %qh = transpose(%q) perm=[0,2,1,3]
        %vh = transpose(%v) perm=[0,2,1,3]
"""
TURNED = "%kh = transpose(%k) perm=[0,2,3,1]\n%s = matmul(%qh, %kh)\n"
STRAIGHT = "%kh = transpose(%k) perm=[0,2,1,3]\n%s = matmul(%qh, %kh) transpose_b=true\n"
BOTH = """%kh = transpose(%k) perm=[0,2,3,1]
        %qs = mul(%qh, %h)
        %ks = mul(%h, %kh)
        %s = matmul(%qs, %ks)
"""
EXPANDED = """%b = broadcast_to(%m) shape=[1,1,5,6]
        %i = sub(%one, %b)
        %g = greater(%b, %i)
        %f = where(%g, %low, %i)
        %u = add(%s, %f)
"""
FILLED = """%b = broadcast_to(%m) shape=[1,1,5,6]
        %g = greater(%b, %one)
        %u = where(%g, %low, %s)
"""
REST = """%p = softmax(%u) axis=3
        %o = matmul(%p, %vh)
        %y = transpose(%o) perm=[0,2,1,3]
        return %y"""


@pytest.mark.parametrize(
    ("product", "masked"),
    [
        (TURNED, "%t = div(%s, %c)\n%u = add(%t, %m)\n"),
        (TURNED, "%t = mul(%c, %s)\n%u = add(%m, %t)\n"),
        (STRAIGHT, "%u = add(%s, %m)\n"),
        (STRAIGHT, "%u = mul(%s, %c)\n"),
        (BOTH, "%u = add(%s, %m)\n"),
    ],
)
def test_forms_of_exporters(product: str, masked: str, h: Any) -> None:
    graph = h.graph(INPUTS + product + masked + REST)
    after = optimise(fuse_attention(graph))
    assert [node.op for node in after.nodes] == ["attention"]
    h.same(graph, after, relative=1e-5)


@pytest.mark.parametrize(
    "masked",
    ["%u = add(%s, %low)", "%u = where(%sees, %s, %least)", "%t = add(%s, %m)\n%u = where(%hides, %least, %t)"],
)
def test_causal_masks(masked: str, h: Any) -> None:
    """Rows of 3 queries for 4 keys, the last of which sees all of them."""
    text = """input %q: f32[1,3,2,4]
        input %k: f32[1,4,2,4]
        input %v: f32[1,4,2,3]
        input %m: f32[1,1,1,4]
        const %low: f32[1,1,3,4] = {0, 0, -inf, -inf, 0, 0, 0, -inf, 0, 0, 0, 0}
        const %sees: bool[3,4] = {true, true, false, false, true, true, true, false, true, true, true, true}
        const %hides: bool[1,1,3,4] = {false, false, true, true, false, false, false, true, false, false, false, false}
        const %least: f32[] = {-3e38}
        %qh = transpose(%q) perm=[0,2,1,3]
        %vh = transpose(%v) perm=[0,2,1,3]
"""
    graph = h.graph(text + TURNED + masked + "\n" + REST)
    after = optimise(fuse_attention(graph))
    assert [node.op for node in after.nodes] == ["attention"] and after.nodes[0].attr("causal")
    h.same(graph, after, relative=1e-5)


@pytest.mark.parametrize("masked", [EXPANDED, FILLED, FILLED.replace("%low, %s", "%s, %low")])
def test_masks_that_are_the_same_for_all_queries(masked: str, h: Any) -> None:
    graph = h.graph(INPUTS + TURNED + masked + REST)
    after = optimise(fuse_attention(graph))
    assert after.nodes[-1].op == "attention" and "softmax" not in {node.op for node in after.nodes}
    assert max(after.types[node.output].elements for node in after.nodes[:-1]) == 6
    h.same(graph, after, relative=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        TURNED + "%u = div(%c, %s)\n" + REST,
        TURNED + "%t = add(%s, %m)\n%u = mul(%t, %c)\n" + REST,
        TURNED + "%u = add(%s, %m)\n" + REST.replace("axis=3", "axis=2"),
        TURNED + "%u = add(%s, %m)\n" + REST.replace("return %y", "return %y, %p"),
    ],
)
def test_other_forms_stay(text: str, h: Any) -> None:
    graph = h.graph(INPUTS + text)
    assert fuse_attention(graph) == graph
