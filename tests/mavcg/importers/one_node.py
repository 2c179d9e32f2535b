"""Models of one ONNX operator, computed by the definitions in NumPy and by onnxruntime."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.graph import Array
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_onnx

NUMBERS = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float64": 11,
}


def save(
    path: Path,
    op: str,
    inputs: Mapping[str, Array],
    outputs: Sequence[tuple[str, str]],
    opset: int,
    known: Mapping[str, Array] | None = None,
    domain: str = "",
    **attributes: Any,
) -> Path:
    """Write a model of one node. outputs: (name, NumPy's name of the type; "" for one that is absent).

    known: inputs that the file has. An input whose name begins with "no" is absent. opset: of ONNX.
    """
    onnx = pytest.importorskip("onnx")
    helper, info = onnx.helper, onnx.helper.make_tensor_value_info
    known = known or {}
    names = ["" if name.startswith("no") else name for name in (*inputs, *known)]
    made = [name if type else "" for name, type in outputs]
    node = helper.make_node(op, names, made, "the_node", domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [info(name, NUMBERS[str(array.dtype)], array.shape) for name, array in inputs.items() if name in names],
        [info(name, NUMBERS[type], None) for name, type in outputs if type],
        [onnx.numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    imports = [
        helper.make_opsetid("", opset),
        *([helper.make_opsetid(domain, 3 if domain == "ai.onnx.ml" else 1)] if domain else []),
    ]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


def both(path: Path, *arrays: Array) -> tuple[Sequence[Array], Sequence[Array]]:
    """Return (results by the definitions in NumPy, onnxruntime's)."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    expected = session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)})
    graph = import_onnx(path)
    return graph.present(run(graph, *arrays)), expected


def assert_agrees(path: Path, *arrays: Array, tolerance: float = 2e-5) -> Sequence[Array]:
    """Compare results with onnxruntime's, and return them."""
    computed, expected = both(path, *arrays)
    for have, want in zip(computed, expected, strict=True):
        assert have.dtype == want.dtype and have.shape == want.shape
        np.testing.assert_allclose(have, want, tolerance, tolerance)
    return computed
