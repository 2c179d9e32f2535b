"""Results of onnxruntime for a single operator, to compare bits with."""

import platform
from typing import Any

import pytest


def by_onnxruntime(op: str, x: Any, **attributes: Any) -> Any:
    """Its result on x86, whose sums of f32 in other operators are in vectors of four everywhere."""
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    if platform.machine() != "x86_64":
        pytest.skip("onnxruntime adds in another order on other processors")
    tensors = [onnx.helper.make_tensor_value_info("x", 1, x.shape), onnx.helper.make_tensor_value_info("y", 1, None)]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, ["x"], ["y"], **attributes)], op, tensors[:1], tensors[1:]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    options = onnxruntime.SessionOptions()  # optimised, images are in blocks of channels, with sums of their own
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    (y,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
    return y
