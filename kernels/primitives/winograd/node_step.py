"""Lowering of graph nodes by Winograd's algorithm: the nodes that it applies to, and their steps.

Each tile size has two forms, which give the same bits: a single kernel, and three kernels with a workspace, whose name
ends in _staged. In a single kernel every thread reads all weights; in three kernels it reads only its part.
"""

from collections.abc import Mapping
from math import inf

from mavcg.graph import Graph, Node
from mavcg.kernels.conv.depthwise import MOST_TAPS
from mavcg.kernels.primitives.winograd.family import (
    ERROR_BOUNDS,
    HALF_ERROR_BOUNDS,
    packed_winograd,
    staged_kernels,
    tiles_between,
    winograd_spec,
)
from mavcg.specs.kernel import Operand, Packing, Step, View

STAGED = "_staged"
_BOUNDS = {"f32": {(m, k): bound for (two_d, m, k), bound in ERROR_BOUNDS.items() if two_d}, "f16": HALF_ERROR_BOUNDS}
_TILES = {f"winograd_2d_f{m}_k{k}": (m, k) for two_d, m, k in ERROR_BOUNDS if two_d}


def winograd_choices(node: Node, graph: Graph, max_error: float) -> tuple[str, ...]:
    """Return the Winograd algorithms that can compute a node whose padding is in its input.

    graph: the graph of a storage. max_error: maximum error bound of an algorithm, as a fraction of the largest sum
    before the activation.
    """
    dtype = graph.types[node.inputs[0]].dtype
    if node.op != "conv2d" or node.inputs[1] not in graph.constants or dtype not in _BOUNDS:
        return ()
    shape = graph.shape(node.inputs[1])
    plain = (
        tuple(node.attr("stride")) == tuple(node.attr("dilation")) == (1, 1)
        and node.attr("groups") == 1
        and not any(node.attr("pads"))
        and not node.attr("exact")
        and shape[1] == shape[2]
        and 0 not in graph.shape(node.output)
    )
    if not plain or (shape[3] == 1 and shape[0] == 1 and shape[1] * shape[2] <= MOST_TAPS):
        return ()
    bounds = _BOUNDS[dtype]
    tiles = [name for name, size in _TILES.items() if size[1] == shape[1] and bounds.get(size, inf) <= max_error]
    # The three kernels compute a single image.
    return (*tiles, *(name + STAGED for name in tiles if graph.shape(node.output)[0] == 1))


def winograd_steps(
    name: str, node: Node, graph: Graph, views: Mapping[str, View], packing: Packing
) -> tuple[Step, ...]:
    """Return the steps of a node by an algorithm of winograd_choices, given by its name."""
    m, k = _TILES[name.removesuffix(STAGED)]
    bias, residual = (*node.inputs[2:], "", "")[:2]
    image, result, added = views[node.inputs[0]], views[node.output], views[residual] if residual else None
    tiles = tiles_between(image, result, m, k, True, packing.lanes)
    act = node.attr("act"), tuple(node.attr("act_args"))
    spec = winograd_spec(tiles, image, result, added, bool(bias), *act, packing.long_blocks)
    x, out = Operand(node.inputs[0]), Operand(node.output, written=True)
    weights = Operand(constant=packed_winograd(spec.tiles, node.inputs[1]))
    epilogue = tuple(Operand(tensor) for tensor in (bias, residual) if tensor)
    if not name.endswith(STAGED):
        return (Step(spec, (x, weights, out, *epilogue), node.origin),)
    three = staged_kernels(spec)

    def workspace(at: int, written: bool = False) -> Operand:
        return Operand(written=written, workspace_bytes=three.workspace_bytes, offset=at)

    return (
        Step(three.inputs, (x, workspace(0, True)), node.origin),
        Step(three.products, (workspace(0), weights, workspace(three.sums_at, True)), node.origin),
        Step(three.output, (workspace(three.sums_at), out, *epilogue), node.origin),
    )
