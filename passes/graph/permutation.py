"""Orders of dimensions: permutations, operators that work in any order, and the orders that readers of a tensor prefer.

A permutation is as transpose takes it: dimension i of the result is dimension perm[i] of its input.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mavcg.graph import AttrValue, Graph, Node
from mavcg.graph.ops.elementwise import ARITHMETIC, COMPARISONS, LOGICAL, UNARY
from mavcg.graph.ops.reduction import REDUCTIONS

Perm = tuple[int, ...]
T = TypeVar("T")


def identity(rank: int) -> Perm:
    """Return the identity permutation."""
    return tuple(range(rank))


def compose(first: Perm, second: Perm) -> Perm:
    """Return the permutation of a transpose that equals transpose by `first`, then by `second`."""
    return tuple(first[i] for i in second)


def inverse(perm: Perm) -> Perm:
    """Return the inverse permutation."""
    return tuple(perm.index(i) for i in range(len(perm)))


def scatter(values: Sequence[T], perm: Perm) -> tuple[T, ...]:
    """Permute values, one per dimension of transpose(x, perm), into the order of x's dimensions."""
    return tuple(values[i] for i in inverse(perm))


def moves(shape: Sequence[int], perm: Perm) -> bool:
    """True if transposing a tensor of this shape moves elements: moving dimensions of length 1 does not."""
    long = [i for i in perm if shape[i] != 1]
    return long != sorted(long)


@dataclass(frozen=True)
class Group:
    """Adjacent dimensions that a reshape splits and merges independently of the others; none has length 1.

    before: dimensions of the reshape's input, after: of its result; both in ascending order.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]


def reshape_groups(before: Sequence[int], after: Sequence[int]) -> tuple[Group, ...]:
    """Divide a reshape's dimensions into the smallest groups with equal products of lengths, none of which is 0."""
    left = [i for i, n in enumerate(before) if n != 1]
    right = [i for i, n in enumerate(after) if n != 1]
    groups = []
    while left and right:
        ins, outs = [left.pop(0)], [right.pop(0)]
        a, b = before[ins[0]], after[outs[0]]
        while a != b:
            if a < b:
                ins.append(left.pop(0))
                a *= before[ins[-1]]
            else:
                outs.append(right.pop(0))
                b *= after[outs[-1]]
        groups.append(Group(tuple(ins), tuple(outs)))
    return tuple(groups)


def after_groups(groups: Sequence[Group], after: Sequence[int]) -> Perm:
    """Return the dimensions of a reshape's result in the order of the given groups.

    A dimension of length 1 stays behind the dimension that precedes it in the result, so that groups in their original
    order give the identity.
    """
    tails: dict[int, list[int]] = {}
    last = -1
    for i, length in enumerate(after):
        if length != 1:
            last = i
        else:
            tails.setdefault(last, []).append(i)
    order = tails.get(-1, [])
    for group in groups:
        for i in group.after:
            order = [*order, i, *tails.get(i, [])]
    return tuple(order)


ELEMENTWISE = frozenset(
    (*(op.name for op in UNARY), *ARITHMETIC, *COMPARISONS, *LOGICAL, "prelu", "where", "cast", "broadcast_to")
)
OVER_AXES = frozenset((*REDUCTIONS, "arg_max", "arg_min"))
BY_ENTRY = frozenset(("slice", "pad"))
OVER_ALL = frozenset(("dynamic_range",))  # reductions over all elements
BY_AXIS = frozenset(
    ("softmax", "log_softmax", "cumulative_sum", "cumulative_prod", "resample", "quantize", "dequantize", "concat")
)


def indifferent(node: Node) -> bool:
    """True if an operator works in any order of dimensions once its attributes are changed accordingly."""
    return (
        node.op in ELEMENTWISE
        or node.op in OVER_AXES
        or node.op in OVER_ALL
        or node.op in BY_ENTRY
        or node.op in BY_AXIS
        or node.op in ("transpose", "reshape")
    )


def operands_in_order(node: Node) -> tuple[str, ...]:
    """Return the inputs whose dimensions are in the order of the result, unlike scales or indices."""
    return node.inputs if node.op in ELEMENTWISE or node.op == "concat" else node.inputs[:1]


def reorder_attributes(node: Node, perm: Perm) -> tuple[dict[str, AttrValue], Perm]:
    """Return a node's attributes for operands in another order of dimensions, and the order of its result.

    perm: the node's operands are transpose(new operand, perm); its result is transpose(new result, returned order).
    """
    attrs = dict(node.attrs)
    if node.op in BY_ENTRY:
        names = ("starts", "stops", "steps") if node.op == "slice" else ("before", "after")
        return attrs | {name: scatter(node.attr(name), perm) for name in names}, perm
    if node.op == "broadcast_to":
        return attrs | {"shape": scatter(node.attr("shape"), perm)}, perm
    if node.op in BY_AXIS:
        axis = node.attr("axis")
        return attrs | {"axis": perm[axis] if axis < len(perm) else axis}, perm
    if node.op in OVER_ALL:
        return attrs, identity(1)
    if node.op not in OVER_AXES:
        return attrs, perm
    axes = node.attr("axes") if "axes" in attrs else (node.attr("axis"),)
    reduced = sorted(perm[i] for i in axes)
    attrs |= {"axes": tuple(reduced)} if "axes" in attrs else {"axis": reduced[0]}
    if node.attr("keepdims"):
        return attrs, perm
    remaining = [i for i in range(len(perm)) if i not in reduced]
    return attrs, tuple(remaining.index(perm[i]) for i in range(len(perm)) if i not in axes)


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
