"""Builder of ONNX models with seeded random weights that keep activations at their size (He et al., 2015)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mavcg.graph import Array

if TYPE_CHECKING:
    import onnx

OPSET = 17


class OnnxWriter:
    """Nodes and weights of a model; each method adds nodes and returns the name of the tensor that they make.

    Images have their shape followed, as channels, height, width (`shape`). Padding is TensorFlow's "SAME" or "VALID",
    or "EVEN", half a window on each side. Batch norms are folded into the convolutions before them.
    """

    def __init__(self, name: str, seed: int = 1) -> None:
        self.name, self.random = name, np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: dict[str, Array] = {}
        self.shape: dict[str, tuple[int, int, int]] = {}

    def node(self, op: str, inputs: "Sequence[str | Array | np.float32]", outputs: int = 1, **attributes: Any) -> str:
        """Add a node; arrays among its inputs become weights.

        Returns: its output; the first one (.0) if there are several.
        """
        from onnx import helper

        name = f"{op.lower()}_{len(self.nodes)}"
        names = [
            text if isinstance(text, str) else self.weight(f"{name}_{at}", np.asarray(text))
            for at, text in enumerate(inputs)
        ]
        made = [name] if outputs == 1 else [f"{name}.{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(op, names, made, name, **attributes))
        return made[0]

    def weight(self, name: str, array: Array) -> str:
        """Add a weight; a name that exists already is used again, so that layers can share it."""
        self.weights.setdefault(name, array)
        return name

    def draw(self, shape: Sequence[int], deviation: float) -> Array:
        """Return random normal numbers in f32."""
        return (deviation * self.random.standard_normal(tuple(shape))).astype(np.float32)

    def image(self, name: str, channels: int, side: int) -> str:
        """Add an input image; shapes of images are known from here on."""
        self.shape[name] = (channels, side, side)
        return name

    def conv(
        self,
        x: str,
        out_ch: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        act: str = "Relu",
        padding: str = "SAME",
        groups: int = 1,
        gain: float = 2.0,
        bias: bool = True,
    ) -> str:
        """Add a convolution and its activation. gain: variance of the result over that of x; 2 before a ReLU."""
        in_ch, height, width = self.shape[x]
        k_h, k_w = (kernel, kernel) if isinstance(kernel, int) else kernel
        shape = (out_ch, in_ch // groups, k_h, k_w)
        weights = [self.draw(shape, float(np.sqrt(gain / np.prod(shape[1:]))))]
        weights += [self.draw((out_ch,), 0.1)] if bias else []
        y = self.node(
            "Conv",
            [x, *weights],
            kernel_shape=[k_h, k_w],
            strides=[stride, stride],
            group=groups,
            **_padding((k_h, k_w), padding),
        )
        size = (_along(height, k_h, stride, padding), _along(width, k_w, stride, padding))
        self.shape[y] = (out_ch, *size)
        return self.act(y, act) if act else y

    def act(self, x: str, kind: str) -> str:
        """Add Relu, or Relu6 as ONNX expresses it."""
        y = self.node("Clip", [x, np.float32(0), np.float32(6)]) if kind == "Relu6" else self.node(kind, [x])
        if x in self.shape:
            self.shape[y] = self.shape[x]
        return y

    def pool(self, x: str, op: str, kernel: int, stride: int, padding: str = "SAME") -> str:
        """Add MaxPool or AveragePool; means leave pads out, as TensorFlow's do."""
        channels, height, width = self.shape[x]
        pads = _padding((kernel, kernel), padding)
        y = self.node(op, [x], kernel_shape=[kernel, kernel], strides=[stride, stride], **pads)
        self.shape[y] = (channels, _along(height, kernel, stride, padding), _along(width, kernel, stride, padding))
        return y

    def concat(self, *tensors: str) -> str:
        """Concatenate images along their channels."""
        y = self.node("Concat", tensors, axis=1)
        self.shape[y] = (sum(self.shape[t][0] for t in tensors), *self.shape[tensors[0]][1:])
        return y

    def add(self, a: str, b: str) -> str:
        """Add two images of equal shape."""
        assert self.shape[a] == self.shape[b], f"{a}{self.shape[a]} + {b}{self.shape[b]}"
        y = self.node("Add", [a, b])
        self.shape[y] = self.shape[a]
        return y

    def classes(self, x: str, count: int) -> str:
        """Add the mean of each channel, a fully connected layer and softmax.

        The scores' spread is moderate, so that softmax keeps it.
        """
        channels = self.shape[x][0]
        mean = self.node("Flatten", [self.node("GlobalAveragePool", [x])])
        weights = self.draw((channels, count), float(np.sqrt(4 / channels)))
        return self.node("Softmax", [self.node("Gemm", [mean, weights, np.zeros(count, np.float32)])], axis=1)

    def model(
        self, inputs: Sequence[tuple[str, Any, Sequence[int | str]]], outputs: Sequence[tuple[str, Sequence[int | str]]]
    ) -> "onnx.ModelProto":
        """Return the model. inputs: name, NumPy type, shape; outputs: name, shape, f32. Names in shapes are free."""
        from onnx import TensorProto, helper, numpy_helper

        info = helper.make_tensor_value_info
        given = [info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape) for name, kind, shape in inputs]
        made = [info(name, TensorProto.FLOAT, shape) for name, shape in outputs]
        weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, f"{self.name}-random", given, made, weights)
        model: onnx.ModelProto = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="mavcg.bench"
        )
        return model

    def classifier(self, x: str, count: int) -> "onnx.ModelProto":
        """Return the model from the image `input` to the probabilities of `count` classes, computed from features x."""
        scores = self.classes(x, count)
        return self.model([("input", np.float32, (1, *self.shape["input"]))], [(scores, (1, count))])


def _padding(kernel: tuple[int, int], padding: str) -> dict[str, Any]:
    """Return the padding attributes.

    A window of one element has no pads: onnxruntime computes negative ones for it at stride 2.
    """
    if padding == "EVEN":
        return {"pads": [kernel[0] // 2, kernel[1] // 2] * 2}
    return {"auto_pad": "SAME_UPPER" if padding == "SAME" and kernel != (1, 1) else "VALID"}


def _along(size: int, kernel: int, stride: int, padding: str) -> int:
    """Return the number of rows (or columns) of a result."""
    if padding == "SAME":
        return -(-size // stride)
    return (size + (kernel // 2 * 2 if padding == "EVEN" else 0) - kernel) // stride + 1
