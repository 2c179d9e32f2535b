"""ONNX files of a few nodes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mavcg.graph import Graph

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
Dims = Sequence[int | str | None] | None


def value(name: str, dims: Dims, dtype: int = F32) -> Any:
    return helper.make_tensor_value_info(name, dtype, dims)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[str],
    constants: dict[str, Any] | None = None,
    opset: int = 17,
    **kwargs: Any,
) -> Any:
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    outs = [onnx.ValueInfoProto(name=n) for n in outputs]
    graph = helper.make_graph(nodes, "g", inputs, outs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **kwargs)


Imported = Callable[..., Graph]
RELU = helper.make_node("Relu", ["x"], ["y"])
