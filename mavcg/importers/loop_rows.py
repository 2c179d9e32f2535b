"""Rows of loops that a file reads and writes by the number of the iteration, and states of loops that nothing needs.

    %i = loop_state(0) loop=0 ...              # counts up to the number of rows
    %x_t = gather(%x, %i)                 ->   %x_t = loop_slice(%x) loop=0 ...
    %rows = loop_state(%empty) loop=0 ...
    %more = scatter(%rows, %i, %sum)
    ... loop_final(%more's next) ...      ->   loop_stack(%sum, ...) loop=0 ...

A row is then a place that advances, and nothing is copied. What an index is in each iteration follows from constants.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.graph import Array, Graph, Node, TensorType, fresh_name, prune
from mavcg.graph.ops import make_node
from mavcg.graph.ops.loops import LOOP_OPS, loop_levels, loops_around
from mavcg.graph.reference import evaluate

MOST_EVALUATED = 1 << 16  # nodes of an index times iterations: a second or two


@dataclass(frozen=True)
class _CountedLoop:
    """A loop without a condition. trips: its iterations. place: attributes of its operators. nexts: by state."""

    number: int
    trips: int
    place: Mapping[str, int]
    nexts: Mapping[str, Node]


def with_rows(graph: Graph) -> Graph:
    """Return the graph with rows of loops in place of gathers and scatters by the number of the iteration."""
    conditional = {n.attr("loop") for n in graph.nodes if n.op == "loop_state" and n.attr("condition")}
    begins = {n.attr("loop"): n for n in graph.nodes if n.op == "loop_state" and n.attr("loop") not in conditional}
    for number, begin in begins.items():
        nexts = {n.inputs[0]: n for n in graph.nodes if n.op == "loop_next" and n.attr("loop") == number}
        place = {"loop": number, "within": begin.attr("within")}
        graph = _with_rows_of(graph, _CountedLoop(number, begin.attr("trips"), place, nexts))
    return prune(_without_dead_states(graph)) if begins else graph


def _with_rows_of(graph: Graph, loop: _CountedLoop) -> Graph:
    _, levels = loop_levels(graph.nodes)
    paths = loops_around(graph.nodes)
    indices = {
        n.inputs[1]
        for n in graph.nodes
        if levels.get(n.output) == loop.number
        and ((n.op == "gather" and n.attr("axis") == 0) or (n.op == "scatter" and n.attr("reduction") == "none"))
        and graph.types[n.inputs[1]].elements == 1
    }
    ranges = {
        name: rows_range
        for name, values in _values(graph, loop, indices).items()
        if (rows_range := _range_of(values)) is not None
    }
    if not ranges:
        return graph
    types, made = dict(graph.types), list[Node]()

    def add(op: str, inputs: Sequence[str], output: str, kind: TensorType, origin: str, **attrs: object) -> str:
        name = output if output not in types else fresh_name(types, output)
        types[name] = kind
        made.append(make_node(op, inputs, (name,), origin, **attrs))
        return name

    stacked = _written_rows(graph, loop, ranges)
    for node in graph.nodes:
        x = node.inputs[0] if node.inputs else ""
        outside = x not in graph.constants and loop.number not in paths[levels.get(x, -1)]
        if node.op == "gather" and node.inputs[1] in ranges and node.attr("axis") == 0 and outside:
            first, back = ranges[node.inputs[1]]
            kind, shape = graph.types[x], (loop.trips, *graph.types[x].shape[1:])
            if 0 <= first <= kind.shape[0] - loop.trips:
                if kind.shape != shape:
                    starts, stops = (first, *(0 for _ in shape[1:])), (first + loop.trips, *shape[1:])
                    steps = (1,) * len(shape)
                    x = add(
                        "slice",
                        [x],
                        f"{node.output}.rows",
                        TensorType(kind.dtype, shape),
                        node.origin,
                        starts=starts,
                        stops=stops,
                        steps=steps,
                    )
                row = TensorType(kind.dtype, shape[1:])
                x = add("loop_slice", [x], f"{node.output}.row", row, node.origin, **loop.place, reverse=back)
                made.append(make_node("reshape", (x,), node.outputs, node.origin, shape=types[node.output].shape))
                continue
        if node.op == "loop_final" and node.inputs[0] in stacked:
            update, back = stacked[node.inputs[0]]
            kind, others = types[node.output], [name for name in node.inputs if name not in stacked]
            row = TensorType(kind.dtype, kind.shape[1:])
            x = add("reshape", [update], f"{node.output}.row", row, node.origin, shape=row.shape)
            place = {**loop.place, "trips": loop.trips, "reverse": back}
            made.append(make_node("loop_stack", (x, *others), node.outputs, node.origin, **place))
            continue
        if node.op in ("loop_final", "loop_stack"):
            node = replace(node, inputs=tuple(name for name in node.inputs if name not in stacked))
        made.append(node)
    return replace(graph, nodes=tuple(made), types=types)


def _range_of(values: Sequence[Array]) -> tuple[int, bool] | None:
    """Return (least, whether it counts down) of an index that takes all values of a range in order; else None."""
    numbers = [int(value.reshape(())) for value in values]
    up, down = (list(range(numbers[0], numbers[0] + step * len(numbers), step)) for step in (1, -1))
    return (min(numbers), numbers != up) if numbers in (up, down) else None


def _values(graph: Graph, loop: _CountedLoop, names: Collection[str]) -> dict[str, list[Array]]:
    """Return these tensors of a loop's body in each iteration, as far as they follow from constants."""
    producers = graph.producers()

    def ancestors(name: str) -> list[Node] | None:
        """Return the nodes from which a tensor follows, through states too; None if not from constants alone."""
        nodes, waiting, seen = list[Node](), [name], set[str]()
        while waiting:
            tensor = waiting.pop()
            if tensor in seen or tensor in graph.constants:
                continue
            seen.add(tensor)
            node = producers.get(tensor)
            own = node is not None and node.op == "loop_state" and tensor in loop.nexts
            if node is None or (node.op in LOOP_OPS and not own) or len(nodes) * loop.trips > MOST_EVALUATED:
                return None
            nodes.append(node)
            if own and node.inputs[0] not in graph.constants:
                return None
            waiting += [loop.nexts[tensor].inputs[1]] if own else filter(None, node.inputs)
        return nodes

    found: dict[str, list[Array]] = {}
    for name in sorted(names):
        needed = {id(node) for node in ancestors(name) or ()}
        nodes = [node for node in graph.nodes if id(node) in needed]
        if not nodes:
            continue
        states = {n.output: graph.constants[n.inputs[0]] for n in nodes if n.op == "loop_state"}
        for _ in range(loop.trips):
            arrays = {**graph.constants, **states}
            for node in nodes:
                if node.op != "loop_state":
                    results = evaluate(node, [arrays[i] if i else None for i in node.inputs])
                    arrays.update(zip(node.outputs, results, strict=True))
            found.setdefault(name, []).append(arrays[name])
            states = {state: arrays[loop.nexts[state].inputs[1]] for state in states}
    return found


def _written_rows(
    graph: Graph, loop: _CountedLoop, ranges: Mapping[str, tuple[int, bool]]
) -> dict[str, tuple[str, bool]]:
    """Return (row, whether from the last one on) of each state that a loop fills row by row, by the state's next."""
    producers, readers = graph.producers(), graph.readers()
    rows: dict[str, tuple[str, bool]] = {}
    for state, following in loop.nexts.items():
        kind = graph.types[state]
        written, scatter = following.inputs[1], None
        while (node := producers.get(written)) is not None and node.op in ("reshape", "scatter"):
            if len(readers.get(written, ())) != 1 or written in graph.outputs or (scatter and node.op == "scatter"):
                break
            scatter = node if node.op == "scatter" else scatter
            written = node.inputs[0]
        read = [node for node in readers.get(state, ()) if node is not following]
        if written != state or scatter is None or len(read) != 1 or not kind.shape or kind.shape[0] != loop.trips:
            continue
        rows_range, update = ranges.get(scatter.inputs[1]), scatter.inputs[2]
        if rows_range is not None and rows_range[0] == 0 and graph.types[update].elements * loop.trips == kind.elements:
            rows[following.output] = update, rows_range[1]
    return rows


def _without_dead_states(graph: Graph) -> Graph:
    """Return the graph without states that no result depends on; the ends of a loop name only others."""
    producers = graph.producers()
    nexts = {n.inputs[0]: n.output for n in graph.nodes if n.op == "loop_next"}
    conditions = {n.attr("loop"): n.output for n in graph.nodes if n.op == "loop_state" and n.attr("condition")}
    live, waiting = set[str](), list(graph.outputs)
    while waiting:
        name = waiting.pop()
        if not name or name in live:
            continue
        live.add(name)
        node = producers.get(name)
        if node is None:
            continue
        waiting += node.inputs[:1] if node.op in ("loop_final", "loop_stack") else node.inputs
        if name in nexts:
            waiting.append(nexts[name])
        if node.op in LOOP_OPS and node.attr("loop") in conditions:
            waiting.append(conditions[node.attr("loop")])
    nodes = (
        replace(node, inputs=(node.inputs[0], *(name for name in node.inputs[1:] if name in live)))
        if node.op in ("loop_final", "loop_stack")
        else node
        for node in graph.nodes
        if any(name in live for name in node.outputs)
    )
    return replace(graph, nodes=tuple(nodes))
