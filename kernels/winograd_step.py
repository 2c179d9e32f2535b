"""Convolutions of a graph by Winograd's method: which nodes it computes, and the steps that do.

There are two forms of each tile, which give the same bits: one kernel, block by block of tiles, and three with a
workspace, the name of which ends in _staged. Of one kernel every thread reads all weights; of three only its part.
"""

from collections.abc import Mapping

from mavcg.graph import Graph, Node
from mavcg.kernel import Operand, Packing, Step, View
from mavcg.kernels.depthwise import MOST_TAPS
from mavcg.kernels.primitives.winograd import ERROR_BOUNDS, in_stages, pack_winograd, winograd_spec

STAGED = "_staged"
_TILES = {f"winograd_2d_f{m}_k{k}": (m, k) for two_d, m, k in ERROR_BOUNDS if two_d}


def winograd_choices(node: Node, graph: Graph, max_error: float) -> tuple[str, ...]:
    """Names of the ways that may compute a node of a storage's graph, whose padding is in its input already.

    max_error: of the largest sum before the activation, that a way may be off by (its measured bound).
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
    tiles = [name for name, (m, k) in _TILES.items() if k == shape[1] and ERROR_BOUNDS[True, m, k] <= max_error]
    # The three kernels know one image.
    return (*tiles, *(name + STAGED for name in tiles if graph.shape(node.output)[0] == 1))


def winograd_steps(
    name: str, node: Node, graph: Graph, views: Mapping[str, View], packing: Packing
) -> tuple[Step, ...]:
    """The steps of a node in the way of this name, one of winograd_choices."""
    m, k = _TILES[name.removesuffix(STAGED)]
    bias, residual = (*node.inputs[2:], "", "")[:2]
    spec = winograd_spec(
        views[node.inputs[0]], views[node.output], views[residual] if residual else None, m, k, True, packing.lanes,
        bool(bias), node.attr("act"), tuple(node.attr("act_args")),
    )  # fmt: skip
    x, out = Operand(node.inputs[0]), Operand(node.output, written=True)
    weights = Operand(constant=pack_winograd(spec.tiles, graph.constants[node.inputs[1]]))
    ends = tuple(Operand(other) for other in (bias, residual) if other)
    if not name.endswith(STAGED):
        return (Step(spec, (x, weights, out, *ends), node.origin),)
    three = in_stages(spec)

    def workspace(at: int, written: bool = False) -> Operand:
        return Operand(written=written, workspace_bytes=three.workspace_bytes, offset=at)

    return (
        Step(three.inputs, (x, workspace(0, True)), node.origin),
        Step(three.products, (workspace(0), weights, workspace(three.sums_at, True)), node.origin),
        Step(three.output, (workspace(three.sums_at), out, *ends), node.origin),
    )
