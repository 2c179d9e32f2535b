"""Plans a library with a bounded dimension: `mavcg build MODEL --shape x=1x1..512x384` (docs/lengths.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from mavcg.choose.algorithms.select_model import ENGINE, ModelQuestion
from mavcg.choose.bands.banded_range import OFF
from mavcg.choose.lowering.free_rows import with_free_rows
from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.lowering.state_memory import without_state_copies
from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.graph import Graph
from mavcg.importers.declared_shapes import GivenShapes
from mavcg.importers.load import dimension_name, import_model
from mavcg.kernels.machines import packing_for
from mavcg.memory.node_order import order_nodes
from mavcg.model.bounded_graph import check_graphs
from mavcg.model.bounded_values import with_length_input, without_length_input
from mavcg.model.dump import dump
from mavcg.model.model_request import ModelRequest, Progress, plan_context
from mavcg.model.sizes import BoundedShapes
from mavcg.model.stages import LAY_OUT, optimise_graph, run_stages
from mavcg.passes.graph.attention import fuse_attention
from mavcg.passes.graph.states import pair_states, without_counts
from mavcg.specs.count import Count
from mavcg.specs.dimension import Dimension
from mavcg.specs.model_program import Program


def plan_bounded(request: ModelRequest, bounds: BoundedShapes, name: str, progress: Progress) -> Plan:
    """Read a model for the longest length of its bounded dimension and for others, and plan its library.

    Every kernel is the default of its family: the same for all lengths. Raises: MavcgError naming the node that cannot
    be computed for the first rows alone, and as build_model.
    """
    dimension = _dimension(request, bounds)
    read = with_length_input(partial(_read, request, bounds, name), dimension)
    progress(f"reading {request.model.name}, {bounds}")
    most = read(dimension.most)
    dump("import", most)
    checked = check_graphs(most, read, dimension)
    _check_states(most, checked.other, dimension)
    axes = {name: _if_counted(checked.axes[name]) for name in (*most.inputs, *most.outputs)}
    context = replace(plan_context(request, progress), depth_first=OFF, question=ModelQuestion(ENGINE))
    # Attention between tokens has no other kernel, so a model that quantizes at run time has its roundings, too.
    fused = [fuse_attention(graph, dynamic=True) for graph in (most, checked.other)]
    longest = optimise_graph(Plan(fused[0], context.board.machines), context)
    longest = replace(longest, graph=order_nodes(longest.graph).graph)
    shorter = _in_order(optimise_graph(Plan(fused[1]), context).graph, longest.graph, dimension)
    packing = packing_for(context.board.target, context.board.machines.values())
    lowered = [without_state_copies(lower_graph(graph, packing)) for graph in (longest.graph, shorter)]
    free = with_free_rows(lowered[0], lowered[1], dimension, checked.length, checked.axes, checked.windows)
    dump("lower", free.lowered)
    plan = replace(longest, lowered=free.lowered, selection={"strategy": ENGINE})
    plan = run_stages(plan, context, LAY_OUT)
    program = without_length_input(plan.program, dimension)
    # Parts of rows would lie in another order than indices.
    assert all(step.rows == low.spec.rows for step, low in zip(program.steps, free.lowered.steps, strict=True))
    loops = tuple(replace(loop, trip_count=c) for loop, c in zip(program.loops, free.trips, strict=True))
    return replace(plan, program=_with_counts(replace(program, loops=loops), [dimension], free.counts, axes))


def _read(request: ModelRequest, bounds: BoundedShapes, name: str, length: int) -> Graph:
    """Return the model's graph for a length. name: of the graph."""
    ignore = isinstance(request.shapes, GivenShapes) and request.shapes.ignore_declared
    # A loop of any number of iterations, so that graphs of all lengths have it.
    graph = import_model(request.model, GivenShapes(bounds.at(length), ignore), request.weights, True, 1)
    graph = without_counts(graph, f"--shape {bounds}: outputs follow from this length alone")
    return pair_states(replace(graph, name=name), request.states)


def _dimension(request: ModelRequest, bounds: BoundedShapes) -> Dimension:
    """Return the bounded dimension with its name in the file. Raises: MavcgError for names of several dimensions."""
    places = [(name, i) for name, shape in bounds.shapes.items() for i, length in enumerate(shape) if length is None]
    names = dict.fromkeys(dimension_name(request.model, *place) for place in places)
    own = {f"{name}.{i}" for name, i in places}
    named = [name for name in names if name not in own] or [next(iter(names))]
    if len(named) > 1:
        raise MavcgError(
            f"--shape {bounds}: {' and '.join(named)} are several bounded dimensions of the file, and a library has "
            "one; give the others one length, or all of them lists of lengths, as 1,4,8"
        )
    return Dimension(named[0], bounds.least, bounds.most)


def _check_states(most: Graph, other: Graph, dimension: Dimension) -> None:
    """Raise MavcgError for a state whose shape follows from the length: its memory is that of one shape."""
    for state in most.states:
        longest = most.types[state.input]
        if longest != other.types[state.input]:
            raise MavcgError(
                f"--state {state.input}={state.output}: {longest} has the bounded dimension {dimension}, and a state "
                "has one shape; give that axis one length, or leave the pair to the caller"
            )


def _in_order(graph: Graph, like: Graph, dimension: Dimension) -> Graph:
    """Return a graph with its nodes in the order of `like`. Raises: MavcgError for a node that one of them lacks."""
    nodes = {node.outputs: node for node in graph.nodes}
    missing = next((node for node in like.nodes if node.outputs not in nodes), None)
    if missing is not None or len(nodes) != len(like.nodes):
        node = missing or like.nodes[0]
        raise MavcgError(
            f"node '{node.origin or node.outputs[0]}' ({node.op}): the graph is rewritten otherwise at another length "
            f"of the bounded dimension {dimension}; give a list of lengths in its place, for a size of each"
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
