"""Inception v3 (Szegedy et al., 2016), v4 and Inception-ResNet v2 (Szegedy et al., 2017), on 299 x 299 pixels.

Branches are as in TensorFlow's models, from which those of TensorFlow Lite come; the last layer has 1001 classes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.seeded_networks.writer import OnnxWriter

if TYPE_CHECKING:
    import onnx

# A convolution: channels, kernel; with a third member stride 2 without padding.
Layer = tuple[int, int | tuple[int, int]] | tuple[int, int | tuple[int, int], str]
ROW, COLUMN, ROW3, COLUMN3 = (1, 7), (7, 1), (1, 3), (3, 1)
_DOWN = "down"


def inception_v3() -> "onnx.ModelProto":
    """Return Inception v3: 94 convolutions, 5.7 billion multiply-accumulates."""
    net = OnnxWriter("inception_v3")
    x = _first_layers(net)
    for pooled in (32, 64, 64):
        x = _module(net, x, [[(64, 1)], [(48, 1), (64, 5)], [(64, 1), (96, 3), (96, 3)]], pooled)
    x = _reduction(net, x, [[(384, 3, _DOWN)], [(64, 1), (96, 3), (96, 3, _DOWN)]])
    for n in (128, 160, 160, 192):
        once: list[Layer] = [(n, 1), (n, ROW), (192, COLUMN)]
        twice: list[Layer] = [(n, 1), (n, COLUMN), (n, ROW), (n, COLUMN), (192, ROW)]
        x = _module(net, x, [[(192, 1)], once, twice], 192)
    x = _reduction(net, x, [[(192, 1), (320, 3, _DOWN)], [(192, 1), (192, ROW), (192, COLUMN), (192, 3, _DOWN)]])
    for _ in range(2):
        split = _split(net, net.conv(x, 384, 1), 384)
        deep = _split(net, _chain(net, x, [(448, 1), (384, 3)]), 384)
        x = net.concat(net.conv(x, 320, 1), *split, *deep, _pooled(net, x, 192))
    return net.classifier(x, 1001)


def inception_v4() -> "onnx.ModelProto":
    """Return Inception v4: 149 convolutions, 12.3 billion multiply-accumulates."""
    net = OnnxWriter("inception_v4")
    x = _chain(net, net.image("input", 3, 299), [(32, 3, _DOWN)])
    x = net.conv(net.conv(x, 32, 3, padding="VALID"), 64, 3)
    x = _reduction(net, x, [[(96, 3, _DOWN)]])
    long = _chain(net, x, [(64, 1), (64, ROW), (64, COLUMN)])
    x = net.concat(*(net.conv(y, 96, 3, padding="VALID") for y in (net.conv(x, 64, 1), long)))
    x = _reduction(net, x, [[(192, 3, _DOWN)]])
    for _ in range(4):
        x = _module(net, x, [[(96, 1)], [(64, 1), (96, 3)], [(64, 1), (96, 3), (96, 3)]], 96)
    x = _reduction(net, x, [[(384, 3, _DOWN)], [(192, 1), (224, 3), (256, 3, _DOWN)]])
    for _ in range(7):
        once: list[Layer] = [(192, 1), (224, ROW), (256, COLUMN)]
        twice: list[Layer] = [(192, 1), (192, COLUMN), (224, ROW), (224, COLUMN), (256, ROW)]
        x = _module(net, x, [[(384, 1)], once, twice], 128)
    x = _reduction(net, x, [[(192, 1), (192, 3, _DOWN)], [(256, 1), (256, ROW), (320, COLUMN), (320, 3, _DOWN)]])
    for _ in range(3):
        split = _split(net, net.conv(x, 384, 1), 256)
        deep = _split(net, _chain(net, x, [(384, 1), (448, COLUMN3), (512, ROW3)]), 256)
        x = net.concat(net.conv(x, 256, 1), *split, *deep, _pooled(net, x, 256))
    return net.classifier(x, 1001)


def inception_resnet_v2() -> "onnx.ModelProto":
    """Return Inception-ResNet v2: 244 convolutions, 13.2 billion multiply-accumulates.

    Residuals are scaled as published.
    """
    net = OnnxWriter("inception_resnet_v2")
    x = _first_layers(net)
    x = _module(net, x, [[(96, 1)], [(48, 1), (64, 5)], [(64, 1), (96, 3), (96, 3)]], 64)
    for _ in range(10):
        x = _residual(net, x, [[(32, 1)], [(32, 1), (32, 3)], [(32, 1), (48, 3), (64, 3)]], 0.17)
    x = _reduction(net, x, [[(384, 3, _DOWN)], [(256, 1), (256, 3), (384, 3, _DOWN)]])
    for _ in range(20):
        x = _residual(net, x, [[(192, 1)], [(128, 1), (160, ROW), (192, COLUMN)]], 0.1)
    last: list[list[Layer]] = [
        [(256, 1), (384, 3, _DOWN)],
        [(256, 1), (288, 3, _DOWN)],
        [(256, 1), (288, 3), (320, 3, _DOWN)],
    ]
    x = _reduction(net, x, last)
    for block in range(10):
        x = _residual(net, x, [[(192, 1)], [(192, 1), (224, ROW3), (256, COLUMN3)]], 0.2, "Relu" if block < 9 else "")
    return net.classifier(net.conv(x, 1536, 1), 1001)


def _first_layers(net: OnnxWriter) -> str:
    """Add the layers before the first module of Inception v3 and Inception-ResNet v2: 192 channels of 35 x 35."""
    x = _chain(net, net.image("input", 3, 299), [(32, 3, _DOWN)])
    x = net.conv(net.conv(x, 32, 3, padding="VALID"), 64, 3)
    x = net.conv(net.pool(x, "MaxPool", 3, 2, "VALID"), 80, 1)
    return net.pool(net.conv(x, 192, 3, padding="VALID"), "MaxPool", 3, 2, "VALID")


def _chain(net: OnnxWriter, x: str, layers: Sequence[Layer]) -> str:
    for layer in layers:
        stride, padding = (2, "VALID") if len(layer) == 3 else (1, "SAME")
        x = net.conv(x, layer[0], layer[1], stride, padding=padding)
    return x


def _pooled(net: OnnxWriter, x: str, channels: int) -> str:
    return net.conv(net.pool(x, "AveragePool", 3, 1), channels, 1)


def _module(net: OnnxWriter, x: str, branches: Sequence[Sequence[Layer]], pooled: int) -> str:
    """Add branches of convolutions and one of a mean pool, concatenated."""
    return net.concat(*(_chain(net, x, branch) for branch in branches), _pooled(net, x, pooled))


def _reduction(net: OnnxWriter, x: str, branches: Sequence[Sequence[Layer]]) -> str:
    """Add branches of stride 2 and a maximum pool, concatenated."""
    return net.concat(*(_chain(net, x, branch) for branch in branches), net.pool(x, "MaxPool", 3, 2, "VALID"))


def _split(net: OnnxWriter, x: str, channels: int) -> list[str]:
    """Add a 1x3 and a 3x1 convolution of the same image, concatenated."""
    return [net.conv(x, channels, ROW3), net.conv(x, channels, COLUMN3)]


def _residual(net: OnnxWriter, x: str, branches: Sequence[Sequence[Layer]], scale: float, act: str = "Relu") -> str:
    """Add x + scale * (1x1 convolution of the concatenated branches), and the activation."""
    import numpy as np

    y = net.concat(*(_chain(net, x, branch) for branch in branches))
    y = net.conv(y, net.shape[x][0], 1, act="", gain=1)
    scaled = net.node("Mul", [y, np.float32(scale)])
    net.shape[scaled] = net.shape[y]
    y = net.add(x, scaled)
    return net.act(y, act) if act else y
