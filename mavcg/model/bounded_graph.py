"""Checks that graphs of one model, read for several lengths of a dimension, differ in this length only.

A graph has fixed shapes, and what the file computes from a shape is folded when it is read. So the graph for the
longest length stands for all others only if nothing but shapes follows from the length.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.choose.lowering.axis_counts import (
    POOLS,
    AxisCounts,
    axis_counts,
    distances,
    sample_of,
    windows_by_origin,
)
from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node
from mavcg.specs.count import Count, Length, product_of
from mavcg.specs.dimension import Dimension

_MOST_SAMPLES = 64

ReadGraph = Callable[[int], Graph]


@dataclass(frozen=True)
class CheckedGraphs:
    """The results of the comparison of graphs of several lengths.

    other: the graph for the length `length`, whose kernels are compared with those for the longest one. axes: the
    counts of the axes of the graph's tensors. windows: those of its windows, by the node of the file.
    """

    other: Graph
    length: int
    axes: Mapping[str, AxisCounts]
    windows: Mapping[str, Sequence[Count]]


def sampled_lengths(dimension: Dimension, distances_down: Sequence[int] = (1,)) -> tuple[int, ...]:
    """Return the lengths whose graphs are compared with that of the longest one, the first for its kernels, too.

    distances_down: how far lengths have to be from the longest one, ascending (axis_counts.distances). Where strides
    leave too few lengths within the bounds for all remainders, all lengths are returned, if they are not too many. The
    first is at least 2, as a length of 1 is a special case in many operators, and every tensor has another length
    there; it exceeds the bounds if these are 1 and 2, or if strides leave few rows.
    """
    least, most, period = dimension.least, dimension.most, distances_down[-1]
    few = most <= (3 * period if period > 1 else 2) or (period > 1 and most - period < least)
    first = most + period if few else most - period
    others = [least, least + 1, (least + most) // 2, (least + 2 * most) // 3 | 1, *(most - n for n in distances_down)]
    if period > 1 and most - period < least and most - least <= _MOST_SAMPLES:
        others = list(range(least, most))
    return tuple(dict.fromkeys((first, *(n for n in others if least <= n < most))))


def check_graphs(most: Graph, read: ReadGraph, dimension: Dimension) -> CheckedGraphs:
    """Compare the model's graph for the longest length with those for other ones.

    read: returns the model's graph for a length. Raises: MavcgError naming the node that depends on the length
    otherwise than by the lengths of its tensors, or the least length that the model takes.
    """
    lengths = sampled_lengths(dimension, distances(most))
    samples = [sample_of(most, {dimension.name: dimension.most})]
    first = _read(read, lengths[0], dimension)
    for length in lengths:
        graph = first if length == lengths[0] else _read(read, length, dimension)
        _check_graph(_without_expansions(most, dimension) if length == 1 else most, graph, dimension, length)
        samples.append(sample_of(graph, {dimension.name: length}))

    def refusal(node: Node, reason: str) -> MavcgError:
        return _refusal(node, dimension, reason)

    inputs = {name: _input_axes(most.types[name].shape, first.types[name].shape, dimension) for name in most.inputs}
    axes = axis_counts(most, samples, inputs, refusal)
    return CheckedGraphs(first, lengths[0], axes, windows_by_origin(most, axes))


def _input_axes(longest: Sequence[int], other: Sequence[int], dimension: Dimension) -> AxisCounts:
    """Return the counts of the axes of an input, which are the length, or a multiple of it, where they change."""
    pairs = zip(longest, other, strict=True)
    return tuple(n if n == m else product_of(n // dimension.most, Length(dimension.name)) for n, m in pairs)


def _read(read: ReadGraph, length: int, dimension: Dimension) -> Graph:
    """Return the graph for a length. Raises: MavcgError as read does, with the least length that the model takes, if
    it takes the next, too."""
    try:
        return read(length)
    except MavcgError as error:
        refused, taken = length, dimension.most
        while taken - refused > 1:
            middle = (refused + taken) // 2
            refused, taken = (refused, middle) if _reads(read, middle) else (middle, taken)
        remedy = _remedy(dimension)
        if _reads(read, min(taken + 1, dimension.most)):
            remedy = f"the least length that the model takes is {taken}: give {taken}..{dimension.most}"
        raise MavcgError(f"the bounded dimension {dimension}: at the length {length} {error}; {remedy}") from error


def _reads(read: ReadGraph, length: int) -> bool:
    """Return True if the model takes a length."""
    try:
        read(length)
    except MavcgError:
        return False
    return True


def _without_expansions(most: Graph, dimension: Dimension) -> Graph:
    """Return the graph for the longest length without the broadcasts that a length of 1 has no use for.

    They are not in the graph that is read for this length.
    """
    sources: dict[str, str] = {}
    nodes = []
    for node in most.nodes:
        if node.op == "broadcast_to" and node.output not in most.outputs:
            before, after = (
                [n // dimension.most if n % dimension.most == 0 else n for n in most.types[name].shape]
                for name in (node.inputs[0], node.output)
            )
            if before == after:
                sources[node.output] = sources.get(node.inputs[0], node.inputs[0])
                continue
        nodes.append(node.with_inputs(sources))
    return replace(most, nodes=tuple(nodes))


def _check_graph(most: Graph, graph: Graph, dimension: Dimension, length: int) -> None:
    for a, b in zip(most.nodes, graph.nodes, strict=False):
        if (a.op, a.inputs, a.outputs) != (b.op, b.inputs, b.outputs):
            raise _refusal(a, dimension, f"is another one at the length {length}")
        _check_shapes(a, most, graph, dimension, length)
        if a.attrs != b.attrs and not (_follows_shapes(a, b, most, graph) or _more_trips(a, b, dimension, length)):
            raise _refusal(a, dimension, f"has other attributes at the length {length}: {_changes(a, b)}")
        for name in a.inputs:
            if name in most.constants and not (
                name in graph.constants and _is_corner(most.constants[name], graph.constants[name])
            ):
                raise _refusal(a, dimension, f"has another constant %{name} at the length {length}")
    if len(most.nodes) != len(graph.nodes) or most.outputs != graph.outputs:
        raise MavcgError(
            f"the bounded dimension {dimension}: the model has {len(most.nodes)} operators at the length "
            f"{dimension.most} and {len(graph.nodes)} at {length}; {_remedy(dimension)}"
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


def _check_shapes(node: Node, most: Graph, graph: Graph, dimension: Dimension, length: int) -> None:
    """Raise MavcgError unless every tensor of a node has one type and one number of axes."""
    for name in (*node.inputs, *node.outputs):
        if not name:
            continue
        long, short = most.types[name].shape, graph.types[name].shape
        if most.types[name].dtype != graph.types[name].dtype or len(long) != len(short):
            raise _refusal(node, dimension, f"has another type of %{name} at the length {length}")


def _follows_shapes(a: Node, b: Node, most: Graph, graph: Graph) -> bool:
    """Return True if two nodes differ in an attribute that repeats a shape, or that counts from the end of an axis.

    The results of the latter are compared by axis_counts.
    """
    if a.op == "slice":
        return b == a.with_attrs(stops=b.attr("stops"))
    if a.op in POOLS:  # their kernels compare positions with the image's size
        return b == a.with_attrs(pads=(*a.attr("pads")[:2], *b.attr("pads")[2:]))
    if a.op not in ("reshape", "broadcast_to"):
        return False
    shapes = [tuple(g.types[node.output].shape) for node, g in ((a, most), (b, graph))]
    return tuple(a.attr("shape")) == shapes[0] and b == a.with_attrs(shape=shapes[1])


def _more_trips(a: Node, b: Node, dimension: Dimension, length: int) -> bool:
    """Return True if two nodes of a loop differ in its number of iterations, which is a multiple of the length."""
    if a.op not in ("loop_state", "loop_stack") or b != a.with_attrs(trips=b.attr("trips")):
        return False
    each, rest = divmod(a.attr("trips"), dimension.most)
    return not rest and each * length == b.attr("trips")


def _refusal(node: Node, dimension: Dimension, reason: str) -> MavcgError:
    return MavcgError(
        f"node '{node.origin or node.outputs[0]}' ({node.op}): the bounded dimension {dimension} does more than set "
        f"lengths: it {reason}; {_remedy(dimension)}"
    )


def _remedy(dimension: Dimension) -> str:
    return (
        f"give a list of lengths in its place, such as {dimension.least},{dimension.most}, for a size of each "
        "(docs/lengths.md)"
    )
