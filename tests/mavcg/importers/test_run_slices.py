"""Slices whose positions a run brings, beside onnxruntime and LiteRT."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.graph.reference import run
from mavcg.importers.limits import NeedsConstant
from mavcg.importers.onnx_file import import_model
from mavcg.importers.tflite_file import import_tflite
from tests.conftest import examples
from tests.mavcg.importers.counted_models import agrees, model_of, node
from tests.mavcg.importers.tflite.conftest import Writer, litert

X = np.arange(60, dtype=np.float32).reshape(3, 5, 4)
KNOWN = {"axis": np.array([1]), "two": np.array([2]), "zero": np.array([0]), "end": np.array([2**63 - 1])}


@given(st.integers(-7, 7), st.integers(-7, 7), st.sampled_from(["both", "start", "end"]))
@settings(max_examples=examples(300, 25))
def test_pieces_of_which_the_run_decides_the_length(start: int, end: int, which: str) -> None:
    inputs = {"x": X} | ({"s": np.array([start])} if which != "end" else {})
    inputs |= {"e": np.array([end])} if which != "start" else {}
    known = (
        KNOWN | ({"s": np.array([start])} if which == "end" else {}) | ({"e": KNOWN["end"]} if which == "start" else {})
    )
    agrees([node("Slice", "x s e axis", "y"), node("Neg", "y", "z")], inputs, ["y", "z"], known)


@pytest.mark.parametrize("start", [0, 1, 3, -5, -3])
def test_windows_of_a_known_length(start: int) -> None:
    """A position of the run, alone or as part of a list that is joined, cast and reshaped."""
    nodes = [node("Add", "s two", "e"), node("Slice", "x s e axis", "y"), node("ReduceSum", "y axis", "sum")]
    agrees(nodes, {"x": X, "s": np.array([start])}, ["y", "sum"], KNOWN)
    nodes = [
        node("Cast", "s", "long", to=7),
        node("Unsqueeze", "long zero", "column"),
        node("Sub", "long minus", "last"),
        node("Unsqueeze", "last zero", "last_column"),
        node("Concat", "one column", "starts", axis=0),
        node("Concat", "three last_column", "ends", axis=0),
        node("Slice", "x starts ends axes", "y"),
    ]
    known = KNOWN | {"minus": np.array(-2), "one": np.array([1]), "three": np.array([3]), "axes": np.array([0, 1])}
    (made,) = agrees(nodes, {"x": X, "s": np.array(start, np.int32)}, ["y"], known)
    assert made.shape == (2, 2, 4)


@pytest.mark.parametrize("start", [4, -1, -2, -6, 2**63 - 1, -(2**63)])
def test_windows_that_are_not_inside_end_the_run(start: int) -> None:
    nodes = [node("Add", "s two", "e"), node("Slice", "x s e axis", "y")]
    graph = import_model(model_of(nodes, {"x": X, "s": np.array([0])}, ["y"], KNOWN), Path("m.onnx"))
    with pytest.raises(MavcgError, match="of a dimension with"):
        run(graph, X, np.array([start]))


@pytest.mark.parametrize(
    ("ends", "steps", "words"),
    [
        ("s9", "", "a window of 9 of 5 elements"),
        ("e", "two", "steps of 1"),
        ("both", "", "two axes of which only a run"),
    ],
)
def test_other_slices_are_refused_by_name(ends: str, steps: str, words: str) -> None:
    nodes = [node("Add", "s nine", "s9"), node("Slice", f"x s {ends} axis {steps}", "y")]
    inputs: dict[str, Any] = {"x": X, "s": np.array([0]), "e": np.array([3])}
    known = KNOWN | {"nine": np.array([9])}
    if ends == "both":
        nodes = [node("Slice", "x s e axis", "a"), node("Slice", "a s e two", "y")]
    with pytest.raises(NeedsConstant, match=words):
        import_model(model_of(nodes, inputs, ["y"], known), Path("m.onnx"))


def test_a_long_chain_of_additions_is_looked_through_in_part() -> None:
    nodes = [node("Add", f"{'s' if i == 0 else f'a{i}'} two", f"a{i + 1}") for i in range(3000)]
    nodes.append(node("Slice", "x s a3000 axis", "y"))
    graph = import_model(model_of(nodes, {"x": X, "s": np.array([0])}, ["y"], KNOWN), Path("m.onnx"))
    assert graph.present(run(graph, X, np.array([1])))[0].shape == (3, 4, 4)


@pytest.mark.parametrize("begin", [(0, 0, 0), (1, 3, 2)])
def test_boxes_of_tflite(tmp_path: Path, begin: tuple[int, ...]) -> None:
    writer = Writer()
    inputs = [writer.input(X.shape), writer.input((3,), "i32"), writer.constant(np.array([2, 2, 2], np.int32))]
    data = writer.bytes(writer.op("SLICE", inputs, "f32", "SliceOptions"))
    (tmp_path / "m.tflite").write_bytes(data)
    graph, place = import_tflite(tmp_path / "m.tflite"), np.array(begin, np.int32)
    (have,), (want,) = run(graph, X, place), litert(data, [X, place])
    assert have.shape == want.shape and np.array_equal(have, want)
    for wrong in ((2, 0, 0), (0, 4, 0), (0, 0, -1), (-(2**31), 0, 2**31 - 1)):
        with pytest.raises(MavcgError, match="of a dimension with"):
            run(graph, X, np.array(wrong, np.int32))


@pytest.mark.parametrize("begin", [0, 1, 4, 5])
def test_the_rest_of_a_tensor_of_tflite(tmp_path: Path, begin: int) -> None:
    writer = Writer()
    inputs = [writer.input(X.shape), writer.input((3,), "i32"), writer.constant(np.array([2, -1, 2], np.int32))]
    (tmp_path / "m.tflite").write_bytes(writer.bytes(writer.op("SLICE", inputs, "f32", "SliceOptions")))
    graph = import_tflite(tmp_path / "m.tflite")
    (have,) = graph.present(run(graph, X, np.array([0, begin, 1], np.int32)))
    assert np.array_equal(have, X[:2, begin:, 1:3])
    with pytest.raises(MavcgError, match="of a dimension with"):
        run(graph, X, np.array([0, -1, 1], np.int32))
