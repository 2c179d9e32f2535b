"""Layers of an ONNX model that can be computed in 8 bits, and the operators that go with them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

# Operators whose time and error are judged: those with weights.
WEIGHTED = ("Conv", "Gemm", "MatMul")
# Operators that are 8-bit where all that they read is, so that tensors stay in 8 bits between layers.
FOLLOWING = (
    "Add",
    "AveragePool",
    "Clip",
    "Concat",
    "Flatten",
    "GlobalAveragePool",
    "LeakyRelu",
    "MaxPool",
    "Mul",
    "Pad",
    "Relu",
    "Reshape",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)


def layers_of(model: onnx.ModelProto) -> tuple[onnx.NodeProto, ...]:
    """Return the nodes with weights in f32 that the model holds, in order."""
    constants = {tensor.name for tensor in model.graph.initializer if tensor.data_type == tensor.FLOAT}
    return tuple(
        node for node in model.graph.node if node.op_type in WEIGHTED and node.input[1] in constants and _own(node)
    )


def with_following(model: onnx.ModelProto, layers: Collection[str]) -> list[str]:
    """Return the names of these layers and of the operators that are 8-bit beside them, in the model's order."""
    constants = {tensor.name for tensor in model.graph.initializer}
    quantised, names = set[str](), list[str]()
    for node in model.graph.node:
        read = [name for name in node.input if name and name not in constants]
        follows = node.op_type in FOLLOWING and _own(node) and read and quantised.issuperset(read)
        if node.name in layers or follows:
            quantised.update(node.output)
            names.append(node.name)
    return names


def give_names(model: onnx.ModelProto) -> None:
    """Give every node of the main graph a name of its own: its present name, that of its output, or that and a number.

    The quantiser takes lists of names, in which nodes without one are not.
    """
    taken = set[str]()
    for node in model.graph.node:
        wanted = node.name or next((name for name in node.output if name), node.op_type)
        number, name = 1, wanted
        while name in taken:
            number += 1
            name = f"{wanted}_{number}"
        taken.add(name)
        node.name = name


def _own(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx")
