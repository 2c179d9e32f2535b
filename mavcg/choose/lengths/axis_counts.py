"""Lengths of the axes of a graph's tensors as counts: what they are at all lengths of its bounded dimensions.

A graph has the shapes of one set of lengths. How an axis follows from those of its inputs is a rule of the operator:
windows at a stride are a quotient, pads and concatenations a sum, other operators keep lengths or multiply them. The
rules are compared with the shapes that were read for other lengths; what windows add at their end, as pads of the
length or in ceil mode, is found from these. For this their samples have to have all remainders of a stride
(`distances`). A slice begins and ends at a fixed index, or as far from its end or from that of another axis.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, combinations_with_replacement
from math import gcd, lcm

from mavcg.choose.lengths.samples import AxisCounts, Refusal, ShapeSample, index_count, lengths_text
from mavcg.choose.lengths.window_pads import CONVOLUTIONS, PADS, POOLS, axis_pads, reach_of
from mavcg.graph import Graph, Node, TensorType
from mavcg.graph.counts import (
    Count,
    Dimension,
    Length,
    factor_of,
    is_symbolic,
    product_of,
    quotient_of,
    sum_of,
    value_at,
)
from mavcg.passes.graph.resize_tables import has_rule

_MOST_REMAINDERS = 8  # of longer strides only a few are read: pads are constant there


def distances(graph: Graph) -> tuple[int, ...]:
    """Return by how much lengths have to differ from the longest one for all remainders of strides, ascending.

    The last is a multiple of the product of all strides on any path, after which every remainder comes again; 1 without
    strides. Axes may have strides of their own, and change places later.
    """
    steps: dict[str, set[int]] = {}  # numbers of an input's indices that one index of a tensor stands for
    found = {1}
    for node in graph.nodes:
        before = {step for name in node.inputs for step in steps.get(name, {1})} or {1}
        strides = {1}
        if node.op in (*CONVOLUTIONS, *POOLS):
            strides = set(node.attr("stride"))
        if node.op == "slice":
            strides = {max(1, *node.attr("steps"))}
        if node.op == "resample" and not has_rule(node):
            strides = {_resampled_by(node, graph.types).denominator}
        most = min(max(strides), _MOST_REMAINDERS)
        found.update(step * remainder for step in before for remainder in range(1, most))
        after = {step * stride for step in before for stride in strides}
        found |= after
        steps.update(dict.fromkeys(node.outputs, after))
    found.add(lcm(*(step for after in steps.values() for step in after)))
    return tuple(sorted(found))


def has_strides(most: Graph, other: Graph) -> bool:
    """Return True if strides may divide the length in which graphs of a model differ: that of images, not of a batch.

    other: of another length of one dimension. Graphs whose nodes differ, too, may have such a stride.
    """
    if [node.op for node in most.nodes] != [node.op for node in other.nodes]:
        return True
    for a, b in zip(most.nodes, other.nodes, strict=True):
        for axis in _strided_axes(a, most.types):
            lengths = [graph.types[node.inputs[0]].shape[axis : axis + 1] for graph, node in ((most, a), (other, b))]
            if lengths[0] != lengths[1]:
                return True
    return False


def _strided_axes(node: Node, types: Mapping[str, TensorType]) -> list[int]:
    """Return the axes of a node's first input along which it makes fewer indices."""
    if node.op in (*CONVOLUTIONS, *POOLS):
        return [axis for axis, stride in enumerate(node.attr("stride"), 1) if stride > 1]
    if node.op == "slice":
        return [axis for axis, step in enumerate(node.attr("steps")) if step > 1]
    if node.op == "resample" and not has_rule(node) and _resampled_by(node, types).denominator > 1:
        return [node.attr("axis")]
    return []


def axis_counts(
    graph: Graph,
    samples: Sequence[ShapeSample],
    inputs: Mapping[str, AxisCounts],
    refusal: Refusal,
    dimensions: Sequence[Dimension],
    known: Mapping[str, Sequence[Count]] | None = None,
) -> Mapping[str, AxisCounts]:
    """Return the count of each axis of a graph's tensors, but for constants that differ between samples.

    graph: of the longest lengths. samples: the first one of these, then of others. inputs: counts of the graph's, and
    of other tensors that are known.
    known: what the samples of a rewritten graph do not tell: counts of windows by the node of the file
    (`windows_by_origin`), and by a node's output height and width of a pad node's result, where pads follow from
    lengths, and the length of a resized axis.
    Raises: MavcgError, made by `refusal`, for a node with an axis that no rule explains.
    """
    counts: dict[str, AxisCounts] = dict(inputs)
    for name in graph.constants:
        shapes = {sample.types[name].shape for sample in samples if name in sample.types}
        if len(shapes) == 1:
            counts[name] = graph.types[name].shape
    for node in graph.nodes:
        for name in node.outputs:
            if name and name not in counts:
                counts[name] = _of_output(node, name, samples, counts, refusal, dimensions, known)
    return counts


def windows_by_origin(graph: Graph, counts: Mapping[str, AxisCounts]) -> Mapping[str, Sequence[Count]]:
    """Return the counts of windows of each node of the file, for axis_counts of the rewritten graph."""
    found: dict[str, list[Count]] = {}
    for node in graph.nodes:
        if node.op in POOLS:
            found.setdefault(node.origin, []).extend(counts[node.output])
    return found


def _of_output(
    node: Node,
    name: str,
    samples: Sequence[ShapeSample],
    counts: Mapping[str, AxisCounts],
    refusal: Refusal,
    dimensions: Sequence[Dimension],
    known: Mapping[str, Sequence[Count]] | None,
) -> AxisCounts:
    there = [sample for sample in samples if name in sample.types]
    # A resize that the graph of a sample does not have leaves its axes as they are.
    resized = node.op == "resample" and node.inputs[0] in counts
    left_out = [sample.lengths for sample in samples if resized and name not in sample.types]
    found: list[Count] = []
    for axis, longest in enumerate(there[0].types[name].shape):
        values = [sample.types[name].shape[axis] for sample in there]

        def fits(count: Count, axis: int = axis, values: Sequence[int] = values) -> bool:
            seen = all(value_at(count, sample.lengths) == value for sample, value in zip(there, values, strict=True))
            return seen and all(value_at(count, at) == value_at(counts[node.inputs[0]][axis], at) for at in left_out)

        if len(set(values)) == 1 and (node.op != "slice" or _ends(node, axis, there, counts) is not None):
            found.append(longest)
            continue
        choices = _choices(node, axis, longest, there, counts, known)
        count = next((each for each in choices if fits(each)), None)
        if count is None:
            others = ((s.lengths, n) for s, n in zip(there[1:], values[1:], strict=True) if n != longest)
            other, value = next(others, ({}, longest))
            difference = "as many, from another place on, at others"
            if other:
                difference = f"{value} at {lengths_text(other, dimensions)}"
            raise refusal(node, f"has %{name} with {longest} at its longest length and {difference}")
        found.append(count)
    return tuple(found)


def _choices(
    node: Node,
    axis: int,
    longest: int,
    samples: Sequence[ShapeSample],
    counts: Mapping[str, AxisCounts],
    known: Mapping[str, Sequence[Count]] | None,
) -> Iterator[Count]:
    """Yield what an axis of a node's result may be by the rules of its operator. longest: its longest length."""
    if known is not None and has_rule(node) and axis == node.attr("axis"):
        yield from known.get(node.output, ())
        return
    known = known or {}
    x = counts.get(node.inputs[0], ()) if node.inputs else ()
    if node.op in (*CONVOLUTIONS, *POOLS) and axis in (1, 2):
        yield from _windows(node, axis - 1, x[axis], samples, known)
        return
    if node.op in PADS and node.output in known and axis in (1, 2):
        yield known[node.output][axis - 1]
        return
    if node.op in PADS and len(x) > axis:
        yield sum_of(x[axis], node.attr("before")[axis] + node.attr("after")[axis])
        return
    if node.op == "concat" and axis == node.attr("axis") % len(samples[0].types[node.output].shape):
        if all(name in counts for name in node.inputs):
            yield sum_of(*(counts[name][axis] for name in node.inputs))
        return
    if node.op == "slice" and len(x) > axis:
        yield from _slice(node, axis, longest, samples, counts)
        return
    if node.op == "conv_transpose2d" and axis in (1, 2):
        factor = node.attr("stride")[axis - 1]
        yield sum_of(product_of(factor, x[axis]), longest - factor * value_at(x[axis], samples[0].lengths))
        return
    if node.op == "resample" and axis == node.attr("axis") and axis < len(x):
        factor = _resampled_by(node, samples[0].types)
        yield quotient_of(product_of(factor.numerator, x[axis]), factor.denominator)
    yield from _multiples(node, longest, samples, counts)


def _resampled_by(node: Node, types: Mapping[str, TensorType]) -> Fraction:
    """Return the factor by which a resampling makes an axis longer, of a small denominator."""
    axis = node.attr("axis")
    before, after = (types[name].shape[axis] for name in (node.inputs[0], node.output))
    return Fraction(after, before).limit_denominator(_MOST_REMAINDERS)


def _windows(
    node: Node, axis: int, rows: Count, samples: Sequence[ShapeSample], known: Mapping[str, Sequence[Count]]
) -> Iterator[Count]:
    """Yield the numbers of windows along an axis of an image: 0 for its height, 1 for its width."""
    there = [sample.nodes[node.outputs[0]].attr("pads") for sample in samples]
    pads = [(each[axis], each[2 + axis]) for each in there]
    stride, reach = node.attr("stride")[axis], reach_of(node, axis, samples[0].types)
    if node.op in POOLS and node.origin in known:
        yield from known[node.origin]
    elif len(set(pads)) == 1:
        yield quotient_of(sum_of(rows, sum(pads[0]) - reach + stride), stride)
    elif axis_pads(rows, stride, reach, pads, [sample.lengths for sample in samples]) is not None:
        yield quotient_of(sum_of(rows, stride - 1), stride)
    elif node.op in POOLS and _has_all_remainders(rows, stride, samples):
        largest = max(map(sum, pads))
        for more in range(-reach, largest + stride + 1):
            yield quotient_of(sum_of(rows, more), stride)


def _has_all_remainders(rows: Count, stride: int, samples: Sequence[ShapeSample]) -> bool:
    """Return True if the samples have every remainder of rows by a stride that there is at any lengths."""
    seen = {value_at(rows, sample.lengths) % stride for sample in samples}
    return len(seen) == stride // gcd(stride, factor_of(rows))


def index_of(
    nodes: Sequence[Node],
    name: str,
    axis: int,
    lengths: Sequence[Mapping[str, int]],
    length: Count,
    counts: Mapping[str, AxisCounts],
) -> Count | None:
    """Return where a slice begins or ends along an axis; None if no rule explains it.

    nodes: the slice at each of the lengths. name: of the attribute, starts or stops. length: of the axis. counts: of
    the axes of tensors, at the end of which it may begin.
    """
    bases = chain((0, length), dict.fromkeys(_symbolic(counts)))
    return index_count([node.attr(name)[axis] for node in nodes], lengths, bases)


def _ends(
    node: Node, axis: int, samples: Sequence[ShapeSample], counts: Mapping[str, AxisCounts]
) -> tuple[Count, Count] | None:
    """Return where a slice begins and ends along an axis; None if one of both follows from no length."""
    nodes, lengths = [s.nodes[node.outputs[0]] for s in samples], [s.lengths for s in samples]
    length = counts.get(node.inputs[0], samples[0].types[node.inputs[0]].shape)[axis]
    start, stop = (index_of(nodes, name, axis, lengths, length, counts) for name in ("starts", "stops"))
    return None if start is None or stop is None else (start, stop)


def _slice(
    node: Node, axis: int, longest: int, samples: Sequence[ShapeSample], counts: Mapping[str, AxisCounts]
) -> Iterator[Count]:
    """Yield the lengths of a slice along an axis."""
    step, ends = node.attr("steps")[axis], _ends(node, axis, samples, counts)
    if ends is None:
        return
    start, stop = ends
    if step > 0 and isinstance(start, int):
        yield quotient_of(sum_of(stop, step - 1 - start), step)
    if abs(step) == 1:  # from a place that moves on: as long as what lies there
        for count in dict.fromkeys(_symbolic(counts)):
            yield sum_of(count, longest - value_at(count, samples[0].lengths))


def _symbolic(counts: Mapping[str, AxisCounts]) -> Iterator[Count]:
    """Yield the lengths of axes that follow from those of the dimensions."""
    return (count for axes in counts.values() for count in axes if is_symbolic(count))


def _multiples(
    node: Node, longest: int, samples: Sequence[ShapeSample], counts: Mapping[str, AxisCounts]
) -> Iterator[Count]:
    """Yield the multiples of the lengths of a node's inputs, and of their products, then of all others."""
    own = [count for name in node.inputs for count in counts.get(name, ()) if is_symbolic(count)]
    pairs = [product_of(*pair) for pair in combinations_with_replacement(dict.fromkeys(own), 2)]
    every = [Length(name) for name in samples[0].lengths]
    seen = [count for axes in counts.values() for count in axes if is_symbolic(count)]
    for count in dict.fromkeys((*own, *pairs, *every, *seen)):
        unit = value_at(count, samples[0].lengths)
        if unit and longest % unit == 0:
            yield product_of(longest // unit, count)
