"""Networks that no wheel ships: their public topology with seeded random weights, as ONNX."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

OPSET = 17
# Output channels and stride of each depthwise separable block: Howard et al., "MobileNets: Efficient Convolutional
# Neural Networks for Mobile Vision Applications", table 1.
MOBILENET_V1 = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1),
)  # fmt: skip


class _Builder:
    """Nodes and drawn weights of one chain of layers."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(1)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.last = "input"

    def add(self, op: str, *constants: Any, **attributes: Any) -> None:
        """One more node: it reads the last one and constants."""
        from onnx import helper, numpy_helper

        name = f"{op.lower()}_{len(self.nodes)}"
        inputs = [self.last]
        for number, array in enumerate(constants):
            inputs.append(f"{name}_{number}")
            self.weights.append(numpy_helper.from_array(array, inputs[-1]))
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        self.last = name

    def conv(self, in_ch: int, out_ch: int, kernel: int, stride: int, groups: int = 1) -> None:
        """Convolution and ReLU6; weights keep the size of activations (He et al., 2015). Batch norm is folded in."""
        shape = (out_ch, in_ch // groups, kernel, kernel)
        weights = np.sqrt(2 / np.prod(shape[1:])) * self.random.standard_normal(shape)
        bias = 0.1 * self.random.standard_normal(out_ch)
        self.add(
            "Conv", weights.astype(np.float32), bias.astype(np.float32), kernel_shape=[kernel, kernel],
            strides=[stride, stride], pads=[kernel // 2] * 4, group=groups,
        )  # fmt: skip
        self.add("Clip", np.float32(0), np.float32(6))


def mobilenet_v1() -> "onnx.ModelProto":
    """MobileNet v1, width 1, [1, 3, 224, 224] -> [1, 1000]; padded evenly."""
    from onnx import TensorProto, helper

    net = _Builder()
    net.conv(3, 32, 3, 2)
    in_ch = 32
    for out_ch, stride in MOBILENET_V1:
        net.conv(in_ch, in_ch, 3, stride, in_ch)
        net.conv(in_ch, out_ch, 1, 1)
        in_ch = out_ch
    net.add("GlobalAveragePool")
    net.add("Flatten")
    weights = np.sqrt(4 / in_ch) * net.random.standard_normal((in_ch, 1000))  # scores that softmax leaves apart
    net.add("Gemm", weights.astype(np.float32), np.zeros(1000, np.float32))
    net.add("Softmax", axis=1)
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, 224, 224])]
    outputs = [helper.make_tensor_value_info(net.last, TensorProto.FLOAT, [1, 1000])]
    graph = helper.make_graph(net.nodes, "mobilenet_v1-random", inputs, outputs, net.weights)
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    return model


NETWORKS = {"mobilenet_v1": mobilenet_v1}
