"""The networks of bench.lengths: an encoder over any number of tokens, a small network of images of any batch, of any
height, and of any height and width, and convolutions over time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bench.seeded_networks.writer import OnnxWriter

if TYPE_CHECKING:
    import onnx

WORDS, WIDTH, INNER, HEADS, LAYERS = 1000, 256, 1024, 4, 4


@dataclass(frozen=True)
class Network:
    """A network with one free dimension, or with several that are timed at equal lengths.

    model: makes it. shape: of its input, with {0} for each dimension. lengths: at which it is timed, the longest last.
    """

    model: "Callable[[], onnx.ModelProto]"
    input: str
    shape: str
    lengths: tuple[int, ...]


def encoder() -> "onnx.ModelProto":
    """Return a sentence encoder of four layers, whose result is the mean of its tokens."""
    net = OnnxWriter("encoder")

    def linear(x: str, inputs: int, outputs: int) -> str:
        product = net.node("MatMul", [x, net.draw((inputs, outputs), inputs**-0.5)])
        return net.node("Add", [product, net.draw((outputs,), 0.02)])

    def norm(x: str) -> str:
        return net.node("LayerNormalization", [x, np.ones(WIDTH, np.float32), net.draw((WIDTH,), 0.05)], axis=-1)

    x = norm(net.node("Gather", [net.draw((WORDS, WIDTH), 1.0), "ids"]))
    split, joined = np.array([0, 0, HEADS, -1], np.int64), np.array([0, 0, WIDTH], np.int64)
    for _ in range(LAYERS):
        parts = [net.node("Reshape", [linear(x, WIDTH, WIDTH), split]) for _ in range(3)]
        turns = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        q, k, v = (net.node("Transpose", [part], perm=perm) for part, perm in zip(parts, turns, strict=True))
        scores = net.node("Mul", [net.node("MatMul", [q, k]), np.float32((WIDTH / HEADS) ** -0.5)])
        made = net.node("MatMul", [net.node("Softmax", [scores], axis=-1), v])
        made = net.node("Reshape", [net.node("Transpose", [made], perm=[0, 2, 1, 3]), joined])
        x = norm(net.node("Add", [x, linear(made, WIDTH, WIDTH)]))
        hidden = net.node("Relu", [linear(x, WIDTH, INNER)])
        x = norm(net.node("Add", [x, linear(hidden, INNER, WIDTH)]))
    mean = net.node("ReduceMean", [x], axes=[1], keepdims=0)
    return net.model([("ids", np.int64, (1, "tokens"))], [(mean, (1, WIDTH))])


def images(batch: str | int = "batch", height: str | int = 64, width: str | int = 64) -> "onnx.ModelProto":
    """Return a network of plain, depthwise and 1x1 convolutions over images of 64 x 64, or of another size."""
    net, padding = OnnxWriter("images"), "SAME" if height == 64 else "EVEN"
    x = net.conv(net.image("x", 3, 64), 32, 3, stride=2, padding=padding)
    for channels, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        x = net.conv(x, net.shape[x][0], 3, stride=stride, groups=net.shape[x][0], padding=padding)
        x = net.conv(x, channels, 1)
    x = net.conv(x, 128, 3, stride=2, padding=padding)
    pooled = net.node("Flatten", [net.node("GlobalAveragePool", [x])])
    out = net.node("Gemm", [pooled, net.draw((128, 100), 0.1), net.draw((100,), 0.1)])
    return net.model([("x", np.float32, (batch, 3, height, width))], [(out, (batch, 100))])


def audio() -> "onnx.ModelProto":
    """Return a network of convolutions along time, one of stride 2, then depthwise and dilated ones, with residuals."""
    net = OnnxWriter("audio")

    def conv(x: str, kernel: int, groups: int = 1, **window: int) -> str:
        reach = window.get("dilation", 1) * (kernel - 1)
        weights = net.draw((64, 64 // groups, kernel), (2 * groups / 64 / kernel) ** 0.5), net.draw((64,), 0.1)
        return net.node(
            "Conv",
            [x, *weights],
            pads=[reach // 2, reach - reach // 2],
            strides=[window.get("stride", 1)],
            dilations=[window.get("dilation", 1)],
            group=groups,
        )

    x = net.node("Relu", [conv("x", 3, stride=2)])
    for dilation in (1, 2, 4, 8):
        y = net.node("Relu", [conv(x, 9, groups=64)])
        x = net.node("Add", [x, net.node("Relu", [conv(y, 3, dilation=dilation)])])
    mean = net.node("ReduceMean", [x], axes=[2], keepdims=0)
    return net.model([("x", np.float32, (1, 64, "time"))], [(mean, (1, 64))])


NETWORKS: Mapping[str, Network] = {
    "encoder, tokens": Network(encoder, "ids", "1x{}", (1, 2, 7, 16, 31, 64, 100, 128, 200, 256)),
    "images, batch": Network(images, "x", "{}x3x64x64", (1, 2, 3, 4, 5, 7, 8, 11, 13, 16)),
    "images, height": Network(partial(images, 1, "height"), "x", "1x3x{}x64", (33, 64, 100, 180, 256)),
    "images, height and width": Network(
        partial(images, 1, "height", "width"), "x", "1x3x{0}x{0}", (33, 64, 100, 180, 256)
    ),
    "audio, time": Network(audio, "x", "1x64x{}", (50, 201, 400, 700, 1000)),
}
