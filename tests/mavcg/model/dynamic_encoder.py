"""An encoder like T5's with seeded weights: RMS norms, attention with biases of positions, gated layers."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

VOCABULARY = 200


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, name: str, values: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.array(values), name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        return self.constant(name, (self.random.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32))

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def norm(self, x: str, name: str, width: int) -> str:
        square = self.node("Pow", [x, "two"], name + "square")
        mean = self.node("ReduceMean", [square], name + "mean", axes=[-1], keepdims=1)
        root = self.node("Sqrt", [self.node("Add", [mean, "epsilon"], name + "sum")], name + "root")
        gain = self.constant(name + "gain", (1 + 0.3 * self.random.standard_normal(width)).astype(np.float32))
        return self.node("Mul", [self.node("Div", [x, root], name + "quotient"), gain], name + "norm")

    def attention(self, x: str, name: str, width: int, heads: int) -> str:
        split = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
        q, k, v = (
            self.node(
                "Transpose",
                [
                    self.node(
                        "Reshape",
                        [
                            self.node("MatMul", [x, self.weight(name + key, width, width)], name + key + "product"),
                            "heads",
                        ],
                        name + key + "heads",
                    )
                ],
                name + key + "turned",
                perm=perm,
            )
            for key, perm in split.items()
        )
        scores = self.node("Add", [self.node("MatMul", [q, k], name + "scores"), "positions"], name + "biased")
        mixed = self.node("MatMul", [self.node("Softmax", [scores], name + "softmax", axis=-1), v], name + "mixed")
        joined = self.node("Transpose", [mixed], name + "joined", perm=[0, 2, 1, 3])
        rows = self.node("Reshape", [joined, "rows"], name + "rows")
        return self.node("MatMul", [rows, self.weight(name + "o", width, width)], name + "out")

    def gelu(self, x: str, name: str) -> str:
        cube = self.node("Mul", [self.node("Pow", [x, "three"], name + "cube"), "cubic"], name + "term")
        inner = self.node("Mul", [self.node("Add", [x, cube], name + "polynomial"), "root"], name + "inner")
        gate = self.node("Add", [self.node("Tanh", [inner], name + "tanh"), "one"], name + "gate")
        return self.node("Mul", [self.node("Mul", [x, "half"], name + "half"), gate], name + "gelu")


def write_encoder(path: Path, layers: int, width: int, heads: int, length: int, seed: int = 1) -> None:
    """Write the model, in f32, with input ids [1, length] and output y."""
    made = _Writer(seed)
    numbers = {"two": 2, "three": 3, "half": 0.5, "one": 1, "cubic": 0.044715, "root": (2 / np.pi) ** 0.5}
    for name, number in numbers.items():
        made.constant(name, np.float32(number))
    made.constant("epsilon", np.float32(1e-6))
    made.constant("heads", np.array([1, length, heads, width // heads], np.int64))
    made.constant("rows", np.array([1, length, width], np.int64))
    made.constant("positions", made.random.standard_normal((1, heads, length, length)).astype(np.float32))
    made.constant("embedding", made.random.standard_normal((VOCABULARY, width)).astype(np.float32))
    x = made.node("Gather", ["embedding", "ids"], "embedded")
    for layer in range(layers):
        name = f"layer{layer}_"
        out = made.attention(made.norm(x, name + "first_", width), name, width, heads)
        x = made.node("Add", [x, out], name + "middle")
        normed = made.norm(x, name + "second_", width)
        gate, hidden = (
            made.node("MatMul", [normed, made.weight(name + key, width, 2 * width)], name + key + "product")
            for key in ("gate", "wide")
        )
        hidden = made.node("Mul", [made.gelu(gate, name + "gelu_"), hidden], name + "gated")
        narrow = made.node("MatMul", [hidden, made.weight(name + "narrow", 2 * width, width)], name + "narrowed")
        x = made.node("Add", [x, narrow], name + "end")
    made.norm(x, "last_", width)
    made.nodes[-1].output[0] = "y"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        made.nodes,
        "encoder",
        [value("ids", onnx.TensorProto.INT64, [1, length])],
        [value("y", onnx.TensorProto.FLOAT, [1, length, width])],
        made.weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
