"""Count the multiply-accumulates of ONNX nodes from their shapes, also of nodes that mavcg cannot build.

Source of the shapes' meaning: the operators' definitions, onnx/docs/Operators.md and onnxruntime's ContribOperators.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mavcg.graph import TensorType

if TYPE_CHECKING:
    import onnx

Shape = tuple[int, ...]
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1, "DynamicQuantizeLSTM": 4}


class _Unknown(Exception):
    """Raised for a shape that is known only when the model runs."""


def node_macs(node: onnx.NodeProto, types: Mapping[str, TensorType]) -> int | None:
    """Return the multiply-accumulates of a node: of products, convolutions and recurrent operators; 0 for others.

    types: types of the tensors whose shapes are known. The result is None if a needed shape is unknown, and for control
    flow, whose iterations only a run can count.
    """

    def shape(name: str) -> Shape:
        if name not in types:
            raise _Unknown
        return types[name].shape

    if node.op_type in ("Loop", "Scan", "If"):
        return None
    count = _COUNTS.get(node.op_type)
    if count is None:
        return 0
    try:
        return count(node, shape)
    except (_Unknown, IndexError, ValueError):  # a node with too few inputs, which its runtime will refuse
        return None


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((int(a.i) for a in node.attribute if a.name == name), default)


def _convolution(weights: int, result: int = 0) -> Callable[[onnx.NodeProto, Callable[[str], Shape]], int]:
    """Count MACs if each element of the result is a sum over a filter: a group's input channels times the window."""
    return lambda node, shape: math.prod(shape(node.output[result])) * math.prod(shape(node.input[weights])[1:])


def _transposed_macs(node: onnx.NodeProto, shape: Callable[[str], Shape]) -> int:
    """Count MACs if each element of the input is multiplied by a filter: a group's output channels times the window."""
    return math.prod(shape(node.input[0])) * math.prod(shape(node.input[1])[1:])


def _product(node: onnx.NodeProto, shape: Callable[[str], Shape]) -> int:
    """Count MACs if each element of the result is a sum over the last dimension of the first operand."""
    return math.prod(shape(node.output[0])) * (shape(node.input[0]) or (1,))[-1]


def _fused_product(node: onnx.NodeProto, shape: Callable[[str], Shape]) -> int:
    a = shape(node.input[0])
    return math.prod(shape(node.output[0])) * a[-2 if _attribute(node, "transA", 0) else -1]


def _recurrent(node: onnx.NodeProto, shape: Callable[[str], Shape]) -> int:
    """Count MACs per time step: gates times hidden elements, each a sum over the input and the hidden state."""
    steps, batch, length = shape(node.input[0])
    hidden = _attribute(node, "hidden_size", 0)
    if not hidden:
        raise _Unknown
    directions = 2 if any(a.name == "direction" and a.s == b"bidirectional" for a in node.attribute) else 1
    return steps * batch * directions * _GATES[node.op_type] * hidden * (length + hidden)


def _einsum(node: onnx.NodeProto, shape: Callable[[str], Shape]) -> int:
    """Count MACs of a sum over all labels, if there are two operands or more."""
    equation = next((a.s.decode() for a in node.attribute if a.name == "equation"), "")
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if len(terms) != len(node.input) or "." in equation:
        raise _Unknown
    lengths: dict[str, int] = {}
    for term, name in zip(terms, node.input, strict=True):
        lengths |= dict(zip(term, shape(name), strict=True))
    return math.prod(lengths.values()) if len(terms) > 1 else 0


def _attention(node: onnx.NodeProto, shape: Callable[[str], Shape]) -> int:
    """Count MACs of com.microsoft's Attention: projection of queries, keys, values; scores; product with values."""
    batch, length, _ = shape(node.input[0])
    width, three = shape(node.input[1])
    return batch * length * (width * three + 2 * length * (three // 3))


_COUNTS: Mapping[str, Callable[[onnx.NodeProto, Callable[[str], Shape]], int]] = {
    "Conv": _convolution(1),
    "FusedConv": _convolution(1),
    "ConvInteger": _convolution(1),
    "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed_macs,
    "NhwcFusedConv": _convolution(1),
    "Gemm": _fused_product,
    "FusedGemm": _fused_product,
    "MatMul": _product,
    "FusedMatMul": _fused_product,
    "MatMulInteger": _product,
    "QLinearMatMul": _product,
    "DynamicQuantizeMatMul": _product,
    "MatMulIntegerToFloat": _product,
    "QGemm": _fused_product,
    **dict.fromkeys(_GATES, _recurrent),
    "Einsum": _einsum,
    "Attention": _attention,
    "QAttention": _attention,
}
