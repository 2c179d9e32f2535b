"""Checks that graphs of one model, read for several lengths of its dimensions, differ in these lengths only.

A graph has fixed shapes, and what the file computes from a shape is folded when it is read. So the graph for the
longest lengths stands for all others only if nothing but shapes follows from the lengths.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mavcg.choose.lengths.axis_counts import (
    POOLS,
    AxisCounts,
    ShapeSample,
    axis_counts,
    distances,
    sample_of,
    windows_by_origin,
)
from mavcg.choose.lengths.samples import Lengths, fit_count, lengths_text
from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node
from mavcg.specs.count import Count, value_at
from mavcg.specs.dimension import Dimension, dimensions_text, remedy_text

_LOOPS = ("loop_state", "loop_stack")  # operators with the number of iterations of their loop
ReadGraph = Callable[[Lengths], Graph]
_COPIES = ("broadcast_to", "slice")  # operators that a length of 1 may have no use for, and then are not in the graph
_MOST_SAMPLES = 64


@dataclass(frozen=True)
class SampledGraphs:
    """The graphs of a model for the samples from which the kernels are made.

    axes: the counts of the axes of the graph's tensors. windows: those of its windows, by the node of the file.
    """

    graphs: tuple[Graph, ...]
    samples: tuple[Lengths, ...]
    axes: Mapping[str, AxisCounts]
    windows: Mapping[str, Sequence[Count]]


def kernel_samples(dimensions: Sequence[Dimension], period: int = 1) -> tuple[Lengths, ...]:
    """Return the lengths whose kernels are compared: the longest, each dimension changed alone, and all of them.

    period: a multiple of all strides (axis_counts.distances), by which lengths differ. They are at least 2, as a length
    of 1 is a special case in many operators, and every tensor has another length there; they exceed the bounds if these
    are 1 and 2, or if strides leave few rows.
    """
    most = {dimension.name: dimension.most for dimension in dimensions}
    first = {dimension.name: _first_sample(dimension, period) for dimension in dimensions}
    alone = [{**most, name: first[name]} for name in most]
    return (most, *alone, *([first] if len(dimensions) > 1 else []))


def _first_sample(dimension: Dimension, period: int) -> int:
    least, most = dimension.least, dimension.most
    few = most <= (3 * period if period > 1 else 2) or (period > 1 and most - period < least)
    return most + period if few else most - period


def _further_lengths(dimension: Dimension, distances_down: Sequence[int]) -> list[int]:
    """Return lengths of a dimension whose graphs are compared besides: the shortest two, two in between, and those of
    all remainders of strides. Where strides leave too few lengths for these, all lengths, if they are not too many.
    """
    least, most, period = dimension.least, dimension.most, distances_down[-1]
    if period > 1 and most - period < least and most - least <= _MOST_SAMPLES:
        return list(range(least, most))
    others = [least, least + 1, (least + most) // 2, (least + 2 * most) // 3 | 1, *(most - n for n in distances_down)]
    return [n for n in dict.fromkeys(others) if least <= n < most]


def _further_samples(dimensions: Sequence[Dimension], distances_down: Sequence[int]) -> list[Lengths]:
    """Return lengths whose graphs are compared besides: of all dimensions together, and the shortest of each alone."""
    most = {dimension.name: dimension.most for dimension in dimensions}
    others = {dimension.name: _further_lengths(dimension, distances_down) for dimension in dimensions}
    count = max(map(len, others.values()))
    together: list[Lengths] = [
        {name: each[i] if i < len(each) else most[name] for name, each in others.items()} for i in range(count)
    ]
    alone = [{**most, dimension.name: dimension.least} for dimension in dimensions]
    return [*together, *alone] if len(dimensions) > 1 else together


def sampled_graphs(read: ReadGraph, dimensions: Sequence[Dimension]) -> SampledGraphs:
    """Compare the model's graphs for several lengths, and return those from which the kernels are made.

    read: returns the model's graph for lengths. Raises: MavcgError naming the node that depends on the lengths
    otherwise than by the lengths of its tensors, or the least length that the model takes.
    """
    longest = kernel_samples(dimensions)[0]
    most = read(longest)
    distances_down = distances(most)
    samples = kernel_samples(dimensions, distances_down[-1])
    graphs = [most, *(_read(read, sample, longest, dimensions) for sample in samples[1:])]
    checker = _Checker(most, dimensions, _trips(graphs, samples, dimensions))
    seen = [sample_of(most, longest)]
    seen += [checker.check(graph, sample) for graph, sample in zip(graphs[1:], samples[1:], strict=True)]
    for sample in _further_samples(dimensions, distances_down):
        if sample not in samples:
            seen.append(checker.check(_read(read, sample, longest, dimensions), sample))
    axes = axis_counts(most, seen, _input_axes(graphs, samples, dimensions), checker.refusal)
    checker.check_copies(seen, axes)
    return SampledGraphs(tuple(graphs), samples, axes, windows_by_origin(most, axes))


def _input_axes(
    graphs: Sequence[Graph], samples: Sequence[Lengths], dimensions: Sequence[Dimension]
) -> Mapping[str, AxisCounts]:
    """Return the counts of the axes of inputs, which are lengths or multiples of them. Raises: MavcgError."""
    found: dict[str, AxisCounts] = {}
    for name in graphs[0].inputs:
        axes = list[Count]()
        for lengths in zip(*(graph.types[name].shape for graph in graphs), strict=True):
            count = fit_count(lengths, samples, dimensions)
            if count is None:
                raise MavcgError(
                    f"input '{name}': its axis of {lengths[0]} is no multiple of the {dimensions_text(dimensions)}; "
                    f"{remedy_text(dimensions)}"
                )
            axes.append(count)
        found[name] = tuple(axes)
    return found


def _read(read: ReadGraph, lengths: Lengths, longest: Lengths, dimensions: Sequence[Dimension]) -> Graph:
    """Return the graph for lengths. Raises: MavcgError as read does, with the least length that the model takes, if it
    takes the next, too."""
    try:
        return read(lengths)
    except MavcgError as error:
        changed = [dimension for dimension in dimensions if lengths[dimension.name] != dimension.most]
        at = f"the {dimensions_text(changed)}: at {lengths_text({d.name: lengths[d.name] for d in changed})} {error}"
        if len(changed) > 1:
            raise MavcgError(f"{at}; give larger least lengths") from error
        (dimension,) = changed
        refused, taken = lengths[dimension.name], dimension.most
        while taken - refused > 1:
            middle = (refused + taken) // 2
            reads = _reads(read, {**longest, dimension.name: middle})
            refused, taken = (refused, middle) if reads else (middle, taken)
        remedy = remedy_text(dimensions)
        if _reads(read, {**longest, dimension.name: min(taken + 1, dimension.most)}):
            remedy = f"the least length that the model takes is {taken}: give {taken}..{dimension.most}"
        raise MavcgError(f"{at}; {remedy}") from error


def _reads(read: ReadGraph, lengths: Lengths) -> bool:
    """Return True if the model takes lengths."""
    try:
        read(lengths)
    except MavcgError:
        return False
    return True


def _trips(graphs: Sequence[Graph], samples: Sequence[Lengths], dimensions: Sequence[Dimension]) -> Mapping[str, Count]:
    """Return the number of iterations of each node of a loop, by its output, where it follows from the lengths."""
    found = [{node.output: node.attr("trips") for node in graph.nodes if node.op in _LOOPS} for graph in graphs]
    counts = {
        name: fit_count([trips[name] for trips in found], samples, dimensions)
        for name in found[0]
        if all(name in trips for trips in found)
    }
    return {name: count for name, count in counts.items() if count is not None}


@dataclass(frozen=True)
class _Checker:
    """Compares the graph for the longest lengths with those for others. trips: as _trips."""

    most: Graph
    dimensions: Sequence[Dimension]
    trips: Mapping[str, Count]

    def check(self, graph: Graph, lengths: Lengths) -> ShapeSample:
        """Return the types of the tensors of a graph that differs from that for the longest lengths in lengths only.

        They have the names of the latter, of which copies may be missing at a length of 1 (check_copies).
        Raises: MavcgError for another graph.
        """
        most = self.most
        names = {name: name for name in most.inputs}  # of tensors in the graph that is compared
        nodes = dict[str, Node]()
        others = iter(graph.nodes)
        b = next(others, None)
        for a in most.nodes:
            same = b is not None and a.op == b.op and self._same_inputs(a, b, names, graph, lengths)
            if not same and a.op in _COPIES and 1 in lengths.values() and a.inputs[0] in names:
                names[a.output] = names[a.inputs[0]]
                continue
            if b is None or not same:
                raise self._other(a, f"is another one at {lengths_text(lengths)}")
            names |= zip(a.outputs, b.outputs, strict=True)
            nodes[a.outputs[0]] = b
            self._check_types(a, b, graph, lengths)
            if a.attrs != b.attrs and not (_follows_shapes(a, b, most, graph) or self._has_trips(a, b, lengths)):
                raise self._other(a, f"has other attributes at {lengths_text(lengths)}: {_changes(a, b)}")
            b = next(others, None)
        ends = [names.get(name, name) for name in most.outputs]
        if b is not None or ends != list(graph.outputs) or most.inputs != graph.inputs:
            raise MavcgError(
                f"the {dimensions_text(self.dimensions)}: the model has {len(most.nodes)} operators at the longest, "
                f"and {len(graph.nodes)} at {lengths_text(lengths)}; {remedy_text(self.dimensions)}"
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
                if node.outputs[0] not in sample.nodes:
                    shapes = [
                        tuple(value_at(axis, sample.lengths) for axis in axes[name])
                        for name in (node.inputs[0], node.output)
                    ]
                    if shapes[0] != shapes[1]:
                        raise self._other(node, f"is another one at {lengths_text(sample.lengths)}")

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
        for x, y in pairs:
            if x in known[0] and y in known[1] and not _is_corner(known[0][x], known[1][y]):
                raise self._other(a, f"has another constant %{x} at {lengths_text(lengths)}")
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
                    raise self._other(a, f"has another type of %{name} at {lengths_text(lengths)}")

    def _has_trips(self, a: Node, b: Node, lengths: Lengths) -> bool:
        """Return True if two nodes of a loop differ in its number of iterations, which follows from the lengths."""
        if a.output not in self.trips or b.attrs != a.with_attrs(trips=b.attr("trips")).attrs:
            return False
        return bool(b.attr("trips") == value_at(self.trips[a.output], lengths))

    def refusal(self, node: Node, reason: str) -> MavcgError:
        return self._other(node, reason)

    def _other(self, node: Node, reason: str) -> MavcgError:
        return MavcgError(
            f"node '{node.origin or node.outputs[0]}' ({node.op}): the {dimensions_text(self.dimensions)} does more "
            f"than set lengths: it {reason}; {remedy_text(self.dimensions)}"
        )


def _changes(a: Node, b: Node) -> str:
    """Return the attributes that differ between two nodes, as text."""
    later = dict(b.attrs)
    return ", ".join(f"{name} {value}, not {later.get(name)}" for name, value in a.attrs if value != later.get(name))


def _is_corner(long: Array, short: Array) -> bool:
    """Return True if one array is the beginning of the other along each axis on which they differ.

    Such are causal masks, which no kernel reads; with_free_rows has a stricter rule for constants of kernels.
    """
    if long.dtype != short.dtype or long.ndim != short.ndim:
        return False
    common = tuple(slice(min(n, m)) for n, m in zip(long.shape, short.shape, strict=True))
    return long[common].tobytes() == short[common].tobytes()


def _follows_shapes(a: Node, b: Node, most: Graph, graph: Graph) -> bool:
    """Return True if two nodes differ in an attribute that repeats a shape, or that counts from the end of an axis.

    The results of the latter are compared by axis_counts.
    """
    if a.op == "slice":
        return b.attrs == a.with_attrs(stops=b.attr("stops")).attrs
    if a.op in POOLS:  # their kernels compare positions with the image's size
        return b.attrs == a.with_attrs(pads=(*a.attr("pads")[:2], *b.attr("pads")[2:])).attrs
    if a.op not in ("reshape", "broadcast_to"):
        return False
    shapes = [tuple(g.types[node.output].shape) for node, g in ((a, most), (b, graph))]
    return tuple(a.attr("shape")) == shapes[0] and b.attrs == a.with_attrs(shape=shapes[1]).attrs
