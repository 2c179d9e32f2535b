"""Loops in the assignment of tensors to buffers: which nodes a run repeats, and which values need copies for that."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from mavcg.graph import Graph, Node, fresh_name
from mavcg.graph.ops import make_node
from mavcg.graph.ops.loops import LOOP_OPS, LoopRange, order_by_loops, ranges_at

_VIEWS = frozenset({"reshape", "slice", "loop_enter", "loop_slice"})  # their results may lie in their input's buffer


def span_of(first: int, last: int, loops: Sequence[LoopRange]) -> tuple[int, int]:
    """Return the nodes during which a buffer is used that nodes first .. last access.

    A buffer that is used in a loop, and outside of it too, keeps its contents in all iterations: until after the loop,
    so that no node of the loop is the last one that reads it.
    """
    if not loops:
        return first, last
    begin, end = ranges_at(first, loops), ranges_at(last, loops)
    both = sum(a is b for a, b in zip(begin, end, strict=False))
    return (begin[both].first if begin[both:] else first), (end[both].last + 1 if end[both:] else last)


def prepare_loops(graph: Graph) -> Graph:
    """Return the graph with each loop's body in one piece, and with the copies that its values need.

    A value that a body does not compute, such as a state as it is, is copied before it becomes the next state, because
    the buffer that it lies in may be overwritten first. The rows of a constant are those of a copy.
    """
    if not any(node.op in LOOP_OPS for node in graph.nodes):
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
    for place, loop in enumerate(loops):
        body = graph.nodes[loop.first : loop.last + 1]
        inner = [r for r in loops if r.parent == place]  # all of which is before or after another node of the body
        uses: dict[str, list[int]] = {}
        for number, node in enumerate(body, loop.first):
            if node.op != "loop_next" or node.attr("loop") != loop.number:
                inputs = node.inputs[:1] if node.op == "loop_stack" else node.inputs  # the others say what is after it
                ends = next(((r.first, r.last) for r in inner if r.first <= number <= r.last), (number, number))
                for name in filter(None, (*inputs, *node.outputs)):
                    if name not in graph.constants:
                        uses.setdefault(root(name), []).extend(ends)
        for node in body:
            if node.op != "loop_next" or node.attr("loop") != loop.number:
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
