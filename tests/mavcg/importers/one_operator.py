"""One ONNX operator, built by mavcg and run by onnxruntime."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from mavcg.graph import Array
from mavcg.graph.reference import run
from mavcg.importers.onnx_file import import_model


def model_of(op: str, inputs: Mapping[str, Array], known: Mapping[str, Array], opset: int, **attrs: Any) -> Any:
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in inputs.items()}
    first = next(iter(kinds.values()))
    graph = helper.make_graph(
        [helper.make_node(op, [*inputs, *known], ["y"], name="node", **attrs)],
        "g",
        [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in inputs.items()],
        [helper.make_tensor_value_info("y", first, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def ours(op: str, inputs: Sequence[Array], known: Sequence[Array] = (), opset: int = 17, **attrs: Any) -> Array:
    """The result by the importer and the reference; inputs are those of a run."""
    named = {f"x{n}": array for n, array in enumerate(inputs)}
    constants = {f"c{n}": array for n, array in enumerate(known)}
    model = model_of(op, named, constants, opset, **attrs)
    graph = import_model(model, Path("m.onnx"), {})
    return graph.present(run(graph, *inputs))[0]


def theirs(op: str, inputs: Sequence[Array], known: Sequence[Array] = (), opset: int = 17, **attrs: Any) -> Array:
    named = {f"x{n}": array for n, array in enumerate(inputs)}
    constants = {f"c{n}": array for n, array in enumerate(known)}
    session = onnxruntime.InferenceSession(model_of(op, named, constants, opset, **attrs).SerializeToString())
    made: Array = session.run(None, named)[0]
    return made


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
