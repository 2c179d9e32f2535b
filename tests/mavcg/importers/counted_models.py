"""ONNX models whose result has a length that a run decides, beside onnxruntime."""

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

Node = Any


def model_of(
    nodes: Sequence[Node], inputs: Mapping[str, Array], outputs: Sequence[str], known: Mapping[str, Array]
) -> Any:
    """A model of these nodes; types of outputs are left to shape inference."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in inputs.items()}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(model)
    del inferred.graph.value_info[:]
    return inferred


def agrees(
    nodes: Sequence[Node], inputs: Mapping[str, Array], outputs: Sequence[str], known: Mapping[str, Array] = {}
) -> list[Array]:
    """Compare a model's outputs with onnxruntime's, in shape, type and every element; return them."""
    model = model_of(nodes, inputs, outputs, known)
    graph = import_model(model, Path("m.onnx"))
    have = graph.present(run(graph, *inputs.values()))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    want = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, dict(inputs))
    for ours, theirs in zip(have, want, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        assert np.array_equal(ours, theirs)
    return list(have)


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> Node:
    return helper.make_node(op, inputs.split(), outputs.split(), name=outputs.split()[0], **attrs)
