"""Computes which orders of dimensions the readers of each tensor prefer, for the pass over transposes."""

from collections.abc import Mapping

from mavcg.graph import Graph, Node
from mavcg.passes.graph.any_order import BY_AXIS, BY_ENTRY, ELEMENTWISE, OVER_ALL, OVER_AXES
from mavcg.passes.graph.permutation import Perm, after_groups, compose, identity, reshape_groups

MANY = 4  # maximum of preferred orders per tensor

PreferredOrders = Mapping[str, frozenset[Perm]]


def preferred_orders(graph: Graph) -> PreferredOrders:
    """Return tensor -> orders that its direct and indirect readers prefer; the identity is its order in the graph.

    A tensor without an entry, or with an empty one, may have any order.
    """
    preferred = {name: _as_it_is(graph, name) for name in graph.outputs}
    for node in reversed(graph.nodes):
        # If only one dimension is longer than 1, all orders are equal in memory.
        orders = preferred.get(node.output, frozenset()) if _long(graph, node.output) > 1 else frozenset()
        for name, orders_of_input in _orders_of_inputs(graph, node, orders).items():
            preferred[name] = frozenset(sorted(preferred.get(name, frozenset()) | orders_of_input)[:MANY])
    return preferred


def _orders_of_inputs(graph: Graph, node: Node, orders: frozenset[Perm]) -> dict[str, frozenset[Perm]]:
    """Return input -> orders that a node prefers for it if the node's readers prefer `orders` for its output."""
    first = node.inputs[0]
    if node.op == "transpose":
        return {first: frozenset(compose(node.attr("perm"), order) for order in orders)}
    if node.op == "reshape" and graph.types[first].elements:
        return {first: frozenset(_before_reshape(graph, node, order) for order in orders)}
    if node.op in ELEMENTWISE or node.op == "concat":
        out_rank = len(graph.shape(node.output))
        return {name: orders for name in node.inputs if len(graph.shape(name)) == out_rank}
    if node.op in OVER_ALL:
        return {}
    if node.op in OVER_AXES:
        return {first: orders} if node.attr("keepdims") else {}
    if node.op in BY_ENTRY or node.op in BY_AXIS:
        return {first: orders}
    return {name: _as_it_is(graph, name) for name in node.inputs if name}


def _as_it_is(graph: Graph, name: str) -> frozenset[Perm]:
    return frozenset((identity(len(graph.shape(name))),))


def _long(graph: Graph, name: str) -> int:
    return sum(length != 1 for length in graph.shape(name))


def _before_reshape(graph: Graph, node: Node, order: Perm) -> Perm:
    """Return the order of a reshape's input for which its result comes closest to `order` without moving elements."""
    before, after = graph.shape(node.inputs[0]), node.attr("shape")
    groups = reshape_groups(before, after)
    arranged = sorted(groups, key=lambda group: min(order.index(i) for i in group.after))
    flipped = [type(group)(group.after, group.before) for group in arranged]
    return after_groups(flipped, before)
