"""Whole ONNX files: dimensions, names, constants, data beside the file."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.graph.ops.nodes import verify
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx

onnx = pytest.importorskip("onnx", reason="the importer reads files by the onnx package")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tests.mavcg.importers.onnx_files import F32, RELU, Imported, model, value  # noqa: E402


def test_a_free_first_dimension_is_one(imported: Imported) -> None:
    graph = imported(model([RELU], [value("x", ["batch", 3])], ["y"]))

    assert graph.types["x"] == TensorType("f32", (1, 3))
    assert graph.inputs == ("x",) and graph.outputs == ("y",)


@pytest.mark.parametrize("free", ["height", None, -1, "?"])
def test_another_free_dimension_names_the_shape_to_give(imported: Imported, free: int | str | None) -> None:
    message = model([RELU], [value("x", [None, 3, free, 5])], ["y"])

    name = free if free == "height" else "x.2"
    with pytest.raises(MavcgError, match=rf"dimension 2 \({name}\); give lengths, as --shape x=1x3x<{name}>x5$"):
        imported(message)
    assert imported(message, {"x": (2, 3, 4, 5)}).shape("y") == (2, 3, 4, 5)


def test_free_dimensions_of_all_inputs_are_asked_for_at_once(imported: Imported) -> None:
    nodes = [helper.make_node("Identity", [name], [f"of_{name}"]) for name in ("image", "ids", "mask")]
    inputs = [
        value("image", ["n", 3, "height", "width"]),
        value("ids", ["n", "tokens"]),
        value("mask", [1, None, "tokens"]),
    ]
    message = model(nodes, inputs, ["of_image", "of_ids", "of_mask"])

    with pytest.raises(MavcgError) as asked:
        imported(message)
    assert str(asked.value).partition(": ")[2] == (
        "input 'image' has the free dimensions 2 (height) and 3 (width); "
        "input 'ids' has the free dimension 1 (tokens); input 'mask' has "
        "the free dimensions 1 (mask.1) and 2 (tokens); give lengths, as "
        "--shape image=1x3x<height>x<width> --shape ids=1x<tokens> --shape mask=1x<mask.1>x<tokens>"
    )
    with pytest.raises(MavcgError, match=r"m.onnx: input 'mask' .*, as --shape mask=1x<mask.1>x7$"):
        imported(message, {"image": (1, 3, 5, 5), "ids": (1, 7)})
    assert imported(message, {"image": (1, 3, 5, 5), "ids": (1, 7), "mask": (1, 2, 7)}).shape("of_mask") == (1, 2, 7)


def test_a_named_dimension_is_the_same_everywhere(imported: Imported) -> None:
    nodes = [helper.make_node("Add", ["a", "b"], ["y"])]
    message = model(nodes, [value("a", ["n", "w"]), value("b", ["n", "w"])], ["y"])

    assert imported(message, {"a": (1, 7)}).shape("b") == (1, 7)


@pytest.mark.parametrize(
    ("name", "length"), [("past + n", 12), ("2*n+past * 1", 19), ("n + ", 0), ("m + n", 0), ("3", 0)]
)
def test_a_dimension_that_is_a_sum_of_others(imported: Imported, name: str, length: int) -> None:
    """A sum of names that shapes give is a length; others have to be given. length: 0 for none."""
    nodes = [helper.make_node("Concat", ["a", "b", "c"], ["y"], axis=1)]
    message = model(nodes, [value("a", [1, "n"]), value("b", [1, "past"]), value("c", [1, name])], ["y"])
    shapes = {"a": (1, 7), "b": (1, 5)}

    if length:
        assert imported(message, shapes).shape("c") == (1, length)
    else:
        with pytest.raises(MavcgError, match="free dimension"):
            imported(message, shapes)


def test_the_batch_is_one_wherever_it_stands(imported: Imported) -> None:
    nodes = [helper.make_node("Transpose", ["b"], ["t"]), helper.make_node("Add", ["a", "t"], ["y"])]
    message = model(nodes, [value("a", ["n", 4]), value("b", [4, "n"])], ["y"])

    assert imported(message).shape("b") == (4, 1)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"z": (1, 3)}, "no such input; inputs are x"),
        ({"x": (1, 4)}, "the file says batchx3; only free dimensions can be chosen"),
        ({"x": (1, 3, 1)}, "only free dimensions can be chosen"),
        ({"x": (1 << 40, 3)}, "too large"),
    ],
)
def test_shapes_that_do_not_go_with_the_file(
    imported: Imported, shapes: dict[str, tuple[int, ...]], words: str
) -> None:
    with pytest.raises(MavcgError, match=words):
        imported(model([RELU], [value("x", ["batch", 3])], ["y"]), shapes)


def test_an_input_without_a_shape(imported: Imported) -> None:
    message = model([RELU], [onnx.ValueInfoProto(name="x", type=helper.make_tensor_type_proto(F32, None))], ["y"])

    with pytest.raises(MavcgError, match="input 'x' has no shape in the file; give lengths, as --shape x=<shape>$"):
        imported(message)
    assert imported(message, {"x": (2, 2)}).shape("y") == (2, 2)


# What is known at import


def test_shapes_computed_in_the_file_are_resolved(imported: Imported) -> None:
    """The chain that exporters write for x.view(x.shape[0], -1)."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "axes"], ["batch1"]),
        helper.make_node("Concat", ["batch1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "axes": np.array([0]), "rest": np.array([-1])}
    graph = imported(model(nodes, [value("x", [2, 3, 4])], ["y"], constants))

    assert [n.op for n in graph.nodes] == ["reshape"] and graph.shape("y") == (2, 12)
    assert not graph.constants


def test_weights_made_in_the_file_are_constants(imported: Imported) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["dims"], ["ones"], value=numpy_helper.from_array(np.ones(1, np.float32))),
        helper.make_node("Mul", ["ones", "half"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    constants = {"dims": np.array([3, 2]), "half": np.float32(0.5)}
    graph = imported(model(nodes, [value("x", [1, 3])], ["y"], constants))

    assert [n.op for n in graph.nodes] == ["matmul"]
    np.testing.assert_array_equal(run(graph, np.ones((1, 3), np.float32))[0], [[1.5, 1.5]])


def test_what_no_output_needs_is_not_looked_at(imported: Imported) -> None:
    nodes = [RELU, helper.make_node("Multinomial", ["x"], ["unread"])]

    assert [n.op for n in imported(model(nodes, [value("x", [1, 3])], ["y"])).nodes] == ["relu"]


def test_nodes_out_of_order(imported: Imported) -> None:
    nodes = [helper.make_node("Neg", ["t"], ["y"]), helper.make_node("Relu", ["x"], ["t"])]

    assert [n.op for n in imported(model(nodes, [value("x", [3])], ["y"])).nodes] == ["relu", "neg"]


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_decided_at_import(imported: Imported, taken: bool) -> None:
    def branch(name: str, op: str) -> Any:
        return helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [onnx.ValueInfoProto(name=name)])

    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=branch("a", "Relu"), else_branch=branch("b", "Neg"))]
    graph = imported(model(nodes, [value("x", [3])], ["y"], {"c": np.array(taken)}))

    assert [n.op for n in graph.nodes] == ["relu" if taken else "neg"]


def test_functions_of_the_file(imported: Imported) -> None:
    body = helper.make_node("Elu", ["a"], ["b"])
    body.attribute.append(onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope"))
    function = helper.make_function("mine", "Act", ["a"], ["b"], [body], [helper.make_opsetid("", 17)], ["slope"])
    nodes = [helper.make_node("Act", ["x"], ["y"], domain="mine", slope=0.25)]
    graph = imported(model(nodes, [value("x", [3])], ["y"], functions=[function]))

    assert [(n.op, n.attr("alpha")) for n in graph.nodes] == [("elu", 0.25)]


def test_an_operator_that_onnx_defines_by_others(imported: Imported) -> None:
    """MeanVarianceNormalization has no handler of its own."""
    graph = imported(
        model([helper.make_node("MeanVarianceNormalization", ["x"], ["y"])], [value("x", [2, 3, 4, 5])], ["y"])
    )
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    centred = x - x.mean((0, 2, 3), keepdims=True)

    np.testing.assert_allclose(run(graph, x)[0], centred / x.std((0, 2, 3), keepdims=True), rtol=1e-4, atol=1e-5)


# Names of outputs


def test_outputs_that_are_inputs_constants_or_twice_the_same(imported: Imported) -> None:
    nodes = [
        RELU,
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Identity", ["y"], ["again"]),
        helper.make_node("Identity", ["k"], ["known"]),
    ]
    graph = imported(
        model(nodes, [value("x", [2])], ["y", "same", "again", "known", "x"], {"k": np.array([1.0, 2.0], np.float32)})
    )
    results = run(graph, np.array([-1.0, 3.0], np.float32))

    assert graph.outputs == ("y", "same", "again", "known", "x")
    assert [r.tolist() for r in results] == [[0, 3], [-1, 3], [0, 3], [1, 2], [-1, 3]]


def test_names_that_the_graph_would_give_itself(imported: Imported) -> None:
    """An output called as the builder calls the first relu, made by the second."""
    nodes = [helper.make_node("Relu", ["neg"], ["t"]), helper.make_node("Neg", ["t"], ["relu"])]
    graph = imported(model(nodes, [value("neg", [2])], ["relu"]))

    assert graph.inputs == ("neg",) and graph.outputs == ("relu",)
    np.testing.assert_array_equal(run(graph, np.array([-1.0, 2.0], np.float32))[0], [0, -2])


# External data


def with_external_data(tmp_path: Path, location: str, **changed: str) -> Path:
    message = model(
        [helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [3])], ["y"], {"w": np.arange(3, dtype=np.float32)}
    )
    tensor = message.graph.initializer[0]
    (tmp_path / "w.bin").write_bytes(b"head" + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in ({"location": location, "offset": "4", "length": "12"} | changed).items():
        tensor.external_data.add(key=key, value=text)
    path = tmp_path / "m.onnx"
    path.write_bytes(message.SerializeToString())
    return path


def test_external_data(tmp_path: Path) -> None:
    graph = import_onnx(with_external_data(tmp_path, "w.bin"))

    np.testing.assert_array_equal(run(graph, np.zeros(3, np.float32))[0], [0, 1, 2])


@pytest.mark.parametrize(
    ("location", "changed", "words"),
    [
        ("gone.bin", {}, "is missing; put it beside the model"),
        ("../w.bin", {}, "outside the model's folder"),
        ("/etc/passwd", {}, "outside the model's folder"),
        ("", {}, "without a usable location"),
        ("w.bin", {"offset": "99999999999"}, "lie beyond"),
        ("w.bin", {"offset": "-1"}, "a number of bytes is needed"),
        ("w.bin", {"length": "8"}, "8 bytes where 12 are needed"),
    ],
)
def test_external_data_that_cannot_be_had(tmp_path: Path, location: str, changed: dict[str, str], words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        import_onnx(with_external_data(tmp_path, location, **changed))


@pytest.mark.long
def test_the_light_squeezenet_meets_its_shipped_output() -> None:
    folder = Path(str(importlib.util.find_spec("onnx").submodule_search_locations[0])) / "backend/test/data/light"  # type: ignore[union-attr,index]
    if not (folder / "light_squeezenet.onnx").exists():
        pytest.skip("this onnx package has no light models")
    graph = import_onnx(folder / "light_squeezenet.onnx")
    shape = graph.types[graph.inputs[0]].shape
    ramp = (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32)
    expected = numpy_helper.to_array(TensorProto.FromString((folder / "light_squeezenet_output_0.pb").read_bytes()))

    np.testing.assert_allclose(run(graph, ramp)[0], expected, rtol=1e-3, atol=1e-7)


LARGE = [pytest.param(name, marks=pytest.mark.long) for name in ("bvlc_alexnet", "vgg19", "zfnet512")]


@pytest.mark.parametrize("name", ["densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", *LARGE])
def test_light_models_import(name: str) -> None:
    folder = Path(str(importlib.util.find_spec("onnx").submodule_search_locations[0])) / "backend/test/data/light"  # type: ignore[union-attr,index]
    if not (folder / f"light_{name}.onnx").exists():
        pytest.skip("this onnx package has no light models")
    graph = import_onnx(folder / f"light_{name}.onnx")
    verify(graph)

    assert graph.types[graph.outputs[0]].shape[:2] == (1, 1000)
    # Weights are folded: every convolution reads a constant filter.
    assert all(n.inputs[1] in graph.constants for n in graph.nodes if n.op == "conv2d")


def test_operators_of_an_older_opset_that_are_the_same_today(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    x = np.array([[-1.5, 2], [0, 3]], np.float32)
    steps = (("Abs", "x", "a"), ("Relu", "a", "b"), ("Transpose", "b", "y"))
    nodes = [helper.make_node(op, [read], [made]) for op, read, made in steps]
    path = tmp_path / "m.onnx"
    path.write_bytes(model(nodes, [value("x", [2, 2])], ["y"], opset=6).SerializeToString())
    (have,) = run(import_onnx(path), x)
    assert np.array_equal(have, onnxruntime.InferenceSession(path).run(None, {"x": x})[0])
