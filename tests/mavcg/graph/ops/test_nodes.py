"""Nodes made complete, types that follow, and what is refused."""

import itertools
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph import Array, Node, TensorType
from mavcg.graph.ops import OPS, infer, make_node
from mavcg.graph.ops.elementwise import ACTIVATIONS
from mavcg.graph.ops.spatial import divisors


def shapes(op: str, *inputs: str, constants: dict[int, Array] | None = None, **attrs: Any) -> str:
    """The types of a node's outputs for inputs of these types, such as f32[1,2]; "" for one that is absent."""
    names = [str(i) if text else "" for i, text in enumerate(inputs)]
    types = {}
    for name, text in zip(names, inputs, strict=True):
        if text:
            dtype, dims = text.rstrip("]").split("[")
            types[name] = TensorType(dtype, tuple(int(d) for d in dims.split(",") if d))
    node = make_node(op, names, ["y"], "here", **attrs)
    return " ".join(map(str, infer(node, types, {str(i): a for i, a in (constants or {}).items()})))


def trees(x: str, nodes: list[list[int]], roots: tuple[int, ...] = (0,)) -> str:
    """The type of the leaves that samples reach in trees with one threshold."""
    tables = (np.array(nodes, np.int32), np.zeros(1, np.float32), np.array(roots, np.int32))
    given = (f"i32[{len(nodes)},4]", "f32[1]", f"i32[{len(roots)}]")
    return shapes("tree_leaves", x, *given, constants=dict(enumerate(tables, 1)))


def test_the_document_names_every_operator() -> None:
    text = (Path(__file__).parents[4] / "docs/design/model-graph.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    named = set(re.findall(r"[a-z_0-9]+", re.sub(r"\([^)]*\)", "", " ".join(rows))))
    assert named >= {name for name in OPS if not name.startswith("q") or name == "quantize"}


def test_make_node_fills_in_sorts_and_turns_values_into_plain_ones() -> None:
    node = make_node("conv2d", ["x", "w"], ["y"], "conv_1", stride=[2, np.int64(2)], pads=np.array([0, 1, 0, 1]))
    assert node.inputs == ("x", "w", "", "") and node.outputs == ("y",) and node.origin == "conv_1"
    assert [name for name, _ in node.attrs] == sorted(OPS["conv2d"].attrs)
    assert node.attr("stride") == (2, 2) and node.attr("pads") == (0, 1, 0, 1) and node.attr("groups") == 1
    assert all(type(v) is int for v in (*node.attr("stride"), *node.attr("pads")))
    clip = make_node("clip", ["x"], ["y"], hi=np.float32(6), lo=0)
    assert (clip.attr("lo"), clip.attr("hi")) == (0.0, 6.0) and type(clip.attr("lo")) is float
    assert make_node("reduce_sum", ["x"], ["y"], axes=[1], keepdims=np.int64(0)).attr("keepdims") is False
    assert make_node("conv2d", ["x", "w"], ["y"], act="clip", act_args=[0, 6]).attr("act_args") == (0.0, 6.0)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("conv", ["x", "w"], {}, r"node 'here' \(conv\): unknown operator conv; perhaps conv2d is meant"),
        ("relu", ["x"], {"alpha": 1.0}, "it has no attribute alpha; it has none"),
        ("softmax", ["x"], {}, "its attribute axis is missing"),
        ("softmax", ["x"], {"axis": None}, "its attribute axis is missing"),
        ("softmax", ["x"], {"axis": 1.0}, r"attribute axis is 1.0; it takes a whole number"),
        ("softmax", ["x"], {"axis": True}, r"attribute axis is True; it takes a whole number"),
        ("clip", ["x"], {"lo": "0"}, "attribute lo is '0'; it takes a number"),
        ("clip", ["x"], {"lo": [0.0]}, r"attribute lo is \[0.0\]; it takes a number"),
        ("conv2d", ["x", "w"], {"stride": [1]}, r"attribute stride is \[1\]; it takes 2 numbers"),
        ("conv2d", ["x", "w"], {"stride": 1}, "attribute stride is 1; it takes whole numbers"),
        ("conv2d", ["x", "w"], {"stride": [1, 2.0]}, "it takes whole numbers"),
        ("reduce_sum", ["x"], {"axes": [0], "keepdims": 2}, "attribute keepdims is 2; it takes true or false"),
        ("cast", ["x"], {"to": "float"}, "attribute to is 'float'; it takes f32, "),
        ("pad", ["x"], {"before": [], "after": [], "mode": "wrap"}, "it takes constant, edge, reflect"),
        ("add", ["x"], {}, "1 inputs; it reads a, b"),
        ("add", ["x", ""], {}, "its input b is missing"),
        ("relu", ["x", "x"], {}, "2 inputs; it reads x"),
        ("concat", [], {"axis": 0}, "inputs; it reads x..."),
        ("concat", ["x", ""], {"axis": 0}, "its input x... is missing"),
    ],
)
def test_make_node_refuses(op: str, inputs: list[str], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(MavcgError, match=message):
        make_node(op, inputs, ["y"], "here", **attrs)


def test_infer_wants_nodes_complete() -> None:
    x = {"x": TensorType("f32", (1,))}
    with pytest.raises(MavcgError, match=r"its attributes are \(\) where \(hi, lo\) in this order are needed"):
        infer(Node("clip", ("x",), ("y",)), x)
    with pytest.raises(MavcgError, match="lo=0 instead of 0.0"):
        infer(Node("clip", ("x",), ("y",), (("hi", 1.0), ("lo", 0))), x)
    with pytest.raises(
        MavcgError, match="2 inputs; it reads x, w, bias, residual, with _ for one that is absent|2 inputs"
    ):
        infer(Node("conv2d", ("x", "x"), ("y",), make_node("conv2d", ["x", "x"], ["y"]).attrs), x)
    with pytest.raises(MavcgError, match=r"a node|node 'y' \(relu\): it reads %z, which no earlier node makes"):
        infer(make_node("relu", ["z"], ["y"]), x)


IMAGE, FILTER = "f32[1,8,9,4]", "f32[6,3,3,4]"
HALF_IMAGE, HALF_FILTER = "f16[1,8,9,4]", "f16[6,3,3,4]"


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (lambda: shapes("conv2d", IMAGE, FILTER), "f32[1,6,7,6]"),
        (lambda: shapes("conv2d", IMAGE, FILTER, "f32[6]", "f32[1,6,7,6]", act="relu"), "f32[1,6,7,6]"),
        (lambda: shapes("conv2d", IMAGE, FILTER, stride=(2, 3), pads=(1, 0, 1, 2)), "f32[1,4,3,6]"),
        (lambda: shapes("conv2d", IMAGE, "f32[8,3,3,1]", groups=4, dilation=(3, 4)), "f32[1,2,1,8]"),
        (lambda: shapes("conv2d", "f16[0,8,9,4]", "f16[6,1,1,4]"), "f16[0,8,9,6]"),
        (lambda: shapes("conv_transpose2d", IMAGE, FILTER, stride=(2, 2)), "f32[1,17,19,6]"),
        (
            lambda: shapes("conv_transpose2d", IMAGE, FILTER, pads=(1, 2, 1, 2), stride=(2, 1), output_pads=(1, 0)),
            "f32[1,16,7,6]",
        ),
        (lambda: shapes("max_pool2d", "i8[1,8,9,4]", kernel=(3, 2), stride=(2, 2)), "i8[1,3,4,4]"),
        (lambda: shapes("avg_pool2d", IMAGE, kernel=(2, 2), pads=(1, 1, 0, 0)), "f32[1,8,9,4]"),
        (lambda: shapes("matmul", "f32[5,1,2,3]", "f32[4,3,7]", "f32[7]", "f32[5,4,2,7]"), "f32[5,4,2,7]"),
        (lambda: shapes("matmul", "f32[2,3]", "f32[7,3]", transpose_b=True), "f32[2,7]"),
        (lambda: shapes("matmul", "i32[2,3]", "i32[3,7]", act="relu"), "i32[2,7]"),
        (lambda: shapes("add", "i64[3,1]", "i64[4]"), "i64[3,4]"),
        (lambda: shapes("add", "f32[]", "f32[0]"), "f32[0]"),
        (lambda: shapes("less", "u8[3,1]", "u8[4]"), "bool[3,4]"),
        (lambda: shapes("equal", "bool[3]", "bool[]"), "bool[3]"),
        (lambda: shapes("xor", "bool[3]", "bool[]"), "bool[3]"),
        (lambda: shapes("where", "bool[2,1,1]", "i8[3,1]", "i8[4]"), "i8[2,3,4]"),
        (lambda: shapes("prelu", IMAGE, "f32[4]"), IMAGE),
        (lambda: shapes("sub_products", "f32[2,3,8]", "f32[2,1,8]", "f32[3,8]", "f32[]"), "f32[2,3,8]"),
        (lambda: shapes("cast", "f32[3]", to="bool"), "bool[3]"),
        (lambda: shapes("bitcast", "f32[3]", to="u32"), "u32[3]"),
        (lambda: shapes("reduce_mean", IMAGE, axes=(1, 2)), "f32[1,1,1,4]"),
        (lambda: shapes("reduce_mean", IMAGE, axes=(1, 2), keepdims=False), "f32[1,4]"),
        (lambda: shapes("reduce_sum", "f32[0,3]", axes=(0,), keepdims=False), "f32[3]"),
        (lambda: shapes("arg_max", IMAGE, axis=3, keepdims=False), "i64[1,8,9]"),
        (lambda: shapes("arg_top", IMAGE, axis=1, count=2), "i64[1,2,9,4]"),
        (lambda: trees("f32[2,3]", [[9, 9, 9, -1]], roots=(0, 0, 0, 0)), "i32[2,4]"),
        (lambda: shapes("cumulative_sum", "i32[2,3]", axis=1, reverse=True), "i32[2,3]"),
        (lambda: shapes("softmax", IMAGE, axis=3), IMAGE),
        (lambda: shapes("layer_norm", IMAGE, "f32[9,4]", "f32[4]", axis=2), IMAGE),
        (lambda: shapes("lrn", IMAGE, size=5), IMAGE),
        (lambda: shapes("attention", "f32[2,5,4,8]", "f32[2,9,2,8]", "f32[2,9,2,3]", scale=1.0), "f32[2,5,4,3]"),
        (
            lambda: shapes("attention", *["f16[1,5,4,8]"] * 3, "f32[1,4,1,5]", "i32[1]", scale=1.0, causal=True),
            "f16[1,5,4,8]",
        ),
        (lambda: shapes("concat", "u8[1,2]", "u8[1,0]", "u8[1,3]", axis=1), "u8[1,5]"),
        (lambda: shapes("slice", "f32[7,8]", starts=(1, 7), stops=(6, -1), steps=(2, -3)), "f32[3,3]"),
        (lambda: shapes("slice", "f32[7,0]", starts=(7, 0), stops=(7, 0), steps=(1, -1)), "f32[0,0]"),
        (lambda: shapes("pad", "f32[2,3]", before=(1, 0), after=(0, 2), mode="reflect"), "f32[3,5]"),
        (lambda: shapes("reshape", "f32[2,3]", shape=(1, 6)), "f32[1,6]"),
        (lambda: shapes("reshape", "f32[1]", shape=()), "f32[]"),
        (lambda: shapes("transpose", "f32[2,3,4]", perm=(2, 0, 1)), "f32[4,2,3]"),
        (lambda: shapes("broadcast_to", "f32[3,1]", shape=(2, 3, 4)), "f32[2,3,4]"),
        (lambda: shapes("gather", "f32[5,6]", "i64[2,2]", axis=1), "f32[5,2,2]"),
        (lambda: shapes("gather", "f32[5,6]", "i32[]", axis=0, constants={1: np.array(-5)}), "f32[6]"),
        (lambda: shapes("resample", IMAGE, "i32[16,2]", "f32[16,2]", axis=1), "f32[1,16,9,4]"),
        (lambda: shapes("quantize", IMAGE, "f32[]", "u8[]", to="u8"), "u8[1,8,9,4]"),
        (lambda: shapes("quantize", IMAGE, "f32[4]", "i8[4]", to="i8", axis=3), "i8[1,8,9,4]"),
        (lambda: shapes("dequantize", "i32[6]", "f32[6]", "i32[6]"), "f32[6]"),
        *(
            (partial(shapes, "conv2d", HALF_IMAGE, HALF_FILTER, bias, "f16[1,6,7,6]"), "f16[1,6,7,6]")
            for bias in ("", "f16[6]", "f32[6]")
        ),
        (lambda: shapes("matmul", "f16[2,3]", "f16[3,4]", "f32[4]", "f16[2,4]"), "f16[2,4]"),
        (lambda: shapes("layer_norm", "f16[2,3]", "f32[3]", "f16[3]", axis=1), "f16[2,3]"),
    ],
)
def test_types_follow(found: Any, wanted: str) -> None:
    assert found() == wanted


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            lambda: shapes("conv2d", IMAGE, "f32[6,3,3,3]"),
            r"node 'here' \(conv2d\): w.* does not go with 4 channels in 1 groups; "
            r"its inputs are f32\[1,8,9,4\], f32\[6,3,3,3\], _, _",
        ),
        (lambda: shapes("conv2d", "f32[8,9,4]", FILTER), "x has 3 dimensions where 4 are needed"),
        (lambda: shapes("conv2d", "i8[1,8,9,4]", FILTER), "x is i8; supported: f32, f16, bf16, f64"),
        (lambda: shapes("conv2d", "f16[1,8,9,4]", FILTER), "x, w differ in type"),
        (lambda: shapes("conv2d", IMAGE, FILTER, "f16[6]"), "bias is f16 where x is f32"),
        (lambda: shapes("conv2d", HALF_IMAGE, HALF_FILTER, "f64[6]"), "bias is f64 where x is f16"),
        (
            lambda: shapes("conv2d", HALF_IMAGE, HALF_FILTER, "f32[6]", "f32[1,6,7,6]"),
            r"residual f32.* where f16\[1,6,7,6\] is needed",
        ),
        (lambda: shapes("matmul", "f16[2,3]", "f16[3,4]", "f64[4]"), "bias is f64 where a is f16"),
        (lambda: shapes("layer_norm", "f64[2,3]", "f32[3]", axis=1), "scale is f32 where x is f64"),
        (lambda: shapes("conv2d", IMAGE, FILTER, "f32[5]"), "bias f32.5. where 6 elements are needed"),
        (lambda: shapes("conv2d", IMAGE, FILTER, "", "f32[6]"), r"residual f32\[6\] where f32\[1,6,7,6\] is needed"),
        (lambda: shapes("conv2d", IMAGE, FILTER, groups=0), "groups is 0; it must be 1 to"),
        (lambda: shapes("conv2d", IMAGE, FILTER, groups=3), "in 3 groups"),
        (lambda: shapes("conv2d", IMAGE, FILTER, stride=(0, 1)), r"stride is \(0, 1\); it must be 1 to"),
        (lambda: shapes("conv2d", IMAGE, FILTER, pads=(0, 0, -1, 0)), "pads .* must be 0 to"),
        (lambda: shapes("conv2d", IMAGE, FILTER, dilation=(4, 1)), "a window of 9 does not fit into a height of 8"),
        (lambda: shapes("conv2d", "f32[1,0,9,4]", FILTER, pads=(9, 9, 9, 9)), "a window of 3 does not fit"),
        (lambda: shapes("conv2d", IMAGE, FILTER, pads=(0, 0, 1 << 30, 0)), "windows along one axis; supported"),
        (lambda: shapes("conv2d", IMAGE, FILTER, act="add"), "act 'add' is not an activation"),
        (lambda: shapes("conv2d", IMAGE, FILTER, act="clip"), "act_args has 0 values where clip takes 2"),
        (lambda: shapes("conv2d", IMAGE, FILTER, act_args=(1,)), "act_args has 1 values where no activation takes 0"),
        (
            lambda: shapes("conv_transpose2d", "f32[1,1,1,4]", "f32[6,1,1,4]", pads=(1, 0, 0, 0)),
            "take all of the height",
        ),
        (lambda: shapes("max_pool2d", IMAGE, kernel=(9, 1)), "a window of 9 does not fit"),
        (lambda: shapes("avg_pool2d", IMAGE, kernel=(2, 2), pads=(2, 0, 0, 0)), "a window that counts no element"),
        (lambda: shapes("matmul", "f32[2,3]", "f32[2,3]"), "rows of a have 3 elements where columns of b have 2"),
        (lambda: shapes("matmul", "f32[3]", "f32[3,1]"), "a has 1 dimensions where at least 2"),
        (lambda: shapes("matmul", "f32[2,2,3]", "f32[3,3,1]"), "shapes that do not broadcast"),
        (lambda: shapes("matmul", "i8[2,3]", "i8[3,1]", act="tanh"), "act tanh of i8"),
        (lambda: shapes("add", "f32[2]", "f32[3]"), r"shapes that do not broadcast; its inputs are f32\[2\], f32\[3\]"),
        (lambda: shapes("add", "f32[2]", "f64[2]"), "a, b differ in type"),
        (lambda: shapes("add", "bool[2]", "bool[2]"), "a is bool"),
        (lambda: shapes("and", "f32[2]", "f32[2]"), "a is f32; supported: bool, i8"),
        (lambda: shapes("less", "bool[2]", "bool[2]"), "a is bool"),
        (lambda: shapes("sqrt", "i32[2]"), "x is i32"),
        (lambda: shapes("neg", "u8[2]"), "x is u8"),
        (lambda: shapes("where", "f32[2]", "f32[2]", "f32[2]"), "condition is f32"),
        (lambda: shapes("add_products", *["f32[4]"] * 3, "f32[3]"), "shapes that do not broadcast"),
        (lambda: shapes("add_products", *["f32[4]"] * 3, "f16[4]"), "a, b, c, d differ in type"),
        (lambda: shapes("prelu", "f32[4]", "f32[2,4]"), r"slope f32\[2,4\] does not broadcast to \[4\]"),
        (lambda: shapes("reduce_sum", IMAGE, axes=(-1,)), r"axes \(-1,\) where dimensions are 0 to 3"),
        (lambda: shapes("reduce_sum", IMAGE, axes=(1, 1)), "each once"),
        (lambda: shapes("reduce_max", "f32[0]", axes=(0,)), "no elements to choose from"),
        (lambda: shapes("arg_max", "f32[0]", axis=0), "no elements to choose from"),
        (lambda: shapes("arg_top", "f32[2,3]", axis=1, count=4), "count 4 of 3 elements"),
        (lambda: shapes("tree_leaves", "f32[2,3]", "i32[1,4]", "f32[1]", "i32[1]"), "must be constants"),
        (lambda: trees("f64[2,3]", [[0, 0, 0, -1]]), "x, thresholds differ in type"),
        (lambda: trees("f32[2,3]", [[0, 0, 0, -1]] * 2), r"must be \[nodes, 4\] and \[nodes\]"),
        (lambda: trees("f32[2,3]", [[0, 1, 0, 0]]), "a root or child is outside of 1 nodes"),
        (lambda: trees("f32[2,3]", [[0, 0, 0, -1]], roots=(1,)), "a root or child is outside of 1 nodes"),
        (lambda: trees("f32[2,3]", [[3, 0, 0, 0]]), "a branch's feature is outside of 3 features"),
        (lambda: trees("f32[2,3]", [[0, 0, 0, 6]]), "a rule is none of -1, 0 to 5, and these plus 8"),
        (lambda: shapes("cumulative_prod", "f32[2]", axis=1), "axis is 1; it must be 0 to 0"),
        (lambda: shapes("softmax", "f32[2]", axis=-1), "axis is -1; it must be 0 to 0"),
        (lambda: shapes("layer_norm", IMAGE, "f32[9]", axis=3), "scale .* does not broadcast"),
        (lambda: shapes("lrn", "f32[]", size=1), "at least 1"),
        (lambda: shapes("attention", *["f32[1,5,4,8]"] * 2, "f32[1,6,4,8]", scale=1.0), "of other lengths"),
        (lambda: shapes("attention", "f32[1,5,4,8]", *["f32[1,5,3,8]"] * 2, scale=1.0), "4 heads .* share 3"),
        (lambda: shapes("attention", "f32[1,5,4,8]", *["f32[1,0,4,8]"] * 2, scale=1.0), "no keys"),
        (lambda: shapes("attention", *["f32[1,5,4,8]"] * 3, "f32[5,5]", scale=1.0), "other than four dimensions"),
        (lambda: shapes("attention", *["f32[1,5,4,8]"] * 3, "f32[1,1,1,4]", scale=1.0), "does not broadcast"),
        (lambda: shapes("attention", *["f32[1,5,4,8]"] * 3, "", "i32[2]", scale=1.0), "must be i32 or i64, .1."),
        (lambda: shapes("concat", "f32[1,2]", "f32[2,2]", axis=1), "parts that differ in more than axis 1"),
        (lambda: shapes("concat", "f32[1,2]", "f32[1]", axis=0), "parts that differ"),
        (lambda: shapes("concat", "f32[1]", "i8[1]", axis=0), "parts that differ"),
        (lambda: shapes("slice", "f32[7]", starts=(0,), stops=(8,), steps=(1,)), "from 0 to 8 by 1: not inside axis 0"),
        (lambda: shapes("slice", "f32[7]", starts=(7,), stops=(-1,), steps=(-1,)), "from 7 to -1 by -1"),
        (lambda: shapes("slice", "f32[7]", starts=(0,), stops=(7,), steps=(0,)), "by 0"),
        (lambda: shapes("slice", "f32[7]", starts=(), stops=(7,), steps=(1,)), "starts has 0 entries for 1 dimensions"),
        (lambda: shapes("pad", "f32[3]", before=(3,), after=(0,), mode="reflect"), "reflect by 3 where axis 0 has 3"),
        (lambda: shapes("pad", "f32[0]", before=(1,), after=(0,), mode="edge"), "edge by 1 where axis 0 has 0"),
        (lambda: shapes("pad", "f32[3]", before=(-1,), after=(0,)), "before"),
        (lambda: shapes("reshape", "f32[3]", shape=(2,)), r"3 elements do not make f32\[2\]"),
        (lambda: shapes("reshape", "f32[3]", shape=(-1,)), "shape"),
        (lambda: shapes("transpose", "f32[3,4]", perm=(0, 0)), r"perm \(0, 0\) is not a permutation of 2 dimensions"),
        (lambda: shapes("broadcast_to", "f32[3]", shape=(3, 1)), "does not broadcast"),
        (lambda: shapes("gather", "f32[3]", "f32[1]"), "indices is f32"),
        (
            lambda: shapes("gather", "f32[3]", "i64[1]", constants={1: np.array([3])}),
            "indices from 3 to 3 where axis 0",
        ),
        (lambda: shapes("gather", "f32[3]", "i64[1]", constants={1: np.array([-4])}), "indices from -4 to -4"),
        (lambda: shapes("resample", "f32[3]", "i32[2,1]", "f32[2,2]", axis=0), "index and weight differ"),
        (
            lambda: shapes("resample", "f32[3]", "i32[1,1]", "f32[1,1]", axis=0, constants={1: np.array([[3]])}),
            "index from 3 to 3",
        ),
        (lambda: shapes("quantize", IMAGE, "f32[]", "i8[]", to="u8"), "zero is not u8"),
        (
            lambda: shapes("quantize", IMAGE, "f32[3]", "u8[3]", to="u8", axis=3),
            "neither a scalar nor as long as axis 3",
        ),
        (lambda: shapes("quantize", IMAGE, "f32[4]", "u8[]", to="u8", axis=3), "scale and zero differ in shape"),
        (lambda: shapes("dequantize", "i8[3]", "f32[]", "u8[]"), "x, zero differ in type"),
    ],
)
def test_types_that_do_not_go_together(found: Any, message: str) -> None:
    with pytest.raises(MavcgError, match=message):
        found()


def test_activations_are_unary_operators_with_numbers_for_parameters() -> None:
    for name, parameters in ACTIVATIONS.items():
        assert OPS[name].inputs == ("x",)
        assert parameters == tuple(OPS[name].attrs)
        assert all(OPS[name].attrs[p].kind in ("float", "bool") for p in parameters)


@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_divisors_count_positions(kernel: int) -> None:
    for stride, dilation, before, after, length in itertools.product(
        (1, 2, 3), (1, 2, 3), (0, 1, 4), (0, 2), (1, 2, 7)
    ):
        for counted_before, counted_after in itertools.product(range(before + 1), range(after + 1)):
            node = make_node(
                "avg_pool2d",
                ["x"],
                ["y"],
                kernel=[1, kernel],
                stride=[1, stride],
                dilation=[1, dilation],
                pads=[0, before, 0, after],
                count_pads=[0, counted_before, 0, counted_after],
            )
            windows = (length + before + after - dilation * (kernel - 1) - 1) // stride + 1
            at = [[w * stride - before + k * dilation for k in range(kernel)] for w in range(windows)]
            wanted = [sum(-counted_before <= p < length + counted_after for p in window) for window in at]
            if windows > 0:
                assert divisors(node, 1, length, windows).tolist() == wanted
