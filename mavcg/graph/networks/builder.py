"""Builder of the five networks: layers with weights, appended to a graph."""

from collections.abc import Sequence
from math import prod

import numpy as np

from mavcg.graph import Array, Graph, TensorType
from mavcg.graph.builder import GraphBuilder

LEAKY_SLOPE = 0.1  # Darknet's leaky ReLU


class NetworkBuilder:
    """A network of f32 images under construction; layer names become the names of nodes (origin).

    Weights and biases are inputs of the graph, named LAYER.w and LAYER.b: planning reads shapes alone, so nobody has to
    create or hash the 528 MiB of VGG-16's weights. The reference evaluates such a graph with any given weights. Batch
    normalisation counts as folded into the weights.
    """

    def __init__(self, name: str, height: int, width: int) -> None:
        """Begin a graph whose first input, `image`, has three channels."""
        self._graph = GraphBuilder(name)
        self.image = self._graph.input("image", TensorType("f32", (1, height, width, 3)))

    def shape(self, x: str) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self._graph.types[x].shape

    def conv(
        self,
        x: str,
        name: str,
        out_ch: int,
        kernel: int,
        stride: int = 1,
        pad: int = 0,
        groups: int = 1,
        act: str = "relu",
    ) -> str:
        """Add a square convolution with bias, and return its output. act: "relu", "leaky" or "" for none."""
        weights = self._weights(name, (out_ch, kernel, kernel, self.shape(x)[3] // groups))
        output = self._graph.add("conv2d", (x, *weights), name, stride=(stride, stride), pads=(pad,) * 4, groups=groups)
        return self.activation(output, name, act)

    def dense(self, x: str, name: str, out_ch: int, act: str = "relu") -> str:
        """Add a fully connected layer over all elements of x, and return its output, [1, out_ch]."""
        x = x if len(self.shape(x)) == 2 else self.flat(x)
        w, bias = self._weights(name, (out_ch, self.shape(x)[1]))
        return self.activation(self._graph.add("matmul", (x, w, bias), name, transpose_b=True), name, act)

    def activation(self, x: str, name: str, act: str) -> str:
        """Add an activation as a separate node, as importers do, and return its output; "" adds none."""
        if not act:
            return x
        if act == "leaky":
            return self._graph.add("leaky_relu", (x,), name, alpha=LEAKY_SLOPE)
        return self._graph.add(act, (x,), name)

    def relu6(self, x: str) -> str:
        """Return min(max(x, 0), 6)."""
        return self._graph.add("clip", (x,), lo=0.0, hi=6.0)

    def upsample(self, x: str, factor: int) -> str:
        """Repeat every row and column `factor` times: nearest-neighbour upsampling."""
        for axis in (1, 2):
            index = np.arange(factor * self.shape(x)[axis], dtype=np.int32)[:, None] // factor
            parts = self._graph.constant(index), self._graph.constant(np.ones(index.shape, np.float32))
            x = self._graph.add("resample", (x, *parts), axis=axis)
        return x

    def max_pool(self, x: str, kernel: int, stride: int, pads: tuple[int, int, int, int] = (0, 0, 0, 0)) -> str:
        """Add a max pooling over square windows. pads: top, left, bottom, right."""
        return self._graph.add("max_pool2d", (x,), kernel=(kernel, kernel), stride=(stride, stride), pads=pads)

    def mean(self, x: str) -> str:
        """Add a global average pooling; its output is [1, 1, 1, C]."""
        return self._graph.add("reduce_mean", (x,), axes=(1, 2), keepdims=True)

    def lrn(self, x: str, size: int, alpha: float, beta: float, bias: float) -> str:
        """Add a local response normalisation over channels."""
        return self._graph.add("lrn", (x,), size=size, alpha=alpha, beta=beta, bias=bias)

    def concat(self, *parts: str) -> str:
        """Concatenate along channels."""
        return self._graph.add("concat", parts, axis=3)

    def add(self, a: str, b: str, name: str, act: str = "") -> str:
        """Add a residual sum, and return its output."""
        return self.activation(self._graph.add("add", (a, b), name), name, act)

    def widen(self, x: str, out_ch: int, stride: int) -> str:
        """Return every stride-th row and column, padded with zero channels to out_ch: a shortcut without weights."""
        if stride > 1:
            steps = (1, stride, stride, 1)
            x = self._graph.add("slice", (x,), starts=(0,) * 4, stops=self.shape(x), steps=steps)
        missing = out_ch - self.shape(x)[3]
        return self._graph.add("pad", (x,), before=(0,) * 4, after=(0, 0, 0, missing)) if missing else x

    def space_to_depth(self, x: str, block: int) -> str:
        """Move each block x block of positions into the channels of one position."""
        n, height, width, channels = self.shape(x)
        rows, columns = height // block, width // block
        x = self._graph.add("reshape", (x,), shape=(n, rows, block, columns, block, channels))
        x = self._graph.add("transpose", (x,), perm=(0, 1, 3, 2, 4, 5))
        return self._graph.add("reshape", (x,), shape=(n, rows, columns, block * block * channels))

    def softmax(self, x: str) -> str:
        """Add a softmax over the last axis."""
        return self._graph.add("softmax", (x,), axis=-1)

    def flat(self, x: str) -> str:
        """Reshape to [1, elements]."""
        return self._graph.add("reshape", (x,), shape=(1, self._graph.types[x].elements))

    def finish(self, output: str) -> Graph:
        """Return the graph."""
        return self._graph.finish((output,))

    def _weights(self, name: str, shape: tuple[int, ...]) -> tuple[str, str]:
        w = self._graph.input(f"{name}.w", TensorType("f32", shape))
        return w, self._graph.input(f"{name}.b", TensorType("f32", shape[:1]))


WEIGHTS_SEED = 20261123


def drawn_constants(graph: Graph, names: Sequence[str]) -> dict[str, Array]:
    """Return seeded random weights for these inputs of a graph: normal, of variance 2 / fan-in (He et al., 2015)."""
    rng = np.random.default_rng(WEIGHTS_SEED)
    constants: dict[str, Array] = {}
    for name in sorted(names):
        shape = graph.types[name].shape
        fan_in = prod(shape[1:]) if len(shape) > 1 else 1
        scale = (2 / fan_in) ** 0.5 if len(shape) > 1 else 0.1
        constants[name] = (rng.standard_normal(shape, np.float32) * np.float32(scale)).astype(np.float32)
    return constants
