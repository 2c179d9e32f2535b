"""Estimates of the reference's work and memory for a node, from types, before anything is allocated."""

from collections.abc import Mapping
from math import prod

from mavcg.graph import Node, TensorType

_CALL_STEPS = 5_000  # overhead of a NumPy call, in elementary steps
_SORT_STEPS = 100  # of an element
_TREE_LEVELS, _TREE_STEPS = 16, 30  # of a tree; of a level of one for a sample
_ROW_STEPS = 1_000  # of one update of a scatter, which Python makes one by one
_ERF_STEPS, _ERF_BYTES = 100, 40  # of an element of which Python computes the error function, as a float of its own
_ERF = ("erf", "gelu")
_TRANSCENDENTAL_STEPS = 20  # of an element
_TRANSCENDENTAL = (
    "sigmoid",
    "tanh",
    "sigmoid_quotient",
    "tanh_quotient",
    "exp",
    "log",
    "sin",
    "cos",
    "tan",
    "softplus",
    "elu",
    "celu",
    "selu",
    "mish",
    "silu",
    "pow",
    "softmax",
    "log_softmax",
)


def work(node: Node, types: Mapping[str, TensorType]) -> int:
    """Return the estimated elementary steps of the reference for a node: elements that inner loops read or write."""
    inputs = [types[name] for name in node.inputs if name]
    result = sum(types[name].elements for name in node.outputs if name)
    if node.op in ("conv2d", "conv_transpose2d", "qconv2d", "iconv2d"):
        weights = types[node.inputs[1]]
        taps = weights.shape[1] * weights.shape[2]
        moved = max(result, inputs[0].elements)
        return int(taps * _CALL_STEPS + moved * max(1, weights.elements // max(1, weights.shape[0])))
    if node.op in ("matmul", "qmatmul", "imatmul", "block_matmul"):
        shape = types[node.inputs[0]].shape
        return result * (shape[-1] if shape else 1)
    if node.op.endswith("pool2d"):
        return int(prod(node.attr("kernel"))) * (_CALL_STEPS + result)
    if node.op == "lrn":  # a window at each channel
        channels = inputs[0].shape[-1]
        return channels * _CALL_STEPS + result * min(int(node.attr("size")), channels)
    if node.op == "resample":  # taps
        return result * max(1, inputs[1].shape[-1])
    if node.op == "arg_top":
        return inputs[0].elements * _SORT_STEPS
    if node.op == "tree_leaves":  # levels of the deepest tree, which are not known from types
        return result * _TREE_LEVELS * _TREE_STEPS
    if node.op == "suppress_boxes":  # a pass over the boxes for each that is chosen
        return result * (_CALL_STEPS + 20 * inputs[0].shape[1])
    if node.op == "attention":
        keys, depth = inputs[1].shape[1], inputs[1].shape[3]
        return result * keys * (1 + depth) + _TRANSCENDENTAL_STEPS * result * keys
    moved = result + sum(kind.elements for kind in inputs)
    if node.op == "scatter":
        return moved + _ROW_STEPS * inputs[1].shape[0]
    return moved * (_ERF_STEPS if node.op in _ERF else _TRANSCENDENTAL_STEPS if node.op in _TRANSCENDENTAL else 1)


def temporary_bytes(node: Node, types: Mapping[str, TensorType]) -> int:
    """Return the estimated bytes that the reference allocates beside inputs and outputs, such as padded images."""
    result = sum(types[name].bytes for name in node.outputs if name)
    if node.op == "conv_transpose2d":
        x, w = types[node.inputs[0]], types[node.inputs[1]]
        stride, dilation, extra = (node.attr(name) for name in ("stride", "dilation", "output_pads"))
        sides = ((x.shape[1 + i] - 1) * stride[i] + dilation[i] * (w.shape[1 + i] - 1) + 1 + extra[i] for i in (0, 1))
        return int(x.shape[0] * prod(sides) * w.shape[0] * (x.bytes // max(1, x.elements)))
    if "pads" in dict(node.attrs) and len(types[node.inputs[0]].shape) == 4:
        x, pads = types[node.inputs[0]], node.attr("pads")
        padded = (x.shape[1] + pads[0] + pads[2]) * (x.shape[2] + pads[1] + pads[3])
        return int(x.shape[0] * padded * x.shape[3] * (x.bytes // max(1, x.elements)) + 2 * result)
    if node.op in _ERF:
        return _ERF_BYTES * types[node.outputs[0]].elements
    return 2 * result
