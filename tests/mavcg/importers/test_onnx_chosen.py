"""GatherND, GatherElements, ScatterND: known indices into data that a run brings, against onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.importers.onnx_file import import_onnx
from mavcg.reference import run

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def save(path: Path, op: str, inputs: dict[str, Any], indices: Any, **attributes: Any) -> None:
    """A model of one operator, whose indices are a constant and whose other inputs (f32) are the model's."""
    value, names = onnx.helper.make_tensor_value_info, list(inputs)
    node = onnx.helper.make_node(op, [names[0], "i", *names[1:]], ["y"], **attributes)
    graph = onnx.helper.make_graph(
        [node], "g", [value(n, 1, a.shape) for n, a in inputs.items()], [value("y", 1, None)],
        [onnx.numpy_helper.from_array(indices, "i")],
    )  # fmt: skip
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 16)], ir_version=8), path)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, dict[str, Any], Any, dict[str, int]]:
    """An operator, its data (and updates), indices of both signs, attributes."""
    op = draw(st.sampled_from(["GatherND", "GatherElements", "ScatterND"]))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    data = {"x": rng.standard_normal(shape).astype(np.float32)}
    if op == "GatherElements":
        axis = draw(st.integers(-len(shape), len(shape) - 1))
        part = [draw(st.integers(1, n)) for n in shape]
        part[axis] = draw(st.integers(1, 6))
        return op, data, rng.integers(-shape[axis], shape[axis], part), {"axis": axis}
    batch = draw(st.integers(0, len(shape) - 1)) if op == "GatherND" else 0
    depth = draw(st.integers(1, len(shape) - batch))
    counts = (*shape[:batch], *draw(st.lists(st.integers(1, 3), max_size=2)))
    indices = np.stack([rng.integers(-n, n, counts) for n in shape[batch : batch + depth]], axis=-1)
    if op == "GatherND":
        return op, data, indices, {"batch_dims": batch}
    data["u"] = rng.standard_normal((*counts, *shape[depth:])).astype(np.float32)
    return op, data, indices, {}


@settings(max_examples=30, deadline=None)
@given(cases())
def test_results_are_onnxruntimes(case: tuple[str, dict[str, Any], Any, dict[str, int]]) -> None:
    op, inputs, indices, attributes = case
    with scratch_folder("mavcg-chosen-") as folder:
        path = folder / "m.onnx"
        save(path, op, inputs, indices, **attributes)
        graph = import_onnx(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # so that of updates with one index the last stays
        want = onnxruntime.InferenceSession(str(path), options).run(None, inputs)[0]
    have = run(graph, *(inputs[name] for name in graph.inputs))[0]
    assert have.shape == want.shape
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize(
    ("op", "indices", "attributes", "words"),
    [
        ("GatherND", [[2, 0]], {}, "an index outside of dimension 0, which has 2 elements"),
        ("GatherND", [[0], [-4]], {"batch_dims": 1}, "an index outside of dimension 1, which has 3 elements"),
        ("GatherND", [[0], [1], [2]], {"batch_dims": 1}, "batch_dims 1 of data [2, 3] and indices [3, 1]"),
        ("GatherElements", [[0, 3]], {"axis": 1}, "indices that are not whole numbers from -3 to 2"),
    ],
)
def test_indices_outside_are_refused(tmp_path: Path, op: str, indices: Any, attributes: Any, words: str) -> None:
    save(tmp_path / "m.onnx", op, {"x": np.ones((2, 3), np.float32)}, np.array(indices), **attributes)
    with pytest.raises(MavcgError) as refused:
        import_onnx(tmp_path / "m.onnx")
    assert words in str(refused.value)
