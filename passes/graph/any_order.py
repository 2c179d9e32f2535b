"""Finds operators that work in any order of dimensions, and rewrites their attributes for another order."""

from mavcg.graph import AttrValue, Node
from mavcg.ops.elementwise import ARITHMETIC, COMPARISONS, LOGICAL, UNARY
from mavcg.ops.reduction import REDUCTIONS
from mavcg.passes.graph.permutation import Perm, identity, scatter

ELEMENTWISE = frozenset(
    (*(op.name for op in UNARY), *ARITHMETIC, *COMPARISONS, *LOGICAL, "prelu", "where", "cast", "broadcast_to")
)
OVER_AXES = frozenset((*REDUCTIONS, "arg_max", "arg_min"))
BY_ENTRY = frozenset(("slice", "pad"))
OVER_ALL = frozenset(("dynamic_range",))  # reductions over all elements
BY_AXIS = frozenset(("softmax", "log_softmax", "resample", "quantize", "dequantize", "concat"))


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
