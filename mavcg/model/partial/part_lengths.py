"""Plans parts of a model with bounded dimensions: each is read for a sample of lengths, as a whole model is.

A part is a model whose inputs are tensors of the user's model. It has the dimensions that its inputs have, and is
planned for their lengths; what else follows from a length, such as a shape that is computed elsewhere in the model, is
refused with the node, which then stays with the other runtime.
"""

from collections.abc import Sequence

from mavcg.choose.lengths.sampled_graphs import SampledGraphs, sampled_graphs
from mavcg.choose.lengths.samples import Lengths, ReadGraph, further_samples, kernel_samples, remedy_text
from mavcg.choose.plan import Plan
from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node
from mavcg.graph.counts import Dimension, affine_of, lengths_in
from mavcg.importers.declared_shapes import GivenShapes, ignores_declared
from mavcg.model.dump import dump
from mavcg.model.model_request import ModelRequest, PlanContext
from mavcg.model.reading import NamedShapes, named_shapes
from mavcg.model.stages import CHOOSE, lower_for_lengths, run_stages


def reader_of(graph: Graph) -> ReadGraph:
    """Return the function that reads a graph of fixed shapes, whatever the lengths are."""
    return lambda lengths: graph


def named_lengths(build: ModelRequest) -> NamedShapes:
    """Return the shapes of a request's inputs, with the bounded dimensions by their names; none without bounds."""
    return NamedShapes(build.shapes, ()) if build.bounds is None else named_shapes(build.model, build.bounds)


def shapes_at(build: ModelRequest, named: NamedShapes, lengths: Lengths) -> GivenShapes:
    """Return the shapes of a request's inputs at lengths of its dimensions."""
    return GivenShapes(named.at(lengths), ignores_declared(build.shapes))


def support_samples(dimensions: Sequence[Dimension]) -> tuple[Lengths, ...]:
    """Return lengths at which every node of a part must be supported, the longest first; one without dimensions."""
    if not dimensions:
        return ({},)
    samples = list(kernel_samples(dimensions))
    samples += [sample for sample in further_samples(dimensions, (1,)) if sample not in samples]
    return tuple(samples)


def choose_part(read: ReadGraph, dimensions: Sequence[Dimension], context: PlanContext) -> Plan:
    """Return the plan of a part after the stages that choose kernels.

    read: returns the part's graph for lengths. dimensions: the model's. Raises: MavcgError naming the node for which
    there is no kernel, or that depends on a length otherwise than by the lengths of the part's inputs.
    """
    longest = {dimension.name: dimension.most for dimension in dimensions}
    graph = read(longest)
    dump("import", graph)
    own = [each for each in dimensions if _inputs_differ(graph, read(_another(each, longest)))]
    for other in dimensions:
        if other not in own:
            _check_independent(graph, read(_another(other, longest)), other)
    if not own:
        return run_stages(Plan(graph, context.board.machines), context, CHOOSE)
    sampled = sampled_graphs(lambda lengths: read({**longest, **lengths}), own)
    _check_sources(sampled)
    plan = Plan(sampled.graphs[0], context.board.machines, lengths=sampled)
    return run_stages(plan, context, (lower_for_lengths,))


def _another(dimension: Dimension, longest: Lengths) -> Lengths:
    """Return the longest lengths with another one of a dimension."""
    return {**longest, dimension.name: kernel_samples([dimension])[1][dimension.name]}


def _inputs_differ(a: Graph, b: Graph) -> bool:
    return any(a.types[name] != b.types.get(name) for name in a.inputs)


def _check_independent(a: Graph, b: Graph, dimension: Dimension) -> None:
    """Raise MavcgError for a node that differs between two lengths of a dimension that no input of the part has."""
    different = next((m for m, n in zip(a.nodes, b.nodes, strict=False) if _node_differs(m, n, a, b)), None)
    if different is not None or len(a.nodes) != len(b.nodes) or a.outputs != b.outputs:
        node = different or a.nodes[-1]
        raise MavcgError(
            f"node '{node.origin or node.outputs[0]}' ({node.op}): it depends on the dimension {dimension}, which no "
            f"input of its part has; {remedy_text([dimension])}"
        )


def _node_differs(m: Node, n: Node, a: Graph, b: Graph) -> bool:
    """Return True unless two nodes of two graphs are equal, with equal types and constants."""
    if m != n:
        return True
    constants = [name for name in m.inputs if name in a.constants or name in b.constants]
    return any(a.types.get(name) != b.types.get(name) for name in (*m.inputs, *m.outputs) if name) or any(
        name not in a.constants or name not in b.constants or a.constants[name].tobytes() != b.constants[name].tobytes()
        for name in constants
    )


def _check_sources(sampled: SampledGraphs) -> None:
    """Raise MavcgError for a dimension whose length no axis of the part's inputs tells, as where all are products."""
    axes = [axis for name in sampled.graphs[0].inputs for axis in sampled.axes[name]]
    for dimension in sampled.dimensions:
        if not any(lengths_in(axis) == {dimension.name} and affine_of(axis) is not None for axis in axes):
            raise MavcgError(
                f"the part that begins with {', '.join(sampled.graphs[0].inputs)}: no axis of these inputs tells the "
                f"length of the dimension {dimension}; {remedy_text([dimension])}"
            )
