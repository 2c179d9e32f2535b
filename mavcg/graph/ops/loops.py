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
else is computed once. A loop ends early if the state of its condition is false before an iteration. A loop may be in
the body of another one, which `within` names: it is run from its first values on in each iteration of that.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.graph import Node, TensorType
from mavcg.graph.counts import Count
from mavcg.graph.ops.op import Attr, Operator, TypedNode

OUTSIDE = -1  # in place of a loop's number: the graph itself
MOST_TRIPS = (1 << 31) - 1  # of a loop, as in runtime/program_check.py
_BEGIN = frozenset({"loop_state", "loop_slice", "loop_enter", "loop_stack"})  # which say what their loop is within
LOOP_OPS = _BEGIN | {"loop_copy", "loop_next", "loop_final"}
_LOOP = {"loop": Attr("int")}
_FIRST = {**_LOOP, "within": Attr("int", OUTSIDE)}  # of the operators by which a body begins or ends
_ROWS = {**_FIRST, "reverse": Attr("bool", False)}


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
        {**_FIRST, "number": Attr("int"), "trips": Attr("int"), "condition": Attr("bool", False)},
    ),
    Operator("loop_slice", ("x",), _slice, _ROWS),
    Operator("loop_enter", ("x",), _same, _FIRST),
    Operator("loop_copy", ("x",), _same, _LOOP),
    Operator("loop_next", ("state", "x"), _next, _LOOP),
    Operator("loop_stack", ("x_and_nexts...",), _stack, {**_ROWS, "trips": Attr("int")}),
    Operator("loop_final", ("next_and_nexts...",), _final, _LOOP),
)


def loops_around(nodes: Sequence[Node]) -> dict[int, tuple[int, ...]]:
    """Return the loops in whose bodies each loop is, from the outermost one to itself; of OUTSIDE, none."""
    within = {n.attr("loop"): n.attr("within") for n in nodes if n.op in _BEGIN}
    paths: dict[int, tuple[int, ...]] = {OUTSIDE: ()}
    for loop in within:
        chain = [loop]
        while chain[-1] not in paths and len(chain) <= len(within):
            chain.append(within.get(chain[-1], OUTSIDE))
        while len(chain) > 1:
            around = chain.pop()
            paths[chain[-1]] = (*paths[around], chain[-1])
    return paths


def loop_members(nodes: Sequence[Node]) -> dict[str, int]:
    """Return the innermost loop of each node in a body, by the node's first output. nodes: in topological order."""
    return loop_levels(nodes)[0]


def loop_levels(nodes: Sequence[Node]) -> tuple[dict[str, int], dict[str, int]]:
    """Return (loop_members, the loop in whose body each tensor is read). They differ in what a loop begins and ends
    with: a stack is written in its loop, and read around it."""
    paths = loops_around(nodes)
    if len(paths) == 1:
        return {}, {}
    members: dict[str, int] = {}
    carried: dict[str, int] = {}  # tensors whose readers are in a body
    for node in nodes:
        own = node.attr("loop") if node.op in LOOP_OPS else OUTSIDE
        outer = paths[own][-2] if len(paths[own]) > 1 else OUTSIDE
        if node.op in ("loop_state", "loop_final"):
            runs, read = outer, own if node.op == "loop_state" else outer
        elif node.op == "loop_stack":
            runs, read = own, outer
        else:
            read = [own, *(carried[name] for name in node.inputs if name in carried and own == OUTSIDE)]
            runs = read = max(read, key=lambda loop: len(paths[loop]))
        if runs != OUTSIDE:
            members[node.outputs[0]] = runs
        if read != OUTSIDE:
            carried.update(dict.fromkeys(node.outputs, read))
    return members, carried


def order_by_loops(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes with each body in one piece: what it computes, then its stacks, then its next states.

    Stacks are before the next states, because both may read what the states of this iteration hold.
    """
    members = loop_members(nodes)
    if not members:
        return tuple(nodes)
    paths = loops_around(nodes)
    return tuple(_in_pieces(nodes, OUTSIDE, {name: paths[loop] for name, loop in members.items()}))


_LAST = ("loop_stack", "loop_next")  # of a body, in this order


def _in_pieces(nodes: Sequence[Node], level: int, paths: Mapping[str, tuple[int, ...]]) -> list[Node]:
    """Return the nodes of a body, or the graph, in an order of order_by_loops. paths: loops around nodes in bodies."""
    pieces: dict[int | str, list[Node]] = {}  # nodes, and the bodies of loops in this one
    piece_of: dict[str, int | str] = {}
    for node in nodes:
        path = paths.get(node.outputs[0], ())
        inside = path[0 if level == OUTSIDE else path.index(level) + 1 :]
        piece = inside[0] if inside else node.outputs[0]
        pieces.setdefault(piece, []).append(node)
        piece_of.update((name, piece) for name in node.outputs if name)
    ordered: list[Node] = []
    last: dict[str, list[Node]] = {op: [] for op in _LAST}
    done: set[int | str] = set()
    for first in pieces:
        waiting = [first]
        while waiting:  # what a piece reads, before it
            piece = waiting[-1]
            readings = () if piece in done else (name for node in pieces[piece] for name in node.inputs)
            read = dict.fromkeys(piece_of[name] for name in readings if name in piece_of)
            needed = [other for other in read if other not in done and other != piece]
            if needed:
                waiting += reversed(needed)
                continue
            waiting.pop()
            if piece in done:
                continue
            done.add(piece)
            own = pieces[piece]
            if isinstance(piece, int):
                ordered += _in_pieces(own, piece, paths)
            else:
                last.get(own[0].op if level != OUTSIDE else "", ordered).extend(own)
    return [*ordered, *(node for op in _LAST for node in last[op])]


@dataclass(frozen=True)
class LoopRange:
    """A loop of a graph: nodes first .. last, which are repeated.

    number: of the loop. condition: tensor that ends it; "": there is none. parent: position of the loop around it in a
    sequence of ranges; -1: there is none. trip_count: number of iterations of a run, where it follows from its lengths;
    trips is that of the longest ones.
    """

    first: int
    last: int
    trips: int
    condition: str = ""
    number: int = 0
    parent: int = -1
    trip_count: Count | None = None


def loop_ranges(nodes: Sequence[Node]) -> tuple[LoopRange, ...]:
    """Return the loops of nodes in an order of order_by_loops, in this order; one that is in another comes after it."""
    members = loop_members(nodes)
    if not members:
        return ()
    paths = loops_around(nodes)
    numbers: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        for loop in paths[members.get(node.outputs[0], OUTSIDE)]:
            numbers.setdefault(loop, []).append(number)
    trips = {n.attr("loop"): n.attr("trips") for n in nodes if n.op in ("loop_state", "loop_stack")}
    conditions = {n.attr("loop"): n.output for n in nodes if n.op == "loop_state" and n.attr("condition")}
    order = sorted(numbers, key=lambda loop: (numbers[loop][0], len(paths[loop])))
    places = {loop: place for place, loop in enumerate(order)}
    return tuple(
        LoopRange(
            numbers[loop][0],
            numbers[loop][-1],
            trips[loop],
            conditions.get(loop, ""),
            loop,
            places[paths[loop][-2]] if len(paths[loop]) > 1 else -1,
        )
        for loop in order
    )


def ranges_at(number: int, loops: Sequence[LoopRange]) -> tuple[LoopRange, ...]:
    """Return the loops that repeat a node, from the outermost one on."""
    at = bisect_right(loops, number, key=lambda r: r.first) - 1
    around = []
    while at >= 0:
        if number <= loops[at].last:
            around.append(loops[at])
        at = loops[at].parent
    return tuple(reversed(around))
