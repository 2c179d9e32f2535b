"""Runtimes' layers, put down to the file's own nodes; files made plain for converters."""

from pathlib import Path

import numpy as np
import pytest

from bench.peer_layers import OTHER, anchor_of, anchors_of, by_anchor
from bench.peer_models import write_explicit_form

onnx = pytest.importorskip("onnx", reason="the models are made with it")


def saved(path: Path, nodes: list[object], opset: int = 17, batch: int | str = 1) -> Path:
    """A model [batch, 2, 4, 4] -> y with constants w [2, 2, 1, 1] and pads."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    constants = [
        onnx.numpy_helper.from_array(np.arange(4, dtype=np.float32).reshape(2, 2, 1, 1), "w"),
        onnx.numpy_helper.from_array(np.array([0, 0, 1, 0, 0, 0, 1, 2]), "amounts"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", kind, [batch, 2, 4, 4])],
        [helper.make_tensor_value_info("y", kind, None)],
        constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def conv(source: str, target: str, name: str) -> object:
    return onnx.helper.make_node("Conv", [source, "w"], [target], name, kernel_shape=[1, 1])


def test_what_is_fused_belongs_to_its_convolution(tmp_path: Path) -> None:
    make = onnx.helper.make_node
    model = saved(
        tmp_path / "a.onnx",
        [
            conv("x", "a", "first"),
            make("Relu", ["a"], ["b"], "relu"),
            conv("b", "c", "second"),
            make("Add", ["c", "b"], ["d"], "sum"),
            make("MaxPool", ["d"], ["y"], "pool", kernel_shape=[2, 2]),
        ],
    )
    anchors = anchors_of(model)

    assert list(anchors.what) == ["first", "second", "pool"]
    assert anchors.what["first"] == "Conv 1x1 2x4x4 -> 2x4x4"
    assert anchor_of("b_nchwc", anchors.where) == "first"  # onnxruntime: the last tensor
    assert anchor_of("second/WithoutBiases", anchors.where) == "second"  # OpenVINO: the first node
    assert anchor_of("second/WithoutBiases/DequantizationMultiply", anchors.where) == "second"
    assert anchor_of("fused first", anchors.where) == "first"
    assert anchor_of("x_abcd_acdb_first/WithoutBiases", anchors.where) == OTHER
    assert anchor_of("d_nchwc", anchors.where) == "second"  # a sum is fused into the later convolution
    assert anchor_of("ReorderOutput_token_7", anchors.where) == OTHER
    layers = [{"name": n, "ms": ms} for n, ms in (("first", 1.0), ("relu", 0.25), ("pool", 2.0), ("x_abcd_acdb", 0.5))]
    assert by_anchor(layers, anchors) == {"first": 1.25, "pool": 2.0, OTHER: 0.5}


def test_plain_files(tmp_path: Path) -> None:
    make = onnx.helper.make_node
    old = saved(tmp_path / "old.onnx", [make("Softmax", ["x"], ["y"])], opset=9, batch="N")
    (tmp_path / "made").mkdir()
    write_explicit_form(old, tmp_path / "made")

    model = onnx.load(tmp_path / "made" / "plain.onnx")
    assert [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [1, 2, 4, 4]
    assert [(a.name, a.i) for a in model.graph.node[0].attribute] == [("axis", 1)]


def test_padding_is_folded_where_shapes_are_computed(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime", reason="it folds shapes")
    make = onnx.helper.make_node
    model = saved(
        tmp_path / "a.onnx",
        [
            make("Shape", ["x"], ["s"]),
            make("Reshape", ["x", "s"], ["r"]),
            make("Pad", ["r", "amounts"], ["p"], mode="constant"),
            conv("p", "y", "conv"),
        ],
    )
    (tmp_path / "made").mkdir()
    write_explicit_form(model, tmp_path / "made")

    plain = onnx.load(tmp_path / "made" / "plain.onnx")
    assert "Pad" not in [node.op_type for node in plain.graph.node]
    (node,) = [node for node in plain.graph.node if node.op_type == "Conv"]
    assert next(list(a.ints) for a in node.attribute if a.name == "pads") == [1, 0, 1, 2]
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype(np.float32)
    before, after = (ort.InferenceSession(str(p)).run(None, {"x": x})[0] for p in (model, tmp_path / "made/plain.onnx"))
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(
    ("pads", "counted", "op"),
    [
        ([0, 0, 1, 1], 0, "GlobalAveragePool"),
        ([0, 0, 1, 1], 1, "AveragePool"),
        ([1, 1, 0, 0], 0, "GlobalAveragePool"),
    ],
)
def test_means_of_whole_images_have_a_name(tmp_path: Path, pads: list[int], counted: int, op: str) -> None:
    pool = onnx.helper.make_node("AveragePool", ["c"], ["p"], kernel_shape=[5, 5], pads=pads, count_include_pad=counted)
    model = saved(tmp_path / "a.onnx", [conv("x", "c", "conv"), pool, onnx.helper.make_node("Relu", ["p"], ["y"])])
    (tmp_path / "made").mkdir()
    write_explicit_form(model, tmp_path / "made")

    assert [node.op_type for node in onnx.load(tmp_path / "made" / "plain.onnx").graph.node] == ["Conv", op, "Relu"]
