"""Operators that mark the body of a loop in a graph, and the order of nodes with loops.

The body lies among the graph's other nodes, once. A run repeats it, so that in each iteration a loop_slice is the next
row of its input and a loop_state what the loop_next of the iteration before has left:

    %h = loop_state(%h0) loop=0 ...            # %h0 before the first iteration
    %x_t = loop_slice(%x) loop=0 ...           # row t of %x
    %sum = add(%x_t, %h)                       # in the body: it depends on both
    %next = loop_next(%h, %sum) loop=0
    %y = loop_stack(%sum, %next) loop=0 ...    # after the loop: all values of %sum, one below the other
    %last = loop_final(%next) loop=0           # after the loop: what the last loop_next has left

A node is in the body if it depends on a slice, a state or another value that enters (loop_enter, loop_copy). Everything
else is computed once. A loop ends early if the state of its condition is false before an iteration.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.graph import Node, TensorType
from mavcg.ops.op import Attr, Operator, TypedNode

MOST_TRIPS = (1 << 31) - 1  # of a loop, as in runtime/program_check.py
_INSIDE = frozenset({"loop_slice", "loop_enter", "loop_copy", "loop_next"})  # in the body, whatever they read
LOOP_OPS = _INSIDE | {"loop_state", "loop_stack", "loop_final"}
_LOOP = {"loop": Attr("int")}
_ROWS = {**_LOOP, "reverse": Attr("bool", False)}


def _same(case: TypedNode) -> tuple[TensorType, ...]:
    case.at_least(0, "loop")
    return (case.type("x"),)


def _state(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x")
    case.at_least(0, "loop", "number")
    case.at_least(1, "trips")
    if case.attr("condition") and (x.dtype != "bool" or x.elements != 1):
        raise case.fail(f"a condition of {x}; one bool is needed")
    return (x,)


def _slice(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x", rank_min=1)
    case.at_least(0, "loop")
    if x.shape[0] < 1:
        raise case.fail(f"rows of {x}; there are none")
    return (TensorType(x.dtype, x.shape[1:]),)


def _next(case: TypedNode) -> tuple[TensorType, ...]:
    state, x = case.type("state"), case.type("x")
    case.at_least(0, "loop")
    if state != x:
        raise case.fail(f"{x} is the next value of {state}")
    return (state,)


def _first(case: TypedNode) -> TensorType:
    first = case.types[0]
    case.at_least(0, "loop")
    if first is None:
        raise case.fail("its input is missing")
    return first


def _stack(case: TypedNode) -> tuple[TensorType, ...]:
    case.at_least(1, "trips")
    x = _first(case)
    return (TensorType(x.dtype, (case.attr("trips"), *x.shape)),)


def _final(case: TypedNode) -> tuple[TensorType, ...]:
    return (_first(case),)


OPS = (
    Operator(
        "loop_state",
        ("x",),
        _state,
        {**_LOOP, "number": Attr("int"), "trips": Attr("int"), "condition": Attr("bool", False)},
    ),
    Operator("loop_slice", ("x",), _slice, _ROWS),
    Operator("loop_enter", ("x",), _same, _LOOP),
    Operator("loop_copy", ("x",), _same, _LOOP),
    Operator("loop_next", ("state", "x"), _next, _LOOP),
    Operator("loop_stack", ("x_and_nexts...",), _stack, {**_ROWS, "trips": Attr("int")}),
    Operator("loop_final", ("next_and_nexts...",), _final, _LOOP),
)


def loop_members(nodes: Sequence[Node]) -> dict[str, int]:
    """Return the loop of each node in a body, by the node's first output. nodes: in topological order."""
    members: dict[str, int] = {}
    carried: dict[str, int] = {}  # tensors whose readers are in a body
    for node in nodes:
        if node.op in ("loop_state", "loop_stack", "loop_final"):
            if node.op != "loop_final":
                (members if node.op == "loop_stack" else carried)[node.outputs[0]] = node.attr("loop")
            continue
        if node.op in _INSIDE:
            loop = node.attr("loop")
        else:
            loop = next((carried[name] for name in node.inputs if name in carried), None)
        if loop is not None:
            members[node.outputs[0]] = loop
            carried.update(dict.fromkeys(node.outputs, loop))
    return members


def order_by_loops(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes with each body in one piece: what it computes, then its stacks, then its next states.

    Stacks are before the next states, because both may read what the states of this iteration hold.
    """
    members = loop_members(nodes)
    if not members:
        return tuple(nodes)
    bodies: dict[int, list[Node]] = {}
    for node in nodes:
        if (loop := members.get(node.outputs[0])) is not None:
            bodies.setdefault(loop, []).append(node)
    made_by = {name: node for node in nodes for name in node.outputs if name}
    last = ("loop_stack", "loop_next")
    ordered: list[Node] = []
    done: set[str] = set()

    def unit(node: Node) -> list[Node]:
        loop = members.get(node.outputs[0])
        return [node] if loop is None else bodies[loop]

    for node in nodes:
        waiting = [unit(node)]
        while waiting:  # what a unit reads, before it
            own = {n.outputs[0] for n in waiting[-1]}
            if waiting[-1][0].outputs[0] in done:
                waiting.pop()
                continue
            readings = (made_by[name] for n in waiting[-1] for name in n.inputs if name in made_by)
            needed = [n for n in readings if n.outputs[0] not in done and n.outputs[0] not in own]
            if needed:
                waiting += [unit(n) for n in reversed(needed)]
                continue
            ordered += sorted(waiting.pop(), key=lambda n: last.index(n.op) + 1 if n.op in last else 0)
            done |= own
    return tuple(ordered)


@dataclass(frozen=True)
class LoopRange:
    """A loop of a graph: nodes first .. last, which are repeated. condition: tensor that ends it; "": there is none."""

    first: int
    last: int
    trips: int
    condition: str = ""


def loop_ranges(nodes: Sequence[Node]) -> tuple[LoopRange, ...]:
    """Return the loops of nodes in an order of order_by_loops, in this order."""
    members = loop_members(nodes)
    if not members:
        return ()
    numbers: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        if (loop := members.get(node.outputs[0])) is not None:
            numbers.setdefault(loop, []).append(number)
    trips = {n.attr("loop"): n.attr("trips") for n in nodes if n.op in ("loop_state", "loop_stack")}
    conditions = {n.attr("loop"): n.output for n in nodes if n.op == "loop_state" and n.attr("condition")}
    ranges = (LoopRange(own[0], own[-1], trips[loop], conditions.get(loop, "")) for loop, own in numbers.items())
    return tuple(sorted(ranges, key=lambda r: r.first))
