"""An ONNX model with any number of images, built whole or in parts, and the comparison of its results."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx


def make_model(path: Path, whole: bool) -> None:
    """A convolution, a reshape to rows whose number is computed from the input's shape, a product; of not `whole`
    networks a sequence, which mavcg has not, and the shape of an inner tensor as a result."""
    rng = np.random.default_rng(0)
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        node("Conv", ["x", "w1"], ["a"], name="first", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("Shape", ["b"], ["b_shape"]),
        node("Gather", ["b_shape", "zero"], ["batch"]),
        node("Concat", ["batch", "rest"], ["rows"], axis=0),
        node("Reshape", ["b", "rows"], ["flat"]),
        node("MatMul", ["flat", "w2"], ["p"]),
    ]
    inputs, outputs = [value("x", 1, ["N", 3, 8, 8])], [value("y", 1, ["N", 5])]
    if whole:
        nodes.append(node("Relu", ["p"], ["y"]))
    else:
        nodes += [node("Det", ["m"], ["d"]), node("Add", ["p", "d"], ["q"])]
        nodes += [node("SequenceConstruct", ["q"], ["s"]), node("SequenceAt", ["s", "first"], ["y"])]
        inputs.append(value("m", 1, [3, 3]))
        outputs.append(value("b_shape", 7, [4]))
    arrays = {
        "w1": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "zero": np.array([0]),
        "first": np.array(0),
        "rest": np.array([-1]),
        "w2": rng.standard_normal((256, 5)).astype(np.float32),
    }
    initializers = [onnx.numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, initializers)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def near(have: Any, want: Any) -> bool:
    return bool(have.shape == want.shape and np.abs(have - want).max() <= 1e-5 * np.abs(want).max())
