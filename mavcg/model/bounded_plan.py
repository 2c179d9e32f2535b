"""Plans a library with bounded dimensions: `mavcg build MODEL --shape x=1x1..512x384` (docs/lengths.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from mavcg.choose.algorithms.select_model import ENGINE, ModelQuestion
from mavcg.choose.bands.banded_range import OFF
from mavcg.choose.lengths.free_rows import with_free_rows
from mavcg.choose.lengths.length_numbers import with_length_inputs, without_length_inputs
from mavcg.choose.lengths.sampled_graphs import sampled_graphs
from mavcg.choose.lengths.samples import Lengths
from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.state_memory import without_state_copies
from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.importers.declared_shapes import GivenShapes
from mavcg.importers.load import import_model
from mavcg.memory.node_order import order_nodes
from mavcg.model.bounded_shapes import NamedShapes, named_shapes
from mavcg.model.dump import dump
from mavcg.model.model_request import ModelRequest, Progress, plan_context
from mavcg.model.sizes import BoundedShapes
from mavcg.model.stages import LAY_OUT, optimise_graph, run_stages
from mavcg.passes.graph.attention import fuse_attention
from mavcg.passes.graph.states import pair_states, without_counts
from mavcg.runtime.machines import packing_for
from mavcg.specs.count import Count
from mavcg.specs.dimension import Dimension, dimensions_text, remedy_text
from mavcg.specs.model_program import Program


def plan_bounded(request: ModelRequest, bounds: BoundedShapes, name: str, progress: Progress) -> Plan:
    """Read a model for the longest lengths of its bounded dimensions and for others, and plan its library.

    Every kernel is the default of its family: the same for all lengths. Raises: MavcgError naming the node that has no
    kernel for all lengths, and as build_model.
    """
    shapes = named_shapes(request.model, bounds)
    dimensions = shapes.dimensions
    read = with_length_inputs(partial(_read, request, shapes, f"--shape {bounds}", name), dimensions)
    progress(f"reading {request.model.name}, {bounds}")
    sampled = sampled_graphs(read, dimensions)
    dump("import", sampled.graphs[0])
    _check_states(sampled.graphs, dimensions)
    ends = (*sampled.graphs[0].inputs, *sampled.graphs[0].outputs)
    axes = {name: _if_counted(sampled.axes[name]) for name in ends}
    context = replace(plan_context(request, progress), depth_first=OFF, question=ModelQuestion(ENGINE))
    # Attention between tokens has no other kernel, so a model that quantizes at run time has its roundings, too.
    most, *others = (fuse_attention(graph, dynamic=True) for graph in sampled.graphs)
    longest = optimise_graph(Plan(most, context.board.machines), context)
    longest = replace(longest, graph=order_nodes(longest.graph).graph)
    shorter = [in_order(optimise_graph(Plan(other), context).graph, longest.graph, dimensions) for other in others]
    packing = packing_for(context.board.target, context.board.machines.values())
    lowered = [without_state_copies(lower_graph(graph, packing)) for graph in (longest.graph, *shorter)]
    free = with_free_rows(lowered, sampled.samples, dimensions, sampled.axes, sampled.windows)
    dump("lower", free.lowered)
    plan = replace(longest, lowered=free.lowered, selection={"strategy": ENGINE})
    plan = run_stages(plan, context, LAY_OUT)
    program = without_length_inputs(plan.program, dimensions)
    # Parts of rows would lie in another order than indices.
    assert all(step.rows == low.spec.rows for step, low in zip(program.steps, free.lowered.steps, strict=True))
    loops = tuple(replace(loop, trip_count=c) for loop, c in zip(program.loops, free.trips, strict=True))
    return replace(plan, program=_with_counts(replace(program, loops=loops), dimensions, free.counts, axes))


def _read(request: ModelRequest, shapes: NamedShapes, option: str, name: str, lengths: Lengths) -> Graph:
    """Return the model's graph for lengths of its dimensions. option: that gave the shapes. name: of the graph."""
    ignore = isinstance(request.shapes, GivenShapes) and request.shapes.ignore_declared
    # A loop of any number of iterations, so that graphs of all lengths have it.
    graph = import_model(request.model, GivenShapes(shapes.at(lengths), ignore), request.weights, True, 1)
    graph = without_counts(graph, f"{option}: outputs follow from these lengths alone")
    return pair_states(replace(graph, name=name), request.states)


def _check_states(graphs: Sequence[Graph], dimensions: Sequence[Dimension]) -> None:
    """Raise MavcgError for a state whose shape follows from a length: its memory is that of one shape."""
    for state in graphs[0].states:
        longest = graphs[0].types[state.input]
        if any(graph.types[state.input] != longest for graph in graphs):
            raise MavcgError(
                f"--state {state.input}={state.output}: {longest} has the {dimensions_text(dimensions)}, and a state "
                "has one shape; give that axis one length, or leave the pair to the caller"
            )


def in_order(graph: Graph, like: Graph, dimensions: Sequence[Dimension]) -> Graph:
    """Return a graph with its nodes in the order of `like`. Raises: MavcgError for a node that one of them lacks."""
    nodes = {node.outputs: node for node in graph.nodes}
    missing = next((node for node in like.nodes if node.outputs not in nodes), None)
    if missing is not None or len(nodes) != len(like.nodes):
        node = missing or like.nodes[0]
        raise MavcgError(
            f"node '{node.origin or node.outputs[0]}' ({node.op}): the graph is rewritten otherwise at another length "
            f"of the {dimensions_text(dimensions)}; {remedy_text(dimensions)}"
        )
    return replace(graph, nodes=tuple(nodes[node.outputs] for node in like.nodes))


def _if_counted(axes: tuple[Count, ...]) -> tuple[Count, ...]:
    """Return the counts of a tensor's axes; () for one of fixed shape."""
    return () if all(isinstance(axis, int) for axis in axes) else axes


def _with_counts(
    program: Program,
    dimensions: Sequence[Dimension],
    rows: Sequence[Count | None],
    axes: Mapping[str, tuple[Count, ...]],
) -> Program:
    """Return the program with its bounded dimensions. rows: of each step. axes: of each input and output."""
    steps = (replace(step, row_count=count) for step, count in zip(program.steps, rows, strict=True))
    inputs, outputs = (
        tuple(replace(tensor, axes=axes[tensor.name]) for tensor in tensors)
        for tensors in (program.inputs, program.outputs)
    )
    return replace(program, inputs=inputs, outputs=outputs, steps=tuple(steps), dimensions=tuple(dimensions))
