"""What a file says of names and shapes; real models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph.reference import run


def test_inputs_and_outputs_carry_the_files_names(writer: Any, check: Any) -> None:
    a, b = writer.input((2, 3), name="serving:0;x"), writer.input((3,), name="neg")
    total = writer.op("ADD", [a, b], options="AddOptions")
    negative = writer.op("NEG", [total])
    writer.graph.tensors[total].name, writer.graph.tensors[negative].name = "add", "Identity"
    graph = check.agrees(writer.bytes(negative, total))
    assert (graph.inputs, graph.outputs) == (("serving:0;x", "neg"), ("Identity", "add"))
    assert [n.origin for n in graph.nodes] == ["0:add", "1:Identity"]


def test_names_that_come_twice_or_not_at_all(writer: Any, check: Any) -> None:
    a, b = writer.input((2,), name="x"), writer.input((2,), name="x")
    y = writer.op("SUB", [a, b], options="SubOptions")
    writer.graph.tensors[y].name = ""
    graph = check.load(writer.bytes(y, y))
    assert (graph.inputs, graph.outputs) == (("x", "x.1"), ("output_2", "output_2.1"))
    outputs = run(graph, np.array([5, 6], np.float32), np.array([1, 3], np.float32))
    assert [f.tolist() for f in outputs] == [[4, 3], [4, 3]]


def test_an_output_that_is_an_input_and_one_that_is_a_constant(writer: Any, check: Any) -> None:
    x = writer.input((2,), name="x")
    graph = check.load(writer.bytes(x, writer.constant([1.5, 2.5])))
    assert graph.outputs[0] == "x"
    assert [f.tolist() for f in run(graph, np.array([5, 6], np.float32))] == [[5, 6], [1.5, 2.5]]


def free(m: Any, shape: list[int], signature: list[int]) -> bytes:
    x = m.input(shape, name="x")
    m.graph.tensors[x].shapeSignature = signature
    flat = m.op("RESHAPE", [x, m.constant([-1, 3])], options="ReshapeOptions")
    return bytes(m.bytes(m.op("NEG", [flat])))


def test_a_free_batch_is_1_or_given(writer: Any, check: Any) -> None:
    data = free(writer, [1, 2, 3], [-1, 2, 3])
    assert check.load(data).shape("x") == (1, 2, 3)
    graph = check.load(data, {"x": (4, 2, 3)})
    assert graph.shape(graph.outputs[0]) == (8, 3)


def test_other_free_dimensions_must_be_given(writer: Any, check: Any) -> None:
    data = free(writer, [1, 1, 3], [-1, -1, 3])
    with pytest.raises(MavcgError, match=r"'x' has the free dimension 1 \(x.1\); give lengths, as --shape x=1x<x.1>x3"):
        check.load(data)
    assert check.load(data, {"x": (1, 7, 3)}).shape("x") == (1, 7, 3)


@pytest.mark.parametrize(
    ("shapes", "word"),
    [
        ({"y": (1, 2, 3)}, "no such input; inputs are x"),
        ({"x": (1, 2)}, "3 dimensions"),
        ({"x": (1, -2, 3)}, "negative"),
        ({"x": (1, 2, 4)}, "RESHAPE"),
        ({"x": (1 << 20, 1 << 20, 3)}, "at most"),
    ],
)
def test_shapes_that_do_not_fit(writer: Any, check: Any, shapes: Any, word: str) -> None:
    with pytest.raises(MavcgError, match=word):
        check.load(free(writer, [1, 2, 3], [-1, 2, 3]), shapes)


def test_shapes_computed_from_shapes_are_known(writer: Any, check: Any) -> None:
    """As converters write a reshape that keeps a free batch: SHAPE, STRIDED_SLICE, PACK, RESHAPE."""
    x = writer.input((2, 3, 4))
    shape = writer.op("SHAPE", [x], "i32", "ShapeOptions", outType=2)
    masks = {"options": "StridedSliceOptions", "shrinkAxisMask": 1}
    batch = writer.op("STRIDED_SLICE", [shape, *map(writer.constant, ([0], [1], [1]))], "i32", **masks)
    required = writer.op(
        "PACK", [batch, writer.constant(6), writer.constant(2)], "i32", "PackOptions", valuesCount=3, axis=0
    )
    graph = check.agrees(writer.bytes(writer.op("RESHAPE", [x, required], options="ReshapeOptions")))
    assert [n.op for n in graph.nodes] == ["reshape"] and graph.shape(graph.outputs[0]) == (2, 6, 2)


def test_weights_lie_where_the_file_has_them(writer: Any, check: Any) -> None:
    """Constants are views of the file's bytes, not copies: a model of a gigabyte does not become two."""
    c = writer.constant(np.arange(1000.0))
    graph = check.load(writer.bytes(writer.op("ADD", [writer.input((1000,)), c], options="AddOptions")))
    (array,) = graph.constants.values()
    assert not array.flags.owndata and not array.flags.writeable


REAL = ["blazeface", "face_landmark", "hand_landmark"]


@pytest.mark.parametrize("name", [REAL[0], *(pytest.param(n, marks=pytest.mark.long) for n in REAL[1:])])
def test_real_models_agree_with_litert(name: str, check: Any) -> None:
    models = pytest.importorskip("bench.models", reason="bench/models.py takes the models from their wheels")
    try:
        path: Path = models.model_path(name, fetch=False)
    except MavcgError as error:
        pytest.skip(str(error))
    check.agrees(path.read_bytes(), low=-1.0, high=1.0)
