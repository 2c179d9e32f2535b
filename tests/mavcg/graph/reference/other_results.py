"""An operator by the definition here, by ONNX Runtime and by ONNX's reference in Python."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

from mavcg.graph import Array, type_of
from mavcg.graph.ops import make_node
from mavcg.graph.reference import evaluate


def ours(op: str, *arrays: Array | None, wide: bool = False, **attrs: Any) -> Array:
    """One operator's result, as the graph's operator defines it."""
    names = [f"i{i}" if a is not None else "" for i, a in enumerate(arrays)]
    node = make_node(op, names, ["y"], **attrs)
    padded = [*arrays, *[None] * (len(node.inputs) - len(arrays))]
    (result,) = evaluate(node, padded, wide)
    return result


def onnx_model(op: str, arrays: tuple[Array | None, ...], attrs: dict[str, Any], opset: int) -> onnx.ModelProto:
    names = [f"i{i}" if a is not None else "" for i, a in enumerate(arrays)]
    node = onnx.helper.make_node(op, names, ["y"], **attrs)
    inputs = [
        onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, arrays, strict=True)
        if a is not None
    ]
    output = onnx.helper.make_empty_tensor_value_info("y")
    graph = onnx.helper.make_graph([node], "g", inputs, [output])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)


def onnx_runtime(op: str, *arrays: Array | None, opset: int = 20, **attrs: Any) -> Array:
    """The same by ONNX Runtime, in f32."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    model = onnx_model(op, arrays, attrs, opset)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {f"i{i}": a for i, a in enumerate(arrays) if a is not None})[0])


def onnx_python(op: str, *arrays: Array | None, opset: int = 20, **attrs: Any) -> Array:
    """The same by onnx.reference, for types that ONNX Runtime has no kernel for."""
    evaluator: Any = ReferenceEvaluator(onnx_model(op, arrays, attrs, opset))
    return np.asarray(evaluator.run(None, {f"i{i}": a for i, a in enumerate(arrays) if a is not None})[0])


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def f32(values: Any) -> Array:
    return np.array(values, np.float32)


def nchw(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def nhwc(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def close(found: Array, expected: Array, tolerance: float = 1e-5) -> None:
    """Equal shape and type, and equal but for f32's rounding, relative to the largest value."""
    assert type_of(found) == type_of(np.asarray(expected))
    if found.dtype.kind == "f":
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(found[~finite], expected[~finite])
        largest = float(np.abs(expected[finite]).max(initial=1e-3))
        np.testing.assert_allclose(found[finite], expected[finite], rtol=0, atol=tolerance * largest)
    else:
        np.testing.assert_array_equal(found, expected)
