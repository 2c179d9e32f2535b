"""Convolutions of a graph by Winograd's method: which nodes it computes, and the step that does."""

from collections.abc import Mapping

from mavcg.graph import Graph, Node
from mavcg.kernel import Operand, Packing, Step, View
from mavcg.kernels.depthwise import MOST_TAPS
from mavcg.kernels.primitives.winograd import ERROR_BOUNDS, pack_winograd, winograd_spec

_TILES = {f"winograd_2d_f{m}_k{k}": (m, k) for two_d, m, k in ERROR_BOUNDS if two_d}


def winograd_choices(node: Node, graph: Graph, max_error: float) -> tuple[str, ...]:
    """Names of the ways that may compute a node of a storage's graph, whose padding is in its input already.

    max_error: of the largest output, that a way may be off by (its measured bound).
    """
    if node.op != "conv2d" or node.inputs[1] not in graph.constants or graph.types[node.inputs[0]].dtype != "f32":
        return ()
    shape = graph.shape(node.inputs[1])
    plain = (
        tuple(node.attr("stride")) == tuple(node.attr("dilation")) == (1, 1)
        and node.attr("groups") == 1
        and not any(node.attr("pads"))
        and shape[1] == shape[2]
        and 0 not in graph.shape(node.output)
    )
    if not plain or (shape[3] == 1 and shape[0] == 1 and shape[1] * shape[2] <= MOST_TAPS):
        return ()
    return tuple(name for name, (m, k) in _TILES.items() if k == shape[1] and ERROR_BOUNDS[True, m, k] <= max_error)


def winograd_step(name: str, node: Node, graph: Graph, views: Mapping[str, View], packing: Packing) -> Step:
    """The step of a node in the way of this name, one of winograd_choices."""
    m, k = _TILES[name]
    bias, residual = (*node.inputs[2:], "", "")[:2]
    spec = winograd_spec(
        views[node.inputs[0]], views[node.output], views[residual] if residual else None, m, k, True, packing.lanes,
        bool(bias), node.attr("act"), tuple(node.attr("act_args")),
    )  # fmt: skip
    weights = pack_winograd(spec.tiles, graph.constants[node.inputs[1]])
    operands = [Operand(node.inputs[0]), Operand(constant=weights), Operand(node.output, written=True)]
    operands += [Operand(other) for other in (bias, residual) if other]
    return Step(spec, tuple(operands), node.origin)
