"""Small ONNX models with a free dimension, for the tests of bounded dimensions."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

Array = NDArray[Any]
node = onnx.helper.make_node


class Tokens:
    """A network over x [1, tokens, width], written operator by operator; each takes the tensor of the one before."""

    def __init__(self, width: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.last, self.width, self.count = "x", width, 0
        self.input_width = width
        self.nodes: list[Any] = []
        self.arrays: dict[str, Array] = {}

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        self.count += 1
        self.last = f"t{self.count}"
        self.nodes.append(node(op, list(inputs), [self.last], name=f"{op.lower()}_{self.count}", **attributes))
        return self.last

    def constant(self, array: Array) -> str:
        name = f"c{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def whole(self, number: int) -> str:
        """A list of one whole number, as bounds of slices are."""
        return self.constant(np.array([number]))

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def linear(self, width: int, bias: bool = True) -> None:
        self.add("MatMul", self.last, self.normal(self.width, width, scale=self.width**-0.5))
        self.width = width
        if bias:
            self.add("Add", self.last, self.normal(width))

    def norm(self) -> None:
        self.add("LayerNormalization", self.last, self.normal(self.width), self.normal(self.width), axis=-1)

    def softmax(self) -> None:
        self.add("Softmax", self.last, axis=-1)

    def activation(self, op: str) -> None:
        self.add(op, self.last)

    def residual(self) -> None:
        before = self.last
        self.linear(self.width, bias=False)
        self.add("Add", before, self.last)

    def centred(self) -> None:
        """x - mean(x) of each token: the mean is broadcast back. A mean of one number is a copy along the tokens."""
        if self.width == 1:
            self.linear(5)
        before = self.last
        mean = self.add("ReduceMean", before, axes=[-1], keepdims=1)
        self.add("Sub", before, mean)

    def heads(self) -> None:
        """Products of matrices in each token, whose sides are both computed."""
        if self.width % 4:
            self.linear(self.width + 4 - self.width % 4)
        shape = self.constant(np.array([0, 0, 4, -1]))
        by_head = self.add("Reshape", self.last, shape)
        turned = self.add("Transpose", by_head, perm=[0, 1, 3, 2])
        product = self.add("MatMul", turned, by_head)
        self.add("Reshape", product, self.constant(np.array([0, 0, -1])))
        self.width = (self.width // 4) ** 2

    def attention(self, heads: int = 2) -> None:
        """Of all tokens to all tokens: query, key and value are the token itself, in heads."""
        if self.width % heads:
            self.linear(self.width + heads - self.width % heads)
        shape = self.constant(np.array([0, 0, heads, -1]))
        by_head = self.add("Reshape", self.last, shape)
        straight, turned = (self.add("Transpose", by_head, perm=perm) for perm in ([0, 2, 1, 3], [0, 2, 3, 1]))
        scores = self.add("Mul", self.add("MatMul", straight, turned), self.constant(np.array(0.3, np.float32)))
        made = self.add("MatMul", self.add("Softmax", scores, axis=-1), straight)
        self.add("Reshape", self.add("Transpose", made, perm=[0, 2, 1, 3]), self.constant(np.array([0, 0, -1])))

    def above_mean(self) -> None:
        """x - the mean of all tokens."""
        before = self.last
        self.add("Sub", before, self.add("ReduceMean", before, axes=[1], keepdims=1))

    def doubled(self) -> None:
        """Beside each other with a half of itself."""
        half = max(1, self.width // 2)
        before = self.last
        starts, ends, axes = (self.constant(np.array([i])) for i in (0, half, 2))
        part = self.add("Slice", before, starts, ends, axes)
        self.add("Concat", part, before, axis=2)
        self.width += half

    def save(self, path: Path, outputs: Sequence[str] = (), outer: Sequence[str | int] = (1, "tokens")) -> Path:
        value = onnx.helper.make_tensor_value_info
        names = list(outputs) or [self.last]
        save_model(
            path,
            self.nodes,
            [value("x", 1, [*outer, self.input_width])],
            [value(name, 1, None) for name in names],
            self.arrays,
        )
        return path


def save_model(path: Path, nodes: Any, inputs: Any, outputs: Any, arrays: dict[str, Array], opset: int = 17) -> None:
    """Write a model of these nodes and constants."""
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, initializers)
    opsets = [onnx.helper.make_opsetid("", opset)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def images_model(path: Path) -> Path:
    """Convolutions, plain, depthwise and 1x1, pools and a product over x [batch, 3, 10, 10], to y and to a map."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        values: Array = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return values.astype(np.float32)

    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "wd"], ["c"], pads=[1, 1, 1, 1], group=8),
        node("Conv", ["c", "wp"], ["d"]),
        node("Add", ["d", "b"], ["e"]),
        node("MaxPool", ["e"], ["f"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", ["f", "ws"], ["map"], strides=[2, 2]),
        node("GlobalAveragePool", ["map"], ["p"]),
        node("Flatten", ["p"], ["q"]),
        node("Gemm", ["q", "wf", "bf"], ["y"], transB=1),
    ]
    arrays = {
        "w1": normal(8, 3, 3, 3),
        "b1": normal(8),
        "wd": normal(8, 1, 3, 3),
        "wp": normal(8, 8, 1, 1),
        "ws": normal(12, 8, 1, 1),
        "wf": normal(10, 12),
        "bf": normal(10),
    }
    value = onnx.helper.make_tensor_value_info
    outputs = [value("y", 1, None), value("map", 1, None)]
    save_model(path, nodes, [value("x", 1, ["batch", 3, 10, 10])], outputs, arrays)
    return path


PIECES: Mapping[str, Callable[[Tokens, int], object]] = {
    "linear": lambda net, n: net.linear(n),
    "residual": lambda net, n: net.residual(),
    "norm": lambda net, n: net.norm(),
    "softmax": lambda net, n: net.softmax(),
    "relu": lambda net, n: net.activation("Relu"),
    "erf": lambda net, n: net.activation("Erf"),
    "centred": lambda net, n: net.centred(),
    "heads": lambda net, n: net.heads(),
    "attention": lambda net, n: net.attention(),
    "above_mean": lambda net, n: net.above_mean(),
    "doubled": lambda net, n: net.doubled(),
}


def grown(width: int, pieces: Sequence[tuple[str, int]]) -> Tokens:
    """A network of these pieces, each with a size, that ends in Relu; none gets wide."""
    net = Tokens(width)
    for name, size in pieces:
        PIECES[name](net, size)
        if net.width > 200:
            net.linear(9)
    net.activation("Relu")
    return net


class Images:
    """A network over x, images N, C, H, W or N, C, L, written operator by operator; each takes the tensor before."""

    def __init__(self, *shape: Any) -> None:  # lengths, None or names of dimensions
        self.shape, self.channels, self.last = shape, shape[1] or 1, "x"
        self.rng, self.nodes, self.opset = np.random.default_rng(0), list[Any](), 17
        self.arrays: dict[str, Array] = {}

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        self.last = f"t{len(self.nodes)}"
        self.nodes.append(node(op, list(inputs), [self.last], name=f"{op.lower()}_{len(self.nodes)}", **attributes))
        return self.last

    def constant(self, array: Array) -> str:
        name = f"c{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def conv(self, channels: int, *kernel: int, group: int = 1, act: str = "Relu", **attributes: Any) -> None:
        scale = (self.channels // group * np.prod(kernel)) ** -0.5
        weights = self.rng.standard_normal((channels, self.channels // group, *kernel)) * scale
        w, bias = self.constant(weights.astype(np.float32)), self.constant(np.full(channels, 0.1, np.float32))
        self.add("Conv", self.last, w, bias, group=group, kernel_shape=kernel, **attributes)
        self.channels = channels
        if act:
            self.add(act, self.last)

    def pool(self, op: str, *kernel: int, **attributes: Any) -> None:
        self.add(op, self.last, kernel_shape=kernel, **attributes)

    def save(self, path: Path, dimension: str = "N") -> Path:
        value = onnx.helper.make_tensor_value_info
        shape = [dimension if n is None else n for n in self.shape]
        save_model(path, self.nodes, [value("x", 1, shape)], [value(self.last, 1, None)], self.arrays, self.opset)
        return path


def small_cnn(net: Images) -> None:
    net.conv(8, 3, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    net.conv(8, 3, 3, group=8, pads=[1, 1, 1, 1])
    before = net.last
    net.conv(8, 1, 1, act="")
    net.add("Add", before, net.last)
    net.pool("MaxPool", 3, 3, strides=[2, 2], pads=[1, 1, 1, 1])
    net.conv(12, 3, 2, dilations=[2, 1], pads=[2, 0, 2, 1])


def u_net(depth: int, *shape: Any) -> Images:
    """Halved by pools and doubled again, each level joined to the one that has its size."""
    net = Images(*shape)
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    skips = list[tuple[str, int]]()
    for level in range(depth):
        net.conv(4 + 2 * level, 3, 3, pads=[1, 1, 1, 1])
        skips.append((net.last, net.channels))
        net.pool("MaxPool", 2, 2, strides=[2, 2])
    net.conv(8, 3, 3, pads=[1, 1, 1, 1])
    for last, channels in reversed(skips):
        scales = net.constant(np.array([1, 1, 2, 2], np.float32))
        net.add("Resize", net.last, "", scales, **nearest)
        net.add("Concat", net.last, last, axis=1)
        net.channels += channels
        net.conv(channels, 3, 3, pads=[1, 1, 1, 1])
    return net
