"""Right sides of products whose columns lie apart by a length of the run: a transpose, then a product without it.

A product of one length reads such a side element by element (`transpose_b`), at distances that are constants of its
code. Terms and their order are the same.
"""

from collections.abc import Sequence
from dataclasses import replace

from mavcg.graph import Graph, Node
from mavcg.graph.ops import make_node


def with_transposed_sides(graphs: Sequence[Graph]) -> list[Graph]:
    """Return the graphs for kernel_samples with a transpose of each right side of other terms at other lengths."""
    longest = graphs[0]

    def is_long(node: Node) -> bool:
        if node.op != "matmul" or not node.attr("transpose_b") or node.inputs[1] in longest.constants:
            return False
        return len({graph.types[node.inputs[1]].shape[-1] for graph in graphs}) > 1

    products = {node.output for node in longest.nodes if is_long(node)}
    return [_with_transposes(graph, products) for graph in graphs] if products else list(graphs)


def _with_transposes(graph: Graph, products: set[str]) -> Graph:
    """Return a graph with transposed right sides of some products, by their result."""
    types, nodes = dict(graph.types), list[Node]()
    for node in graph.nodes:
        if node.outputs[0] in products:
            left, right, *others = node.inputs
            side, rank = f"{node.output}, right side", len(types[right].shape)
            order = (*range(rank - 2), rank - 1, rank - 2)
            nodes.append(make_node("transpose", (right,), (side,), node.origin, perm=order))
            types[side] = replace(types[right], shape=tuple(types[right].shape[i] for i in order))
            node = replace(node, inputs=(left, side, *others)).with_attrs(transpose_b=False)
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), types=types)
