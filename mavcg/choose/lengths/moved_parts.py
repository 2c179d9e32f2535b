"""Parts of tensors whose place follows from the lengths of a run: what a concatenation has behind a bounded dimension,
and slices that begin at the end of one.

In a library of one length a part lies in its whole, and no kernel runs for it. Here its offset is a count, so that it
is copied by a kernel that reads the offset (run_words.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from mavcg.choose.lengths.axis_counts import index_of
from mavcg.choose.lengths.run_views import RunView, dense_counts
from mavcg.choose.lengths.samples import AxisCounts, Lengths
from mavcg.graph import Graph, Node
from mavcg.graph.counts import Count, Dimension, product_of, sum_of, value_at
from mavcg.graph.layout import dense_strides


def moved_parts(graphs: Sequence[Graph]) -> frozenset[str]:
    """Return the results of concat and slice whose parts do not lie at the same offset at all lengths.

    graphs: equal ones of several lengths. A concatenation along a bounded dimension inside of another dimension is one
    of these, too: it moves the rows of its parts apart by its own length.
    """
    found = set[str]()
    nodes = [{node.output: node for node in graph.nodes if node.op in ("concat", "slice")} for graph in graphs]
    for name in nodes[0]:
        places = [_places(each[name], graph) for each, graph in zip(nodes, graphs, strict=True)]
        if any(each != places[0] for each in places):
            found.add(name)
    return frozenset(found)


def _places(node: Node, graph: Graph) -> tuple[int, ...]:
    """Return what has to be equal at all lengths: offsets of parts in their dense whole, and strides between its
    rows."""
    if node.op == "slice":
        strides = dense_strides(graph.types[node.inputs[0]].shape)
        return (sum(stride * start for stride, start in zip(strides, node.attr("starts"), strict=True)),)
    shape = graph.types[node.output].shape
    axis = node.attr("axis") % len(shape)
    inside, starts, at = dense_strides(shape)[axis], list[int](), 0
    for name in node.inputs:
        starts.append(at * inside)
        at += graph.types[name].shape[axis]
    return (*starts, at if any(length > 1 for length in shape[:axis]) else 0)


def part_offsets(
    nodes: Sequence[Node],
    samples: Sequence[Lengths],
    axes: Mapping[str, AxisCounts],
    views: Mapping[str, RunView] = {},
) -> Iterator[Count]:
    """Yield the offsets of a node's parts in their whole, in elements.

    nodes: the node at each of the samples, of any operator; only concat and slice have parts. axes: of all tensors.
    views: places of tensors; one without a place is dense.
    """

    def strides(name: str) -> AxisCounts:
        return views[name].strides if name in views else dense_counts(axes[name])

    node = nodes[0]
    if node.op == "concat" and all(name in axes for name in node.inputs):
        axis = node.attr("axis") % len(axes[node.output])
        at: Count = 0
        for name in node.inputs[:-1]:
            at = sum_of(at, axes[name][axis])
            yield product_of(at, strides(node.output)[axis])
    if node.op == "slice" and (x := axes.get(node.inputs[0])) is not None:
        starts = [index_of(nodes, "starts", axis, samples, x[axis], axes) for axis in range(len(x))]
        known = [start for start in starts if start is not None]
        if len(known) == len(starts):
            yield sum_of(*map(product_of, known, strides(node.inputs[0])))


def leaves_input(
    nodes: Sequence[Node], samples: Sequence[Lengths], axes: Mapping[str, AxisCounts], dimensions: Sequence[Dimension]
) -> Lengths | None:
    """Return lengths at which a slice would read outside of its input; None if it never does.

    A rewritten graph is one of a few lengths. At others a slice may begin or end in another tensor than it does there.
    nodes, axes: as part_offsets.
    """
    lengths = axes.get(nodes[0].inputs[0], ())
    corners = product(*((dimension.least, dimension.most) for dimension in dimensions))
    at = [dict(zip((dimension.name for dimension in dimensions), corner, strict=True)) for corner in corners]
    for axis, length in enumerate(lengths):
        start, stop = (index_of(nodes, name, axis, samples, length, axes) for name in ("starts", "stops"))
        back = nodes[0].attr("steps")[axis] < 0
        if start is None or stop is None:
            continue
        for each in at:
            first, last = value_at(start, each), value_at(stop, each)
            low, high = (last + 1, first + 1) if back else (first, last)
            if low < 0 or high > value_at(length, each):
                return each
    return None
