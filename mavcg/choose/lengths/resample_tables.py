"""Tables of a Resize whose factor follows from the lengths, as operators on the lengths of its axis before and after.

A file's tables are those of one length. Where an operator resizes to a size, or aligns corners, a run computes them by
the rule that its importer names (passes/graph/resize_tables.py). Where the factor is the same whole number at all
lengths, the table of the longest length begins with those of the others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mavcg.choose.lengths.length_numbers import length_input
from mavcg.choose.lengths.samples import AxisCounts, Lengths, Refusal
from mavcg.graph import Array, Graph, Node, TensorType
from mavcg.graph.counts import Count, is_symbolic, product_of, text_of, value_at
from mavcg.passes.graph.resize_tables import Operators, has_rule, tables_by_rule
from mavcg.passes.graph.rewrite import Rewrite


@dataclass(frozen=True)
class ResizedAxis:
    """The lengths of a resized axis before and after. computed: True if a run computes its tables."""

    before: Count
    after: Count
    computed: bool


Resized = Mapping[tuple[str, int], ResizedAxis]  # by the node of the file, and the number of its axis


def resized_axes(graph: Graph, axes: Mapping[str, AxisCounts]) -> Resized:
    """Return the lengths of the axes that are resized by a rule. axes: counts of the axes of all tensors."""
    found = dict[tuple[str, int], ResizedAxis]()
    for node, key in _numbered_nodes(graph):
        axis = node.attr("axis")
        before, after = axes[node.inputs[0]][axis], axes[node.output][axis]
        factor = graph.types[node.output].shape[axis] // max(1, graph.types[node.inputs[0]].shape[axis])
        whole = after == product_of(factor, before) and "align_corners" not in node.attr("rule")
        found[key] = ResizedAxis(before, after, (is_symbolic(before) or is_symbolic(after)) and not whole)
    return found


def _numbered_nodes(graph: Graph) -> list[tuple[Node, tuple[str, int]]]:
    """Return the nodes with a rule, each with its key: passes rename them, and keep their order."""
    numbers = Counter[str]()
    found = list[tuple[Node, tuple[str, int]]]()
    for node in graph.nodes:
        if has_rule(node):
            found.append((node, (node.origin, numbers[node.origin])))
            numbers[node.origin] += 1
    return found


def resized_lengths(graph: Graph, resized: Resized) -> Mapping[str, Sequence[Count]]:
    """Return the length of each resized axis of an optimised graph, by the node's output."""
    return {node.output: [resized[key].after] for node, key in _numbered_nodes(graph) if key in resized}


def with_computed_tables(
    graphs: Sequence[Graph], samples: Sequence[Lengths], resized: Resized, refusal: Refusal
) -> tuple[list[Graph], Mapping[str, AxisCounts]]:
    """Return the optimised graphs with operators that compute tables, on inputs that are lengths of axes.

    The second result has the counts of the axes of new tensors. Tables of equal rules and lengths are computed once.
    Raises: MavcgError, made by `refusal`, for a node whose axes are not those of the file.
    """
    counts = dict[str, AxisCounts]()
    made = [_with_tables(graph, at, resized, counts, refusal) for graph, at in zip(graphs, samples, strict=True)]
    return made, counts


def _with_tables(
    graph: Graph, sample: Lengths, resized: Resized, counts: dict[str, AxisCounts], refusal: Refusal
) -> Graph:
    at = dict[str, ResizedAxis]()
    for node, key in _numbered_nodes(graph):
        axis = resized.get(key)
        number = node.attr("axis")
        lengths = [graph.types[name].shape[number] for name in (node.inputs[0], node.output)]
        if axis is None or lengths != [value_at(axis.before, sample), value_at(axis.after, sample)]:
            raise refusal(
                node, f"resizes axis {number} from {lengths[0]} to {lengths[1]}, which no axis of the file has"
            )
        at |= {node.output: axis} if axis.computed else {}
    words = dict.fromkeys(length_input(text_of(n)) for each in at.values() for n in (each.before, each.after))
    types = dict(graph.types) | dict.fromkeys(words, TensorType("i32", ()))
    inputs = tuple(dict.fromkeys((*graph.inputs, *words)))
    new = Rewrite(replace(graph, inputs=inputs, types=types))
    shared = dict[tuple[str, str, ResizedAxis], tuple[str, str | None]]()
    for node in graph.nodes:
        axis = at.get(node.output)
        if axis is None:
            new.keep(node)
            continue
        tables_of = node.op, str(node.attr("rule")), axis
        if tables_of not in shared:
            shared[tables_of] = _added_tables(new, node, axis, counts)
        index, weight = shared[tables_of]
        tables = (index, *((weight or name) for name in node.inputs[2:]))
        new.put(replace(node, inputs=(new.of(node.inputs[0]), *tables)))
    return new.finish()


def _added_tables(new: Rewrite, node: Node, axis: ResizedAxis, counts: dict[str, AxisCounts]) -> tuple[str, str | None]:
    """Add the operators of a node's tables. counts: to which those of new tensors are added."""
    after = new.types[node.output].shape[node.attr("axis")]

    def add_counts(name: str) -> str:
        shape = new.types[name].shape
        counts[name] = (axis.after, *shape[1:]) if shape and shape[0] == after > 1 else shape
        return name

    def constant(array: Array) -> str:
        return add_counts(new.constant(array, f"{node.output}, constant"))

    def add(op: str, *inputs: str, **attributes: Any) -> str:
        return add_counts(new.add(op, inputs, f"{node.output}, {op}", node.origin, **attributes))

    before, made = (length_input(text_of(n)) for n in (axis.before, axis.after))
    return tables_by_rule(node, after, before, made, Operators(constant, add))
