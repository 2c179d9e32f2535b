"""ONNX files that are refused: operators that are not there, shapes only a run would tell, models that are wrong."""

import sys
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.importers.limits import NeedsConstant, Unsupported, UnsupportedOp

onnx = pytest.importorskip("onnx", reason="the importer reads files by the onnx package")
from onnx import TensorProto, helper  # noqa: E402

from tests.mavcg.importers.onnx_files import F32, I64, RELU, Imported, model, value  # noqa: E402


def test_an_unsupported_operator_is_named_with_what_there_is(imported: Imported) -> None:
    nodes = [RELU, helper.make_node("Multinomial", ["y"], ["z"], name="crop")]

    with pytest.raises(
        UnsupportedOp,
        match=r"node 'crop' \(Multinomial\): this operator is not supported; `mavcg build --operators` lists",
    ):
        imported(model(nodes, [value("x", [1, 3])], ["z"]))


def test_three_spatial_dimensions(imported: Imported) -> None:
    nodes = [helper.make_node("ConvInteger", ["x", "w"], ["y"], name="deep")]
    weights = {"w": np.ones((1, 1, 2, 2, 2), np.int8)}
    message = model(nodes, [value("x", [1, 1, 4, 4, 4], TensorProto.INT8)], ["y"], weights)

    with pytest.raises(UnsupportedOp, match=r"node 'deep' \(ConvInteger\): 3 spatial dimensions.*supported: 1 or 2"):
        imported(message)


def test_a_shape_that_only_a_run_would_tell(imported: Imported) -> None:
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"], name="r")]

    with pytest.raises(
        NeedsConstant, match=r"node 'r' \(Reshape\): its input shape \(%s\) is known only when"
    ) as caught:
        imported(model(nodes, [value("x", [4]), value("s", [2], I64)], ["y"]))
    assert caught.value.tensor == "s"


HUGE = np.array([1 << 20, 1 << 20])


BAD: list[tuple[str, Any, str]] = [
    (
        "cycle",
        model(
            [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"])],
            [value("x", [1])],
            ["b"],
        ),
        "a cycle",
    ),
    ("own result", model([helper.make_node("Add", ["x", "y"], ["y"])], [value("x", [1])], ["y"]), "a cycle"),
    (
        "missing",
        model([helper.make_node("Add", ["x", "b"], ["y"])], [value("x", [1])], ["y"]),
        "reads %b, which no input",
    ),
    ("twice", model([RELU, RELU], [value("x", [1])], ["y"]), "makes %y, which another node makes too"),
    ("no outputs", model([RELU], [value("x", [1])], []), "no outputs"),
    ("unmade output", model([RELU], [value("x", [1])], ["z"]), "no node makes the output %z"),
    (
        "broadcast",
        model([helper.make_node("Add", ["x", "c"], ["y"])], [value("x", [2])], ["y"], {"c": np.ones(3, np.float32)}),
        "broadcast",
    ),
    (
        "rank",
        model([helper.make_node("Conv", ["x", "w"], ["y"])], [value("x", [2])], ["y"], {"w": np.ones(3, np.float32)}),
        "spatial dimensions are needed",
    ),
    ("missing input", model([helper.make_node("Add", ["x"], ["y"])], [value("x", [2])], ["y"]), "input 1 is missing"),
    (
        "attribute kind",
        model([helper.make_node("Softmax", ["x"], ["y"], axis="a")], [value("x", [2])], ["y"]),
        "axis is not a whole number",
    ),
    ("axis", model([helper.make_node("Softmax", ["x"], ["y"], axis=5)], [value("x", [2])], ["y"]), "axis 5"),
    ("text", model([RELU], [value("x", [2], TensorProto.STRING)], ["y"]), "elements of type string"),
    ("huge constant", model([helper.make_node("ConstantOfShape", ["s"], ["y"])], [], ["y"], {"s": HUGE}), "at most"),
    (
        "huge range",
        model(
            [helper.make_node("Range", ["a", "b", "c"], ["y"])],
            [],
            ["y"],
            {"a": np.int64(0), "b": np.int64(1 << 60), "c": np.int64(1)},
        ),
        "at most",
    ),
    (
        "huge expand",
        model([helper.make_node("Expand", ["c", "s"], ["y"])], [], ["y"], {"c": np.float32(1), "s": HUGE}),
        "at most",
    ),
    (
        "huge tile",
        model([helper.make_node("Tile", ["x", "s"], ["y"])], [value("x", [1, 1])], ["y"], {"s": HUGE}),
        "at most|larger than",
    ),
    ("huge input", model([RELU], [value("x", [1 << 20, 1 << 20])], ["y"]), "too large"),
    (
        "huge pads",
        model(
            [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], pads=[1 << 40] * 4)],
            [value("x", [1, 1, 4, 4])],
            ["y"],
        ),
        "pads",
    ),
    (
        "huge scale",
        model(
            [helper.make_node("Resize", ["x", "", "s"], ["y"])],
            [value("x", [1, 1, 4, 4])],
            ["y"],
            {"s": np.array([1, 1, 1e30, 1], np.float32)},
        ),
        "scales",
    ),
    (
        "random numbers",
        model([helper.make_node("RandomNormalLike", ["x"], ["y"])], [value("x", [1])], ["y"]),
        "this operator is not supported",
    ),
    (
        "old",
        model([RELU], [value("x", [2])], ["y"], opset=5),
        "opset 5, of which Relu is another operator since; at least 7",
    ),
    ("not a model", b"\x00garbage" * 20, "is not an ONNX model"),
    ("empty", b"", "no graph"),
]


@pytest.mark.parametrize(("message", "words"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_models_are_one_clear_line(imported: Imported, message: Any, words: str) -> None:
    with pytest.raises(MavcgError, match=words) as caught:
        imported(message)
    assert "m.onnx: " in str(caught.value) and "\n" not in str(caught.value)


def test_a_tensor_whose_bytes_do_not_fit_its_dims(imported: Imported) -> None:
    message = model(
        [helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [3])], ["y"], {"w": np.ones(3, np.float32)}
    )
    message.graph.initializer[0].dims[0] = 1 << 30

    with pytest.raises(MavcgError, match="12 bytes of data where f32"):
        imported(message)


def test_a_function_that_calls_itself(imported: Imported) -> None:
    body = helper.make_node("F", ["a"], ["b"], domain="mine")
    function = helper.make_function("mine", "F", ["a"], ["b"], [body], [helper.make_opsetid("mine", 1)])
    nodes = [helper.make_node("F", ["x"], ["y"], domain="mine")]

    with pytest.raises(MavcgError, match="are nested more than"):
        imported(model(nodes, [value("x", [3])], ["y"], functions=[function]))


def test_sequences_are_unsupported(imported: Imported) -> None:
    info = helper.make_value_info("x", helper.make_sequence_type_proto(helper.make_tensor_type_proto(F32, [1])))

    with pytest.raises(Unsupported, match="is a sequence"):
        imported(model([RELU], [info], ["y"]))


def test_names_that_are_not_text(imported: Imported) -> None:
    data = model([RELU], [value("x", [3])], ["y"]).SerializeToString().replace(b"Relu", b"R\xffl\xfe")

    with pytest.raises(MavcgError, match="is not UTF-8"):
        imported(data)


def test_without_the_onnx_package(imported: Imported, monkeypatch: pytest.MonkeyPatch) -> None:
    message = model([RELU], [value("x", [3])], ["y"])
    monkeypatch.setitem(sys.modules, "onnx", None)

    with pytest.raises(MavcgError, match=r"pip install mavcg\[models\]"):
        imported(message)
