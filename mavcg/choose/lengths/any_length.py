"""The door of this room: graphs of a sample of lengths -> kernels for any lengths -> a program with counts.

The graphs come from sampled_graphs.py. Between the two functions here, tiles, memory and steps are planned as for a
graph of fixed shapes, that of the longest lengths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mavcg.choose.lengths.axis_counts import axis_counts
from mavcg.choose.lengths.causal_masks import with_computed_masks
from mavcg.choose.lengths.length_numbers import without_length_inputs
from mavcg.choose.lengths.merged_steps import StepMerger, check_operands, node_refusal, step_refusal
from mavcg.choose.lengths.moved_parts import leaves_input, moved_parts
from mavcg.choose.lengths.resample_tables import resized_lengths, with_computed_tables
from mavcg.choose.lengths.run_views import RunView, run_views
from mavcg.choose.lengths.same_graph import in_order
from mavcg.choose.lengths.sampled_graphs import SampledGraphs
from mavcg.choose.lengths.samples import AxisCounts, Refusal, fit_count, lengths_text, sample_of
from mavcg.choose.lengths.transposed_sides import with_transposed_sides
from mavcg.choose.lengths.window_pads import ImagePads, with_own_pads
from mavcg.choose.lowering.context_memory import without_state_copies
from mavcg.choose.lowering.lower import LoweredGraph, lower_graph
from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.graph.counts import is_symbolic
from mavcg.graph.ops.loops import LoopRange
from mavcg.memory.locations import Location
from mavcg.specs.kernel import Packing
from mavcg.specs.model_program import Program


def lower_any_length(graphs: Sequence[Graph], sampled: SampledGraphs, packing: Packing) -> LoweredGraph:
    """Return the graph of the longest lengths lowered to kernels that take all lengths, with counts of rows and trips.

    graphs: the sampled ones, optimised; nodes have the order of the first. Every kernel is the default of its family:
    the same for all lengths. Raises: MavcgError naming the node that has no kernel for all lengths, and as lower_graph.
    """
    ordered = [graphs[0], *(in_order(graph, graphs[0], sampled.dimensions) for graph in graphs[1:])]
    ordered = with_transposed_sides(with_computed_masks(ordered, sampled.samples))

    def refusal(node: Node, reason: str) -> MavcgError:
        return node_refusal(node, sampled.dimensions, f"it {reason}")

    ordered, known = with_computed_tables(ordered, sampled.samples, sampled.resized, refusal)
    ordered, pads = with_own_pads(ordered, sampled.samples, sampled.pads, refusal)
    separate = moved_parts(ordered)
    packing = replace(packing, int8_tiles=False)  # a run's rows may be too short to be read beyond a sum's inputs
    lowered = [without_state_copies(lower_graph(graph, packing, separate=separate)) for graph in ordered]
    most = lowered[0]
    axes = _axes(lowered, sampled, pads, known, refusal)
    views = run_views([graph.storage for graph in lowered], sampled.samples, axes, pads)
    _check_steps(lowered, sampled, views)
    merger = StepMerger(lowered, sampled.samples, sampled.dimensions, axes, views, pads)
    steps = tuple(merger.step(number) for number in range(len(most.steps)))
    specs = dict.fromkeys(step.spec for step in steps)
    trips = _with_trips(lowered, sampled)
    loops = tuple(trips.get(loop, loop) for loop in most.storage.loops)
    storage = replace(most.storage, loops=loops, locations=_with_advance(most.storage.locations, views))
    return replace(most, steps=steps, specs=tuple(specs), storage=storage)


def count_lengths(program: Program, sampled: SampledGraphs) -> Program:
    """Return a program of these kernels with its bounded dimensions, and the axes of its inputs and outputs by them."""
    program = without_length_inputs(program, sampled.words)
    inputs, outputs = (
        tuple(replace(tensor, axes=_if_counted(sampled.axes[tensor.name])) for tensor in tensors)
        for tensors in (program.inputs, program.outputs)
    )
    return replace(program, inputs=inputs, outputs=outputs, dimensions=sampled.dimensions)


def _check_steps(graphs: Sequence[LoweredGraph], sampled: SampledGraphs, views: Mapping[str, RunView]) -> None:
    """Raise MavcgError unless the graphs lowered for all samples have the same steps, with the same operands."""
    most = graphs[0]
    for other, sample in zip(graphs[1:], sampled.samples[1:], strict=True):
        pairs = list(zip(most.steps, other.steps, strict=False))
        if len(most.steps) != len(other.steps) or any(a.node.op != b.node.op for a, b in pairs):
            different = next((a for a, b in pairs if a.node.op != b.node.op), most.steps[-1])
            reason = f"it is computed in other steps at {lengths_text(sample, sampled.dimensions)}"
            raise step_refusal(different, sampled.dimensions, reason)
        for a, b in pairs:
            check_operands(a, b, most, other, sampled.dimensions, views)


def _axes(
    graphs: Sequence[LoweredGraph],
    sampled: SampledGraphs,
    pads: Mapping[str, ImagePads],
    of_tables: Mapping[str, AxisCounts],
    refusal: Refusal,
) -> Mapping[str, AxisCounts]:
    """Return the counts of the axes of the optimised graph's tensors. Raises: MavcgError as axis_counts."""
    most = graphs[0]
    known = {name: sampled.axes.get(name, ()) for name in most.graph.inputs} | dict(of_tables)
    seen = [sample_of(low.graph, lengths) for low, lengths in zip(graphs, sampled.samples, strict=True)]
    padded = {name: (each.height.padded, each.width.padded) for name, each in pads.items()}
    resized = resized_lengths(most.graph, sampled.resized)
    of_nodes = {**sampled.windows, **padded, **resized}
    axes = axis_counts(most.graph, seen, known, refusal, sampled.dimensions, of_nodes)
    for node in most.graph.nodes:
        nodes = [sample.nodes[node.outputs[0]] for sample in seen] if node.op == "slice" else []
        if nodes and (lengths := leaves_input(nodes, sampled.samples, axes, sampled.dimensions)) is not None:
            raise refusal(node, f"would begin or end in another tensor at {lengths_text(lengths, sampled.dimensions)}")
    return axes


def _with_trips(graphs: Sequence[LoweredGraph], sampled: SampledGraphs) -> Mapping[LoopRange, LoopRange]:
    """Return the loops with steps, by the loop of the longest lengths, with counts of iterations that follow from them.

    Raises: MavcgError for loops of other steps, or a number of iterations that does not follow from the lengths.
    """
    counted: dict[LoopRange, LoopRange] = {}
    most = graphs[0]
    for number, (begin, end, loop) in enumerate(most.loops):
        others = [graph.loops[number] for graph in graphs if len(graph.loops) == len(most.loops)]
        same = len(others) == len(graphs) and all(
            (first, last, other.number) == (begin, end, loop.number) for first, last, other in others
        )
        trips = [other.trips for _, _, other in others]
        count = fit_count(trips, sampled.samples, sampled.dimensions) if same else None
        if count is None:
            raise step_refusal(most.steps[begin], sampled.dimensions, "it is in another loop at other lengths")
        counted[loop] = replace(loop, trip_count=count if is_symbolic(count) else None)
    return counted


def _with_advance(locations: Mapping[str, Location], views: Mapping[str, RunView]) -> Mapping[str, Location]:
    """Return the locations with what tensors advance by in loops, where that follows from the lengths."""
    counted = {
        name: tuple((loop, count) for loop, _, count in view.advance if is_symbolic(count))
        for name, view in views.items()
    }
    return {name: replace(at, advance_counts=counted.get(name, ())) for name, at in locations.items()}


def _if_counted(axes: AxisCounts) -> AxisCounts:
    """Return the counts of a tensor's axes; () for one of fixed shape."""
    return axes if any(map(is_symbolic, axes)) else ()
