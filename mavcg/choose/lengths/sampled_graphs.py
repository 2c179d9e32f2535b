"""Graphs of one model for several lengths of its dimensions, which stand for those of all lengths.

A graph has fixed shapes, and what the file computes from a shape is folded when it is read. So the graph for the
longest lengths stands for all others only if nothing but shapes follows from the lengths (same_graph.py), numbers that
become operators excepted (length_numbers.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.choose.lengths.axis_counts import axis_counts, distances, has_strides, windows_by_origin
from mavcg.choose.lengths.kept_slices import with_kept_slices
from mavcg.choose.lengths.length_numbers import length_input, with_length_inputs
from mavcg.choose.lengths.resample_tables import Resized, resized_axes
from mavcg.choose.lengths.same_graph import GraphComparison
from mavcg.choose.lengths.samples import (
    AxisCounts,
    Lengths,
    ReadGraph,
    dimensions_text,
    fit_count,
    fit_sum,
    further_samples,
    kernel_samples,
    remedy_text,
    sample_of,
)
from mavcg.choose.lengths.state_lengths import check_states
from mavcg.choose.lengths.taken_lengths import read_at
from mavcg.choose.lengths.window_pads import ImagePads, pads_by_origin
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.graph.counts import Count, Dimension, Length, text_of

_LOOPS = ("loop_state", "loop_stack")  # operators with the number of iterations of their loop


@dataclass(frozen=True)
class SampledGraphs:
    """The graphs of a model for the samples from which the kernels are made, the longest lengths first.

    axes: the counts of the axes of the graph's tensors. windows: those of its windows, and pads: pads that follow from
    a length, both by the node of the file. resized: axes that are resized by a rule.
    """

    dimensions: tuple[Dimension, ...]
    graphs: tuple[Graph, ...]
    samples: tuple[Lengths, ...]
    axes: Mapping[str, AxisCounts]
    windows: Mapping[str, Sequence[Count]]
    pads: Mapping[str, ImagePads]
    resized: Resized

    @property
    def words(self) -> Mapping[str, Count]:
        """Inputs that no caller passes: the lengths of dimensions and of resized axes, by name."""
        lengths = [Length(dimension.name) for dimension in self.dimensions]
        counts = [*lengths, *(count for axis in self.resized.values() for count in (axis.before, axis.after))]
        return {length_input(text_of(count)): count for count in counts}


def sampled_graphs(file: ReadGraph, dimensions: Sequence[Dimension]) -> SampledGraphs:
    """Compare the model's graphs for several lengths, and return those from which the kernels are made.

    file: returns the model's graph for lengths. Raises: MavcgError naming the node that depends on the lengths
    otherwise than by the lengths of its tensors, or the least length that the model takes.
    """
    read = with_length_inputs(lambda lengths: read_at(file, lengths, dimensions), dimensions)
    longest = kernel_samples(dimensions)[0]
    most = read(longest)
    distances_down = distances(most)
    alone = {each.name: {**longest, each.name: kernel_samples([each])[1][each.name]} for each in dimensions}
    unstrided = [name for name, at in alone.items() if distances_down[-1] > 1 and not has_strides(most, read(at))]
    samples = kernel_samples(dimensions, distances_down[-1], unstrided)
    graphs = [most, *(read(sample) for sample in samples[1:])]
    comparison = GraphComparison(most, dimensions, _trips(graphs, samples, dimensions))
    seen = [sample_of(most, longest)]
    seen += [comparison.check(graph, sample) for graph, sample in zip(graphs[1:], samples[1:], strict=True)]
    for sample in further_samples(dimensions, distances_down, unstrided):
        if sample not in samples:
            seen.append(comparison.check(read(sample), sample))
    axes = axis_counts(most, seen, _input_axes(graphs, samples, dimensions), comparison.refusal, dimensions)
    comparison.check_copies(seen, axes)
    comparison.check_indices(seen, len(samples))
    check_states(most, axes)
    graphs = [most, *(_with_constants_of(graph, most) for graph in graphs[1:])]
    shared = with_kept_slices(graphs, seen[: len(graphs)])
    pads = pads_by_origin(most, seen, axes, comparison.refusal)
    windows = windows_by_origin(most, axes)
    return SampledGraphs(tuple(dimensions), shared, samples, axes, windows, pads, resized_axes(most, axes))


def _with_constants_of(graph: Graph, most: Graph) -> Graph:
    """Return a graph with the arrays of another one where they are equal, so that weights are in memory once."""
    constants = dict(graph.constants)
    for name, own in graph.constants.items():
        array = most.constants.get(name, own)
        if (own.dtype, own.shape) == (array.dtype, array.shape) and own.tobytes() == array.tobytes():
            constants[name] = array
    return replace(graph, constants=constants)


def _input_axes(
    graphs: Sequence[Graph], samples: Sequence[Lengths], dimensions: Sequence[Dimension]
) -> Mapping[str, AxisCounts]:
    """Return the counts of the axes of inputs: lengths, multiples of them, or their sums. Raises: MavcgError."""
    found: dict[str, AxisCounts] = {}
    for name in graphs[0].inputs:
        axes = list[Count]()
        for lengths in zip(*(graph.types[name].shape for graph in graphs), strict=True):
            count = fit_count(lengths, samples, dimensions)
            count = count if count is not None else fit_sum(lengths, samples, dimensions)
            if count is None:
                raise MavcgError(
                    f"input '{name}': its axis of {lengths[0]} is no multiple or sum of the "
                    f"{dimensions_text(dimensions)}; {remedy_text(dimensions)}"
                )
            axes.append(count)
        found[name] = tuple(axes)
    return found


def _trips(graphs: Sequence[Graph], samples: Sequence[Lengths], dimensions: Sequence[Dimension]) -> Mapping[str, Count]:
    """Return the number of iterations of each node of a loop, by its output, where it follows from the lengths."""
    found = [{node.output: node.attr("trips") for node in graph.nodes if node.op in _LOOPS} for graph in graphs]
    counts = {
        name: fit_count([trips[name] for trips in found], samples, dimensions)
        for name in found[0]
        if all(name in trips for trips in found)
    }
    return {name: count for name, count in counts.items() if count is not None}
