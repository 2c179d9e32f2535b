"""ResNet-101 v2 (He et al., "Identity Mappings in Deep Residual Networks", 2016), 299 x 299, as TensorFlow's models."""

from typing import TYPE_CHECKING

import numpy as np

from bench.seeded_networks.writer import OnnxWriter

if TYPE_CHECKING:
    import onnx

_STAGES = ((64, 3), (128, 4), (256, 23), (512, 3))
_RESIDUAL_GAIN = 0.25


def resnet_v2_101() -> "onnx.ModelProto":
    """104 convolutions; batch norm and ReLU before them, which no convolution can take; stride in a stage's last."""
    net = OnnxWriter("resnet_v2_101")
    x = net.pool(net.conv(net.image("input", 3, 299), 64, 7, 2, ""), "MaxPool", 3, 2)
    for stage, (channels, blocks) in enumerate(_STAGES):
        for block in range(blocks):
            stride = 2 if block == blocks - 1 and stage < len(_STAGES) - 1 else 1
            before = _norm(net, x)
            if block == 0:
                shortcut = net.conv(before, 4 * channels, 1, stride, "", gain=1)
            else:
                shortcut = x if stride == 1 else net.pool(x, "MaxPool", 1, stride)
            y = net.conv(net.conv(before, channels, 1), channels, 3, stride)
            x = net.add(shortcut, net.conv(y, 4 * channels, 1, act="", gain=_RESIDUAL_GAIN))
    return net.classifier(_norm(net, x), 1001)


def _norm(net: OnnxWriter, x: str) -> str:
    """Add a random batch norm and ReLU."""
    channels = net.shape[x][0]
    scale, variance = (net.random.uniform(0.5, 1.5, channels).astype(np.float32) for _ in range(2))
    y = net.node("BatchNormalization", [x, scale, net.draw((channels,), 0.1), net.draw((channels,), 0.1), variance])
    net.shape[y] = net.shape[x]
    return net.act(y, "Relu")
