"""The layers that read their weights faster in fewer bytes: where memory bounds a layer, half of them is a gain."""

from collections.abc import Callable

import numpy as np

from mavcg.choose.lowering.lower import lower_alternatives
from mavcg.choose.predict.algorithms import predict_algorithms
from mavcg.graph import DTYPES, Graph, Node
from mavcg.hardware.core_model import BoardModel
from mavcg.kernels.conv.conv2d import is_depthwise
from mavcg.kernels.conv.spec import Conv2d
from mavcg.runtime.machines import packing_for

Progress = Callable[[str], None]


def stored_weight_gains(
    graph: Graph, stored: str, board: BoardModel, progress: Progress = lambda message: None, workers: int = 1
) -> dict[str, float]:
    """Return the time that layers gain by weights that lie in memory as f16 or bf16, in ms, by the node's output.

    graph: optimised. Only layers are in the result whose time falls by as much as another algorithm needs (WORTH).
    """

    def alternative(node: Node, graph: Graph) -> Node | None:
        return node.with_attrs(weights=stored) if can_store(node, graph) else None

    packing = packing_for(board.target, board.machines.values())
    candidates = lower_alternatives(graph, packing, stored, alternative)
    predicted = predict_algorithms(candidates, board, progress, workers)
    return {
        node: predicted.considered[node][0].mean_ms - min(time.mean_ms for time in predicted.considered[node])
        for node in predicted.fastest
        if any(isinstance(step.spec, Conv2d) and step.spec.stored for step in candidates.steps[node, stored])
    }


def stored_weight_bytes(graph: Graph, stored: str) -> dict[str, int]:
    """Return the bytes that layers save by weights that lie in memory as f16, bf16 or i8, by the node's output.

    graph: optimised. All layers whose own kernel reads such weights are in the result, whatever time they take.
    """
    readers = (node for node in graph.nodes if has_f32_weights(node, graph))
    if stored == "i8":
        readers = (node for node in readers if _has_scales(node, graph))
    return {node.output: saved_weight_bytes(node, graph, stored) for node in readers}


def saved_weight_bytes(node: Node, graph: Graph, stored: str) -> int:
    """Return the bytes by which a node's f32 weights are larger than in the type `stored`, without padding."""
    weights = graph.types[node.inputs[1]]
    scales = graph.types[node.output].shape[-1] * DTYPES["f32"].itemsize if stored == "i8" else 0
    return weights.bytes - weights.elements * DTYPES[stored].itemsize - scales


def _has_scales(node: Node, graph: Graph) -> bool:
    """Return True if all channels of a product's weights have a scale, and a constant holds biases beside them."""
    bias = (*node.inputs[2:], "")[0]
    finite = bool(np.isfinite(graph.constants[node.inputs[1]]).all())
    return finite and (not bias or (bias in graph.constants and graph.types[bias].dtype == "f32"))


def can_store(node: Node, graph: Graph) -> bool:
    """Return True for a product with constant f32 weights in which few other algorithms compete.

    That is a product of matrices, or a convolution of images of one pixel: each weight is used once, or a few times.
    """
    if node.op == "conv2d" and (graph.types[node.output].shape[1:3] != (1, 1) or any(node.attr("pads"))):
        return False
    return has_f32_weights(node, graph)


def has_f32_weights(node: Node, graph: Graph) -> bool:
    """Return True for a product with constant f32 weights, packed in panels: all but depthwise convolutions."""
    if node.op not in ("matmul", "conv2d") or node.inputs[1] not in graph.constants:
        return False
    out, weights = graph.types[node.output], graph.types[node.inputs[1]]
    if out.dtype != "f32" or weights.dtype != "f32" or not out.elements or not weights.elements:
        return False
    if node.op == "matmul":
        return len(weights.shape) == 2
    return not (node.attr("exact") or is_depthwise(node, graph))
