"""Writes small_cnn.onnx: a small network for pictures, with weights from a seed: `python make_model.py OUT.onnx`.

It sorts colour pictures into ten classes and was never trained: what it says means nothing, but its layers are those of
networks that do. 1 x 3 x 128 x 128 in, ten probabilities out.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = 10


class Network:
    """Nodes and weights while they are written down; every method gives back the name of the tensor it makes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        """A node with one output, which is named as the node."""
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def draw_weights(self, *shape: int) -> str:
        """Normal weights of a size that keeps a layer's outputs near those of its inputs."""
        spread = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        name = f"weight_{len(self.weights)}"
        array = (self.random.standard_normal(shape) * spread).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def conv(self, x: str, from_ch: int, to_ch: int, size: int, stride: int = 1, groups: int = 1) -> str:
        """A convolution whose picture keeps its size, but for the stride."""
        parameters = [self.draw_weights(to_ch, from_ch // groups, size, size), self.draw_weights(to_ch)]
        around = [size // 2] * 4
        return self.node("Conv", [x, *parameters], strides=[stride] * 2, pads=around, group=groups)

    def constant(self, value: float) -> str:
        """A number."""
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(value, np.float32), name))
        return name


def small_cnn() -> onnx.ModelProto:
    """The network: a stem, an inverted residual, two branches side by side, and a classifier."""
    net = Network()
    six = [net.constant(0.0), net.constant(6.0)]
    x = net.node("Clip", [net.conv("picture", 3, 16, 3, stride=2), *six])
    wide = net.node("Clip", [net.conv(x, 16, 48, 1), *six])
    wide = net.node("Clip", [net.conv(wide, 48, 48, 3, groups=48), *six])
    x = net.node("Add", [net.conv(wide, 48, 16, 1), x])
    x = net.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    branches = [net.node("Relu", [net.conv(x, 16, 32, size)]) for size in (1, 3)]
    x = net.node("Concat", branches, axis=1)
    x = net.node("Relu", [net.conv(x, 64, 64, 3, stride=2)])
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x])])
    x = net.node("Gemm", [x, net.draw_weights(CLASSES, 64), net.draw_weights(CLASSES)], transB=1)
    net.nodes.append(helper.make_node("Softmax", [x], ["probabilities"], name="softmax", axis=1))
    graph = helper.make_graph(
        net.nodes,
        "small_cnn",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, [1, 3, 128, 128])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, CLASSES])],
        net.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(small_cnn().SerializeToString())
