"""Gather, GatherND, GatherElements, ScatterND, ScatterElements: indices that are known and those of a run, against
onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx
from tests.conftest import examples

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def save(path: Path, op: str, inputs: dict[str, Any], indices: Any, known: bool = True, **attributes: Any) -> None:
    """A model of one operator, whose inputs are f32; its indices are a constant, or else its last input."""
    value, names = onnx.helper.make_tensor_value_info, list(inputs)
    node = onnx.helper.make_node(op, [names[0], "i", *names[1:]], ["y"], **attributes)
    chosen = [] if known else [value("i", onnx.helper.np_dtype_to_tensor_dtype(indices.dtype), indices.shape)]
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [*(value(n, 1, a.shape) for n, a in inputs.items()), *chosen],
        [value("y", 1, None)],
        [onnx.numpy_helper.from_array(indices, "i")] if known else [],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8), path)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, dict[str, Any], Any, dict[str, Any]]:
    """An operator, its data (and updates), indices of both signs, attributes."""
    op = draw(st.sampled_from(["Gather", "GatherND", "GatherElements", "ScatterND", "ScatterElements"]))
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    data = {"x": rng.standard_normal(shape).astype(np.float32)}
    reduction = draw(st.sampled_from(["none", "add", "mul", "max", "min"]))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    if op == "Gather":
        counts = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
        return (
            op,
            data,
            rng.integers(-shape[axis], shape[axis], counts, draw(st.sampled_from([np.int32, np.int64]))),
            {"axis": axis},
        )
    if op in ("GatherElements", "ScatterElements"):
        part = [draw(st.integers(1, n)) for n in shape]
        part[axis] = draw(st.integers(1, 6))
        indices = rng.integers(-shape[axis], shape[axis], part)
        if op == "GatherElements":
            return op, data, indices, {"axis": axis}
        data["u"] = rng.standard_normal(part).astype(np.float32)
        return op, data, indices, {"axis": axis, "reduction": reduction}
    batch = draw(st.integers(0, len(shape) - 1)) if op == "GatherND" else 0
    depth = draw(st.integers(1, len(shape) - batch))
    counts = (*shape[:batch], *draw(st.lists(st.integers(1, 3), max_size=2)))
    indices = np.stack([rng.integers(-n, n, counts) for n in shape[batch : batch + depth]], axis=-1)
    if op == "GatherND":
        return op, data, indices, {"batch_dims": batch}
    data["u"] = rng.standard_normal((*counts, *shape[depth:])).astype(np.float32)
    return op, data, indices, {"reduction": reduction}


@settings(max_examples=examples(60, 10))
@given(cases(), st.booleans())
def test_results_are_onnxruntimes(case: tuple[str, dict[str, Any], Any, dict[str, Any]], known: bool) -> None:
    op, inputs, indices, attributes = case
    arrays = inputs if known else inputs | {"i": indices}
    with scratch_folder("mavcg-chosen-") as folder:
        path = folder / "m.onnx"
        save(path, op, inputs, indices, known, **attributes)
        graph = import_onnx(path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # so that of updates with one index the last stays
        want = onnxruntime.InferenceSession(str(path), options).run(None, arrays)[0]
    have = run(graph, *(arrays[name] for name in graph.inputs))[0]
    assert have.shape == want.shape
    if attributes.get("reduction") in ("add", "mul"):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize(
    ("op", "indices", "attributes", "words"),
    [
        ("GatherND", [[2, 0]], {}, "indices from 2 to 2 of a dimension with 2 elements"),
        ("GatherND", [[0], [-4]], {"batch_dims": 1}, "indices from -4 to 0 of a dimension with 3 elements"),
        ("GatherND", [[0], [1], [2]], {"batch_dims": 1}, "batch_dims 1 of data [2, 3] and indices [3, 1]"),
        ("GatherElements", [[0, 3]], {"axis": 1}, "indices from 0 to 3 of a dimension with 3 elements"),
    ],
)
def test_indices_outside_are_refused(tmp_path: Path, op: str, indices: Any, attributes: Any, words: str) -> None:
    save(tmp_path / "m.onnx", op, {"x": np.ones((2, 3), np.float32)}, np.array(indices), **attributes)
    with pytest.raises(MavcgError) as refused:
        import_onnx(tmp_path / "m.onnx")
    assert words in str(refused.value)
