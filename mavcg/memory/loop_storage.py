"""Loops in the assignment of tensors to buffers: which nodes a run repeats, and which values need copies for that."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from mavcg.graph import Graph, Node, fresh_name
from mavcg.ops import make_node
from mavcg.ops.loops import LoopRange, order_by_loops

_VIEWS = frozenset({"reshape", "slice", "loop_enter", "loop_slice"})  # their results may lie in their input's buffer


def span_of(first: int, last: int, loops: Sequence[LoopRange]) -> tuple[int, int]:
    """Return the nodes during which a buffer is used that nodes first .. last access.

    A buffer that is used in a loop, and outside of it too, keeps its contents in all iterations: until after the loop,
    so that no node of the loop is the last one that reads it.
    """
    if not loops:
        return first, last
    begin, end = _loop_at(first, loops), _loop_at(last, loops)
    if begin is end:
        return first, last
    return (first if begin is None else begin.first), (last if end is None else end.last + 1)


def _loop_at(number: int, loops: Sequence[LoopRange]) -> LoopRange | None:
    at = bisect_right(loops, number, key=lambda r: r.first) - 1
    return loops[at] if at >= 0 and number <= loops[at].last else None


def prepare_loops(graph: Graph) -> Graph:
    """Return the graph with each loop's body in one piece, and with the copies that its values need.

    A value that a body does not compute, such as a state as it is, is copied before it becomes the next state, because
    the buffer that it lies in may be overwritten first. The rows of a constant are those of a copy.
    """
    if not any(node.op == "loop_state" for node in graph.nodes):
        return graph
    producers, types = graph.producers(), dict(graph.types)
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op == "loop_slice" and node.inputs[0] in graph.constants:
            copy = fresh_name(types, f"{node.inputs[0]}.copy")
            types[copy] = types[node.inputs[0]]
            nodes.append(make_node("reshape", (node.inputs[0],), (copy,), node.origin, shape=types[copy].shape))
            node = replace(node, inputs=(copy,))
        elif node.op == "loop_next" and not _is_computed(node.inputs[1], node.inputs[0], producers):
            copy = fresh_name(types, f"{node.inputs[1]}.copy")
            types[copy] = types[node.inputs[1]]
            nodes.append(make_node("loop_copy", (node.inputs[1],), (copy,), node.origin, loop=node.attr("loop")))
            node = replace(node, inputs=(node.inputs[0], copy))
        nodes.append(node)
    return replace(graph, nodes=order_by_loops(nodes), types=types)


def _is_computed(name: str, state: str, producers: dict[str, Node]) -> bool:
    """Return True if a value is a state's own, or a body's kernel writes it to a buffer of its own."""
    if name == state:
        return True
    while (node := producers.get(name)) is not None and node.op in _VIEWS:
        name = node.inputs[0]
    return node is not None and node.op != "loop_state"


def next_in_place(
    graph: Graph,
    loops: Sequence[LoopRange],
    root: Callable[[str], str],
    free: Callable[[str], bool],
    in_place: Collection[str],
) -> Iterator[Node]:
    """Yield each loop_next whose value may be computed in the buffer of its state, or already is there.

    root: returns the tensor in whose buffer one lies, also after each result was placed. free: tells if a tensor may
    still be placed. in_place: operators that read each element just before they write it.
    """
    numbers = {node.output: number for number, node in enumerate(graph.nodes)}
    for loop in loops:
        body = graph.nodes[loop.first : loop.last + 1]
        uses: dict[str, list[int]] = {}
        for number, node in enumerate(body, loop.first):
            if node.op != "loop_next":
                inputs = node.inputs[:1] if node.op == "loop_stack" else node.inputs  # the others say what is after it
                for name in filter(None, (*inputs, *node.outputs)):
                    if name not in graph.constants:
                        uses.setdefault(root(name), []).append(number)
        for node in body:
            if node.op != "loop_next":
                continue
            state, value = node.inputs
            if state == value:
                yield node
                continue
            at = numbers.get(value, -1)
            if not free(value) or not loop.first <= at <= loop.last:
                continue
            last_read, first_access = max(uses.get(root(state), [-1])), min(uses[value])
            maker = graph.nodes[at]
            read = [name for name in maker.inputs if name and name not in graph.constants and root(name) == root(state)]
            elementwise = maker.op in in_place and read == [state] and state in maker.inputs[:2]
            if last_read < first_access or (last_read == first_access == at and elementwise):
                yield node
