"""Write a graph as a .tflite file, so that LiteRT, which cannot convert ONNX, can run networks that ship as ONNX.

The file has the form that LiteRT runs best: images as N, H, W, C, batch norms folded, activations fused, padding SAME
where possible. In 8-bit graphs (dequantize and quantize around operators that compute in f32) these operators become
signed 8-bit ones: numbers and zero points are 128 less than unsigned ones. Only the operators of bench/peers.py's
networks are supported.
"""

from typing import Any

import numpy as np

from bench.tflite_file import File, Quantised
from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node
from mavcg.passes.graph.activations import recognise_activations
from mavcg.passes.graph.fold import fold_constants
from mavcg.passes.graph.intrinsic import fold_scale_after, fold_scale_before, merge_scales
from mavcg.passes.graph.pads import fold_pads
from mavcg.passes.graph.pointwise import fuse_pointwise
from mavcg.passes.graph.prune import prune
from mavcg.passes.graph.transposes import cancel_transposes

_FIRST = (prune, cancel_transposes, prune)
_OF_FLOATS = (
    fold_constants,
    recognise_activations,
    fold_pads,
    fold_scale_after,
    fold_scale_before,
    merge_scales,
    fuse_pointwise,
    prune,
)
_TO_CHANNELS_LAST = (0, 2, 3, 1)
_IN_8_BITS = frozenset({"conv2d", "matmul", "add", "max_pool2d", "reduce_mean"})


def tflite_model(graph: Graph) -> bytes:
    """Return the file of a graph with one image as its input.

    Raises: MavcgError for an operator that is not supported.
    """
    for rewrite in _FIRST:
        graph = rewrite(graph)
    if not any(node.op == "dequantize" for node in graph.nodes):
        for rewrite in _OF_FLOATS:
            graph = rewrite(graph)
    return _Writer(graph).write()


class _Writer:
    """Builder of the file.

    f32: the file's tensor for each tensor of the graph; stored: for an f32 tensor that a dequantize makes, the
    8-bit tensor that it is made of.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.file = graph, File()
        self.readers, self.producers = graph.readers(), graph.producers()
        self.made: dict[str, int] = {}
        self.stored: dict[str, str] = {}
        self.channels_first: set[str] = set()

    def write(self) -> bytes:
        """Write all nodes, in order."""
        (name,) = self.graph.inputs
        n, c, h, w = self.graph.shape(name)
        self.channels_first.add(name)
        self.made[name] = self.file.tensor(name, "f32", (n, h, w, c))
        for node in self.graph.nodes:
            self._node(node)
        outputs = [self.value(name) for name in self.graph.outputs]
        return self.file.to_bytes([self.made[name]], outputs)

    def value(self, name: str) -> int:
        """Return a tensor as the graph has it; an f32 tensor that is stored in 8 bits is dequantised first."""
        if name not in self.made and name in self.graph.constants:
            self.made[name] = self.file.constant(name, self.graph.constants[name])
        elif name not in self.made:
            self.made[name] = self.file.tensor(name, "f32", self.graph.shape(name))
            self.file.operator("DEQUANTIZE", [self.made[self.stored[name]]], self.made[name])
        return self.made[name]

    def _node(self, node: Node) -> None:
        (out,) = node.outputs
        source = node.inputs[0]
        if node.op == "transpose" and source in self.channels_first and node.attr("perm") == _TO_CHANNELS_LAST:
            self.made[out] = self.made[source]
        elif node.op == "quantize" and out not in self.made:
            self._quantize(node)
        elif node.op == "dequantize":
            if source not in self.graph.constants:
                self.stored[out] = source
        elif out not in self.made:  # else the operator before it has made this, too
            self._operator(node)

    def _quantize(self, node: Node) -> None:
        """Quantise a tensor by an operator of its own if it does not come from an 8-bit operator."""
        source, out = node.inputs[0], node.outputs[0]
        shape = self.graph.shape(out)
        if source in self.channels_first:
            self.channels_first.add(out)
            shape = tuple(shape[i] for i in _TO_CHANNELS_LAST)
        index = self.file.tensor(out, "i8", shape, self._parameters(node))
        self.file.operator("QUANTIZE", [self.value(source)], index)
        self.made[out] = index

    def _parameters(self, node: Node) -> Quantised:
        """Return scale and zero of a quantize or dequantize, for signed numbers."""
        q = node.outputs[0] if node.op == "quantize" else node.inputs[0]
        scale, zero = (self.graph.constants[name] for name in node.inputs[1:])
        if np.any(zero != zero.flat[0]):
            raise MavcgError(f"node {node.origin}: zeros that differ from channel to channel cannot be written")
        shift = 128 if self.graph.types[q].dtype == "u8" else 0
        return Quantised(scale, int(zero.flat[0]) - shift, node.attr("axis") if scale.ndim else 0)

    def _operator(self, node: Node) -> None:
        act, out = self._activation(node), node.outputs[0]
        readers = self.readers.get(out, ())
        if act == "NONE" and len(readers) == 1 and readers[0].op == "relu" and out not in self.graph.outputs:
            act, out = "RELU", readers[0].outputs[0]
            readers = self.readers.get(out, ())
        data = [name for name in node.inputs if name and name not in self.graph.constants]
        made_by = [self.producers.get(name) for name in data]
        quantizes = [r for r in readers if r.op == "quantize"]
        in_8_bits = (
            node.op in _IN_8_BITS
            and all(by is not None and by.op == "dequantize" for by in made_by)
            and len(quantizes) == len(readers) > 0
            and len({(r.inputs[1], r.inputs[2]) for r in quantizes}) == 1
        )
        if in_8_bits:
            target = self.file.tensor(
                quantizes[0].outputs[0], "i8", self.graph.shape(out), self._parameters(quantizes[0])
            )
            for reader in quantizes:
                self.made[reader.outputs[0]] = target
            self.made[out] = target  # nobody reads it as f32
            inputs = [self._in_8_bits(name) for name in node.inputs]
        else:
            target = self.made[out] = self.file.tensor(out, "f32", self.graph.shape(out))
            inputs = [self.value(name) if name else -1 for name in node.inputs]
        _EMITTERS.get(node.op, _refused)(self, node, inputs, target, act)
        self.made.setdefault(node.outputs[0], target)

    def _in_8_bits(self, name: str) -> int:
        """Return the index of the 8-bit (for biases 32-bit) tensor that a dequantize reads, or -1 without an input."""
        if not name:
            return -1
        by = self.producers[name]
        q = by.inputs[0]
        if q in self.graph.constants:
            return self.file.constant(name, self.graph.constants[q], self._parameters(by))
        return self.made[q]

    def weights(self, node: Node, position: int) -> tuple[Array, Quantised | None]:
        """Return a constant input in its stored form."""
        name = node.inputs[position]
        if name in self.graph.constants:
            return self.graph.constants[name], None
        by = self.producers.get(name)
        if by is None or by.op != "dequantize" or by.inputs[0] not in self.graph.constants:
            raise MavcgError(f"node {node.origin} ({node.op}): weights that are computed cannot be written")
        return self.graph.constants[by.inputs[0]], self._parameters(by)

    def _activation(self, node: Node) -> str:
        attrs = dict(node.attrs)
        act, args = attrs.get("act", ""), attrs.get("act_args", ())
        if node.op == "relu" or act == "relu":
            return "RELU"
        if act == "clip" and args == (0.0, 6.0):
            return "RELU6"
        if act:
            raise MavcgError(f"node {node.origin} ({node.op}): activation {act} {args} cannot be written")
        return "NONE"

    def never_negative(self, name: str) -> bool:
        """True if a tensor cannot be negative, so that zeros around it never are a window's maximum."""
        by = self.producers.get(name)
        if by is None:
            return False
        if by.op == "dequantize" and by.inputs[0] not in self.graph.constants:
            zero = self.graph.constants[by.inputs[2]]
            return int(zero.flat[0]) == np.iinfo(zero.dtype).min
        if by.op in ("concat", "max_pool2d", "lrn"):
            return all(self.never_negative(source) for source in by.inputs)
        return self._activation(by) in ("RELU", "RELU6")


def _padded(w: _Writer, node: Node, x: int, kernel: tuple[int, int]) -> tuple[int, str]:
    """Return SAME or VALID and the image; if neither fits, the image is padded by an operator of its own."""
    pads, stride, dilation = (node.attr(name) for name in ("pads", "stride", "dilation"))
    shape = w.graph.shape(node.inputs[0])
    if not any(pads):
        return x, "VALID"
    same = []
    for axis in (0, 1):
        length, span = shape[1 + axis], dilation[axis] * (kernel[axis] - 1) + 1
        total = max((-(-length // stride[axis]) - 1) * stride[axis] + span - length, 0)
        same.append((total // 2, total - total // 2))
    if same == [(pads[0], pads[2]), (pads[1], pads[3])]:
        return x, "SAME"
    if node.op == "max_pool2d" and not w.never_negative(node.inputs[0]):
        raise MavcgError(f"node {node.origin} (max_pool2d): padding of numbers that may be negative cannot be written")
    top, left, bottom, right = pads
    amounts = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
    n, height, width, c = shape
    stored = next((by for by in [w.producers.get(node.inputs[0])] if by and by.op == "dequantize"), None)
    name = f"{node.outputs[0]}/padded"
    bigger = (n, height + top + bottom, width + left + right, c)
    of_8_bits = stored is not None and w.made.get(stored.inputs[0]) == x
    parameters = w._parameters(stored) if stored is not None and of_8_bits else None
    result = w.file.tensor(name, "i8" if of_8_bits else "f32", bigger, parameters)
    w.file.operator("PAD", [x, w.file.constant(f"{name}/amounts", amounts)], result, options="PadOptions")
    return result, "VALID"


def _conv2d(w: _Writer, node: Node, inputs: list[int], target: int, act: str) -> None:
    weights, quantised = w.weights(node, 1)
    out_ch, groups = weights.shape[0], node.attr("groups")
    x, padding = _padded(w, node, inputs[0], weights.shape[1:3])
    bias = inputs[2] if inputs[2] >= 0 else w.file.constant(f"{node.outputs[0]}/bias", np.zeros(out_ch, np.float32))
    depthwise = groups > 1 and weights.shape[3] == 1 and groups == w.graph.shape(node.inputs[0])[3]
    if depthwise:
        weights = weights[..., 0].transpose(1, 2, 0)[None]
        quantised = Quantised(quantised.scale, quantised.zero, 3) if quantised else None
    filter = w.file.constant(f"{node.outputs[0]}/filter", weights, quantised)
    fields: dict[str, Any] = {
        "padding": w.file.padding(padding),
        "strideH": node.attr("stride")[0],
        "strideW": node.attr("stride")[1],
        "dilationHFactor": node.attr("dilation")[0],
        "dilationWFactor": node.attr("dilation")[1],
    }
    residual = inputs[3] if len(inputs) > 3 else -1
    result, own = target, act
    if residual >= 0:
        result, own = w.file.tensor(f"{node.outputs[0]}/conv", "f32", w.graph.shape(node.outputs[0])), "NONE"
    fields["fusedActivationFunction"] = w.file.activation(own)
    if depthwise:
        fields["depthMultiplier"] = out_ch // groups
        w.file.operator("DEPTHWISE_CONV_2D", [x, filter, bias], result, options="DepthwiseConv2DOptions", **fields)
    else:
        w.file.operator("CONV_2D", [x, filter, bias], result, options="Conv2DOptions", **fields)
    if residual >= 0:
        number = w.file.activation(act)
        w.file.operator("ADD", [result, residual], target, options="AddOptions", fusedActivationFunction=number)


def _matmul(w: _Writer, node: Node, inputs: list[int], target: int, act: str) -> None:
    weights, quantised = w.weights(node, 1)
    if not node.attr("transpose_b"):
        weights = weights.T
        quantised = Quantised(quantised.scale, quantised.zero, 0) if quantised else None
    if len(inputs) > 3 and inputs[3] >= 0:
        raise MavcgError(f"node {node.origin} (matmul): a residual cannot be written")
    filter = w.file.constant(f"{node.outputs[0]}/filter", weights, quantised)
    number = w.file.activation(act)
    w.file.operator(
        "FULLY_CONNECTED",
        [inputs[0], filter, inputs[2]],
        target,
        options="FullyConnectedOptions",
        fusedActivationFunction=number,
    )


def _pool(w: _Writer, node: Node, inputs: list[int], target: int, act: str) -> None:
    kernel, stride = node.attr("kernel"), node.attr("stride")
    shape, out = w.graph.shape(node.inputs[0]), w.graph.shape(node.outputs[0])
    if node.op == "avg_pool2d" and any(node.attr("pads")):
        if (
            any(node.attr("count_pads"))
            or out[1:3] != (1, 1)
            or any(k < n for k, n in zip(kernel, shape[1:3], strict=True))
        ):
            raise MavcgError(f"node {node.origin} (avg_pool2d): such padding cannot be written")
        kernel, x, padding = shape[1:3], inputs[0], "VALID"  # one window over all: its padding does not count
    else:
        x, padding = _padded(w, node, inputs[0], kernel)
    w.file.operator(
        "MAX_POOL_2D" if node.op == "max_pool2d" else "AVERAGE_POOL_2D",
        [x],
        target,
        options="Pool2DOptions",
        padding=w.file.padding(padding),
        filterHeight=kernel[0],
        filterWidth=kernel[1],
        strideH=stride[0],
        strideW=stride[1],
        fusedActivationFunction=w.file.activation(act),
    )


def _add(w: _Writer, node: Node, inputs: list[int], target: int, act: str) -> None:
    w.file.operator("ADD", inputs, target, options="AddOptions", fusedActivationFunction=w.file.activation(act))


def _relu(w: _Writer, node: Node, inputs: list[int], target: int, act: str) -> None:
    w.file.operator("RELU", inputs, target)


def _concat(w: _Writer, node: Node, inputs: list[int], target: int, act: str) -> None:
    number = w.file.activation(act)
    axis = node.attr("axis")
    w.file.operator(
        "CONCATENATION", inputs, target, options="ConcatenationOptions", axis=axis, fusedActivationFunction=number
    )


def _lrn(w: _Writer, node: Node, inputs: list[int], target: int, act: str) -> None:
    size = node.attr("size")
    w.file.operator(
        "LOCAL_RESPONSE_NORMALIZATION",
        inputs,
        target,
        options="LocalResponseNormalizationOptions",
        radius=size // 2,
        bias=node.attr("bias"),
        alpha=node.attr("alpha") / size,
        beta=node.attr("beta"),
    )


def _mean(w: _Writer, node: Node, inputs: list[int], target: int, act: str) -> None:
    axes = w.file.constant(f"{node.outputs[0]}/axes", np.array(node.attr("axes"), np.int32))
    w.file.operator("MEAN", [inputs[0], axes], target, options="ReducerOptions", keepDims=node.attr("keepdims"))


def _reshape(w: _Writer, node: Node, inputs: list[int], target: int, act: str) -> None:
    shape = w.graph.shape(node.outputs[0])
    wanted = w.file.constant(f"{node.outputs[0]}/shape", np.array(shape, np.int32))
    w.file.operator("RESHAPE", [inputs[0], wanted], target, options="ReshapeOptions", newShape=list(shape))


def _softmax(w: _Writer, node: Node, inputs: list[int], target: int, act: str) -> None:
    if node.attr("axis") % len(w.graph.shape(node.inputs[0])) != len(w.graph.shape(node.inputs[0])) - 1:
        raise MavcgError(f"node {node.origin} (softmax): over another axis than the last cannot be written")
    w.file.operator("SOFTMAX", inputs, target, options="SoftmaxOptions", beta=1.0)


def _refused(w: _Writer, node: Node, inputs: list[int], target: int, act: str) -> None:
    raise MavcgError(f"node {node.origin}: operator {node.op} cannot be written as .tflite")


_EMITTERS = {
    "conv2d": _conv2d,
    "matmul": _matmul,
    "max_pool2d": _pool,
    "avg_pool2d": _pool,
    "add": _add,
    "relu": _relu,
    "concat": _concat,
    "lrn": _lrn,
    "reduce_mean": _mean,
    "reshape": _reshape,
    "softmax": _softmax,
}
