"""Graphs made node by node."""

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.ops.nodes import verify

F32 = TensorType("f32", (1, 4, 4, 2))


def test_a_graph_grows() -> None:
    b = GraphBuilder("g")
    x = b.input("x", F32)
    w = b.constant(np.ones((3, 1, 1, 2), np.float32), "w")
    y = b.add("conv2d", [x, w], origin="conv_1", act="relu")
    y = b.add("mul", [y, b.constant(2.0)])
    y = b.add("mul", [y, b.constant(0.5)], outputs=["scores"])
    graph = b.finish([y])
    verify(graph)
    assert [(n.op, n.output, n.origin) for n in graph.nodes] == [
        ("conv2d", "conv2d", "conv_1"),
        ("mul", "mul", ""),
        ("mul", "scores", ""),
    ]
    assert graph.types["scores"] == TensorType("f32", (1, 4, 4, 3))
    assert sorted(graph.constants) == ["c", "c.1", "w"]
    assert Graph.parse(str(graph), graph.constants) == graph


def test_names_that_are_taken_are_not_given_again() -> None:
    b = GraphBuilder("g")
    x = b.input("relu", F32)
    names = [b.add("relu", [x], outputs=["relu.1"]), b.add("relu", [x]), b.add("relu", [x])]
    assert names == ["relu.1", "relu.2", "relu.3"]
    with pytest.raises(MavcgError, match="the name %relu is taken"):
        b.input("relu", F32)
    with pytest.raises(MavcgError, match="the name %relu.2 is taken"):
        b.add("relu", [x], outputs=["relu.2"])


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1.5, "f32[]"),
        (3, "i64[]"),
        (True, "bool[]"),
        ([1.0, 2.0], "f32[2]"),
        ([[1, 2]], "i64[1,2]"),
        (np.float64(1.5), "f64[]"),
        (np.zeros((2, 0), np.uint8), "u8[2,0]"),
        (np.zeros(3, ">f4"), "f32[3]"),
        (np.asfortranarray(np.ones((2, 3), np.float16)), "f16[2,3]"),
    ],
)
def test_constants(value: object, wanted: str) -> None:
    b = GraphBuilder("g")
    name = b.constant(value)
    array = b.constants[name]
    assert str(b.types[name]) == wanted
    assert array.flags.c_contiguous and not array.flags.writeable
    assert array.dtype.isnative
    np.testing.assert_array_equal(array, np.asarray(value))


def test_a_large_constant_is_not_copied_and_its_owner_may_still_write_to_it() -> None:
    b = GraphBuilder("g")
    mine = np.zeros((10, 10), np.float32)
    kept = b.constants[b.constant(mine)]
    assert np.shares_memory(kept, mine) and mine.flags.writeable and not kept.flags.writeable


def test_axes_may_count_from_the_end() -> None:
    b = GraphBuilder("g")
    x = b.input("x", F32)
    b.add("softmax", [x], axis=-1)
    b.add("reduce_mean", [x], axes=[-1, 1])
    b.add("quantize", [x, b.constant(0.5), b.constant(np.uint8(0))], axis=-3, to="u8")
    assert [n.attr("axis") for n in b.nodes[::2]] == [3, 1]
    assert b.nodes[1].attr("axes") == (1, 3)
    with pytest.raises(MavcgError, match="axis is -1; it must be 0 to 3"):
        b.add("softmax", [x], axis=-5)


def test_what_is_refused_leaves_nothing_behind() -> None:
    b = GraphBuilder("g")
    x = b.input("x", F32)
    before = (dict(b.types), list(b.nodes))
    with pytest.raises(MavcgError, match=r"node 'the_conv' \(conv2d\): .*f32\[1,4,4,2\]"):
        b.add("conv2d", [x, x], origin="the_conv", groups=3)
    with pytest.raises(MavcgError, match="2 outputs named where the operator has 1"):
        b.add_many("relu", [x], outputs=["a", "b"])
    with pytest.raises(MavcgError, match="a constant of type complex128"):
        b.constant(1j)
    with pytest.raises(MavcgError, match="larger than 1 TiB"):
        b.add("broadcast_to", [x], shape=[1 << 31, 1 << 31, 1, 4, 4, 2])
    assert (b.types, b.nodes) == before


def test_outputs_must_be_there() -> None:
    b = GraphBuilder("g")
    b.input("x", F32)
    with pytest.raises(MavcgError, match="no node makes its output %y"):
        b.finish(["y"])
    with pytest.raises(MavcgError, match="no outputs"):
        b.finish([])
