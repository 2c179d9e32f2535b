"""Checks that graphs of one model, read for several lengths of its dimensions, differ in these lengths only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mavcg.choose.lengths.samples import (
    AxisCounts,
    Lengths,
    ShapeSample,
    dimensions_text,
    fit_count,
    lengths_text,
    remedy_text,
)
from mavcg.choose.lengths.window_pads import CONVOLUTIONS, POOLS
from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node
from mavcg.graph.counts import Count, Dimension, value_at
from mavcg.passes.graph.resize_tables import follows_rule, has_rule

_INDEX_ATTRS = ("lengths", "strides", "offsets")  # of flat_index, which follow from the shape that is indexed
# Operators that are not in the graph at lengths without a use for them: copies, and a resize with its transposes.
_COPIES = ("broadcast_to", "reshape", "slice")
_OF_RESIZES = ("transpose", "resample")


@dataclass(frozen=True)
class GraphComparison:
    """Compares the graph for the longest lengths with those for others.

    trips: the number of iterations of each node of a loop, by its output, where it follows from the lengths.
    """

    most: Graph
    dimensions: Sequence[Dimension]
    trips: Mapping[str, Count]

    def check(self, graph: Graph, lengths: Lengths) -> ShapeSample:
        """Return the types of the tensors of a graph that differs from that for the longest lengths in lengths only.

        They have the names of the latter, of which copies may be missing where they copy all (check_copies).
        Raises: MavcgError for another graph.
        """
        most = self.most
        names = {name: name for name in most.inputs}  # of tensors in the graph that is compared
        nodes = dict[str, Node]()
        resizes = {node.origin for node in most.nodes if node.op == "resample"}
        others = iter(graph.nodes)
        b = next(others, None)
        for a in most.nodes:
            same = b is not None and a.op == b.op and self._same_inputs(a, b, names, graph, lengths)
            missing = a.op in _COPIES and (1 in lengths.values() or a.op == "slice")
            missing |= a.op in _OF_RESIZES and a.origin in resizes
            if same and b is not None and (missing or a.op in _COPIES):
                same = a.origin == b.origin  # not the next node, which reads the same where this one copies all
            if same and b is not None and a.op == "reshape":
                same = len(a.attr("shape")) == len(b.attr("shape"))
            if same and b is not None and a.op == "resample":
                same = a.attr("axis") == b.attr("axis")
            if not same and missing and a.inputs[0] in names:
                names[a.output] = names[a.inputs[0]]
                continue
            if b is None or not same:
                raise self.refusal(a, f"is another one at {self._at(lengths)}")
            names |= zip(a.outputs, b.outputs, strict=True)
            nodes[a.outputs[0]] = b
            self._check_types(a, b, graph, lengths)
            if a.attrs != b.attrs and not (_follows_shapes(a, b, most, graph) or self._has_trips(a, b, lengths)):
                raise self.refusal(a, f"has other attributes at {self._at(lengths)}: {_changes(a, b)}")
            b = next(others, None)
        ends = [names.get(name, name) for name in most.outputs]
        copied = _copied_outputs(graph, [] if b is None else [b, *others])
        if copied is None or ends != [copied.get(name, name) for name in graph.outputs] or most.inputs != graph.inputs:
            raise MavcgError(
                f"the {dimensions_text(self.dimensions)}: the model has {len(most.nodes)} operators at the longest, "
                f"and {len(graph.nodes)} at {self._at(lengths)}; {remedy_text(self.dimensions, graphs_differ=True)}"
            )
        types = {name: graph.types[other] for name, other in names.items() if other}
        for node in most.nodes:
            if node.outputs[0] not in nodes:
                types.pop(node.output, None)
        constants = {name: graph.types[name] for name in most.constants if name in graph.constants}
        return ShapeSample(lengths, constants | types, nodes)

    def check_copies(self, samples: Sequence[ShapeSample], axes: Mapping[str, AxisCounts]) -> None:
        """Raise MavcgError for a copy that a sample does not have, and that would change the shape there."""
        for sample in samples:
            for node in self.most.nodes:
                if node.outputs[0] not in sample.nodes and node.op != "transpose":  # which is undone after a resize
                    shapes = [
                        tuple(value_at(axis, sample.lengths) for axis in axes[name])
                        for name in (node.inputs[0], node.output)
                    ]
                    if shapes[0] != shapes[1]:
                        raise self.refusal(node, f"is another one at {self._at(sample.lengths)}")

    def check_indices(self, samples: Sequence[ShapeSample], fitted: int) -> None:
        """Raise MavcgError for numbers of an index that are no multiples of products of lengths at all samples.

        fitted: the number of samples from which these are found, kernel_samples.
        """
        lengths = [sample.lengths for sample in samples]
        for node in self.most.nodes:
            of_node = [sample.nodes[node.output] for sample in samples] if node.op == "flat_index" else []
            for name in _INDEX_ATTRS if of_node else ():
                for values in zip(*(each.attr(name) for each in of_node), strict=True):
                    count = fit_count(values[:fitted], lengths[:fitted], self.dimensions)
                    if count is None or any(value_at(count, at) != n for at, n in zip(lengths, values, strict=True)):
                        raise self.refusal(node, f"has other {name} at others: {', '.join(map(str, values))}")

    def _same_inputs(self, a: Node, b: Node, names: Mapping[str, str], graph: Graph, lengths: Lengths) -> bool:
        """Return True if two nodes read the same tensors. names: of those of the longest graph in the other one.

        Raises: MavcgError for a constant that is another one.
        """
        if len(a.inputs) != len(b.inputs) or len(a.outputs) != len(b.outputs):
            return False
        pairs = list(zip(a.inputs, b.inputs, strict=True))
        known = self.most.constants, graph.constants
        if any((names.get(x) if x else x) != y for x, y in pairs if x not in known[0] or y not in known[1]):
            return False
        if has_rule(a):
            if not follows_rule(b, graph):
                raise self.refusal(a, f"resizes otherwise than by its lengths at {self._at(lengths)}")
            return True
        for x, y in pairs:
            table, other = known[0].get(x), known[1].get(y)
            if table is None or other is None:
                continue
            if a.op == "resample" and x == a.inputs[1]:  # a sample may have more rows than the longest lengths
                rows = (g.types[node.inputs[0]].shape[node.attr("axis")] for node, g in ((a, self.most), (b, graph)))
                table, other = (np.minimum(each, last) for last in [min(rows) - 1] for each in (table, other))
            if not _is_corner(table, other):
                raise self.refusal(a, f"has another constant %{x} at {self._at(lengths)}")
        return True

    def _check_types(self, a: Node, b: Node, graph: Graph, lengths: Lengths) -> None:
        """Raise MavcgError unless every tensor of a node has one type and one number of axes."""
        for name, other in zip((*a.inputs, *a.outputs), (*b.inputs, *b.outputs), strict=True):
            if name:
                kinds = [
                    (types[each].dtype, len(types[each].shape))
                    for types, each in ((self.most.types, name), (graph.types, other))
                ]
                if kinds[0] != kinds[1]:
                    raise self.refusal(a, f"has another type of %{name} at {self._at(lengths)}")

    def _has_trips(self, a: Node, b: Node, lengths: Lengths) -> bool:
        """Return True if two nodes of a loop differ in its number of iterations, which follows from the lengths."""
        if a.output not in self.trips or b.attrs != a.with_attrs(trips=b.attr("trips")).attrs:
            return False
        return bool(b.attr("trips") == value_at(self.trips[a.output], lengths))

    def _at(self, lengths: Lengths) -> str:
        return lengths_text(lengths, self.dimensions)

    def refusal(self, node: Node, reason: str) -> MavcgError:
        """Return the error for a node that depends on the lengths otherwise."""
        return MavcgError(
            f"node '{node.origin or node.outputs[0]}' ({node.op}): the {dimensions_text(self.dimensions)} does more "
            f"than set lengths: it {reason}; {remedy_text(self.dimensions, graphs_differ=True)}"
        )


def _copied_outputs(graph: Graph, rest: Sequence[Node]) -> Mapping[str, str] | None:
    """Return what the nodes at a graph's end copy to its outputs, by output; None if one of them does more than that.

    Where a slice is all of its input at a length, the input's copy is the output.
    """
    copied = {}
    for node in rest:
        if node.op != "reshape" or node.output not in graph.outputs:
            return None
        if graph.types[node.output] != graph.types[node.inputs[0]]:
            return None
        copied[node.output] = node.inputs[0]
    return copied


def in_order(graph: Graph, like: Graph, dimensions: Sequence[Dimension]) -> Graph:
    """Return a graph with its nodes in the order of `like`. Raises: MavcgError for a node that one of them lacks."""
    nodes = {node.outputs: node for node in graph.nodes}
    missing = next((node for node in like.nodes if node.outputs not in nodes), None)
    if missing is not None or len(nodes) != len(like.nodes):
        node = missing or like.nodes[0]
        raise MavcgError(
            f"node '{node.origin or node.outputs[0]}' ({node.op}): the graph is rewritten otherwise at another length "
            f"of the {dimensions_text(dimensions)}; {remedy_text(dimensions, graphs_differ=True)}"
        )
    return replace(graph, nodes=tuple(nodes[node.outputs] for node in like.nodes))


def _changes(a: Node, b: Node) -> str:
    """Return the attributes that differ between two nodes, as text."""
    later = dict(b.attrs)
    return ", ".join(f"{name} {value}, not {later.get(name)}" for name, value in a.attrs if value != later.get(name))


def _is_corner(long: Array, short: Array) -> bool:
    """Return True if one array is the beginning of the other along each axis on which they differ, or both are causal
    masks whose last query sees all keys.

    No kernel reads such masks; merged_steps.py has a stricter rule for constants of kernels.
    """
    if long.dtype != short.dtype or long.ndim != short.ndim:
        return False
    common = tuple(slice(min(n, m)) for n, m in zip(long.shape, short.shape, strict=True))
    if long[common].tobytes() == short[common].tobytes():
        return True
    masks = causal_numbers(long), causal_numbers(short)
    one_query = short.ndim > 1 and short.shape[-2] == 1  # which sees all
    return (
        masks[0] is not None
        and masks[1] is not None
        and masks[0][:1] == masks[1][:1]
        and (one_query or masks[0] == masks[1])
    )


def causal_numbers(array: Array) -> tuple[bytes, bytes] | None:
    """Return the numbers of a causal mask, [.., queries, keys]: where a key is seen, and where not; None for another
    array."""
    queries, keys = array.shape[-2:] if array.ndim > 1 else (0, 0)
    if not 0 < queries <= keys or array.size != queries * keys:
        return None
    seen, hidden = array.flat[0], array.flat[keys - 1]
    mask = np.where(np.tri(queries, keys, keys - queries, dtype=bool), seen, hidden)
    return (seen.tobytes(), hidden.tobytes()) if mask.tobytes() == array.tobytes() else None


def _follows_shapes(a: Node, b: Node, most: Graph, graph: Graph) -> bool:
    """Return True if two nodes differ in an attribute that repeats a shape, or that axis_counts compares: where slices
    begin and end, and pads of windows; or check_indices: the numbers of an index."""
    if a.op == "flat_index":
        return b.attrs == a.with_attrs(**{name: b.attr(name) for name in _INDEX_ATTRS}).attrs
    if a.op == "slice":
        return b.attrs == a.with_attrs(starts=b.attr("starts"), stops=b.attr("stops")).attrs
    if a.op in (*CONVOLUTIONS, *POOLS):
        return b.attrs == a.with_attrs(pads=b.attr("pads")).attrs
    if a.op not in ("reshape", "broadcast_to"):
        return False
    shapes = [tuple(g.types[node.output].shape) for node, g in ((a, most), (b, graph))]
    return tuple(a.attr("shape")) == shapes[0] and b.attrs == a.with_attrs(shape=shapes[1]).attrs
