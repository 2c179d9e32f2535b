"""Plans the subgraphs of a TFLite file in each size, and the data by which the delegate recognises the file."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from mavcg.errors import MavcgError
from mavcg.importers.tflite_control import CONTROL
from mavcg.importers.tflite_support import Anchor, TfliteSupport, graph_supports, part_graph, tflite_support
from mavcg.model.link_programs import ProgramEntry
from mavcg.model.model_request import ModelRequest
from mavcg.model.partial.node_sets import delegate_sets
from mavcg.model.partial.part_lengths import named_lengths, reader_of
from mavcg.model.partial.plan import Nodes, PlanNode, join_plans, plan_subgraphs
from mavcg.model.partial.planned_parts import Choose, Division, Made, PlannedParts, check_any, subgraph_name
from mavcg.model.partial.request import PartialRequest
from mavcg.model.partial.tflite_lengths import TfliteLengths
from mavcg.model.partial.tflite_nodes import tflite_nodes
from mavcg.runtime.drop_in_text import NO_FILE, DropInFile, DropInGraph

NO_ANCHOR = "its graph has no constant of its own by which the delegate could recognise it"


def plan_tflite(request: PartialRequest, choose: Choose) -> PlannedParts:
    """Plan the subgraphs of a TFLite file in each size, and the data by which the delegate recognises the file.

    Raises: MavcgError where a file has no constants for that, or no subgraph can be built.
    """
    build = request.build
    if build.bounds is not None:
        lengths = TfliteLengths(build, named_lengths(build))
        return _plan_graphs(request, choose, lengths.longest_supports(), lengths)
    if not build.sizes:
        return _plan_graphs(request, choose, graph_supports(build.model, build.shapes))
    first, file = None, NO_FILE
    entries: list[ProgramEntry] = []
    for number, size in enumerate(build.sizes):
        support = tflite_support(build.model, size)
        file = _file_of(build, [support])
        plan = _plan_size(request, support, number, len({entry.size for entry in entries}), choose)
        first = first or plan
        entries += _entries(plan)
    assert first is not None
    return PlannedParts(first, tuple(entries), file)


def _entries(plan: Division) -> tuple[ProgramEntry, ...]:
    return tuple(entry for subgraph in plan.subgraphs for entry in subgraph.made)


def _file_of(build: ModelRequest, graphs: Sequence[TfliteSupport]) -> DropInFile:
    """Return the data by which the delegate recognises a file. Raises: MavcgError for one without constants."""
    if all(graph.anchor is None for graph in graphs):
        raise MavcgError(f"{build.model}: has no constants by which the delegate could recognise it")
    return DropInFile(graphs[0].data, tuple(map(_drop_in_graph, graphs)))


def _drop_in_graph(graph: TfliteSupport) -> DropInGraph:
    anchor = graph.anchor or Anchor(-1, 0)
    return DropInGraph(len(graph.operators), anchor.tensor, anchor.offset, graph.number)


def _plan_graphs(
    request: PartialRequest, choose: Choose, graphs: Sequence[TfliteSupport], lengths: TfliteLengths | None = None
) -> PlannedParts:
    """Plan the subgraphs of the main graph of a file and of those that its control flow runs.

    lengths: of a file with bounded dimensions. Multiply-accumulates are those of each graph run once. Raises: as
    plan_tflite.
    """
    file = _file_of(request.build, graphs)
    nodes = [_graph_nodes(graph, bodies=len(graphs) > 1) for graph in graphs]
    macs = sum(node.macs or 0 for of_graph in nodes for node in of_graph)
    first, plans = 0, list[Division]()
    for number, graph in enumerate(graphs):
        attempt = partial(_attempt, request, choose, graph, (number, first), lengths)
        outputs = [str(index) for index in graph.model.outputs]
        plans.append(plan_subgraphs(nodes[number], outputs, request.min_share, attempt, delegate_sets, macs))
        first += len(nodes[number])
    plan = join_plans(plans)
    check_any(request, plan)
    return PlannedParts(plan, _entries(plan), file)


def _graph_nodes(graph: TfliteSupport, bodies: bool) -> list[PlanNode]:
    """Return the operators of a graph. bodies: operators of those that control flow runs are counted there."""
    nodes = [replace(each, macs=0) if bodies and each.op in CONTROL else each for each in tflite_nodes(graph)]
    if graph.anchor is not None:
        return nodes
    return [replace(each, why=each.why or NO_ANCHOR) for each in nodes]


def _attempt(
    request: PartialRequest,
    choose: Choose,
    graph: TfliteSupport,
    place: tuple[int, int],
    lengths: TfliteLengths | None,
    nodes: Nodes,
) -> Made:
    """Return a subgraph of a graph. place: number of the graph in the library, and of its first node in the file."""
    number, first = place
    name = subgraph_name(request, first + nodes[0])
    imported, inputs, outputs = part_graph(graph, nodes, name)
    if lengths is not None:
        chosen = choose(lengths.reader(graph.number, nodes, name), lengths.named.dimensions)
    else:
        chosen = choose(reader_of(replace(imported, name=name)), ())
    plan_nodes = tuple(first + node for node in nodes)
    return (ProgramEntry(chosen, "", nodes, inputs, outputs, name, plan_nodes=plan_nodes, graph=number),)


def _plan_size(request: PartialRequest, support: TfliteSupport, number: int, dense: int, choose: Choose) -> Division:
    """Plan the subgraphs of the main graph of a file in one of several sizes.

    number: of the size. dense: its number among sizes with subgraphs.
    """

    def attempt(nodes: Nodes) -> Made:
        op = subgraph_name(request, nodes[0])
        name = op if number == 0 else f"{op}_size{number}"
        graph, inputs, outputs = part_graph(support, nodes, name)
        chosen = choose(reader_of(replace(graph, name=name)), ())
        return (ProgramEntry(chosen, "", nodes, inputs, outputs, op, dense, number, nodes),)

    outputs = [str(index) for index in support.model.outputs]
    plan = plan_subgraphs(tflite_nodes(support), outputs, request.min_share, attempt, delegate_sets)
    if number == 0:
        check_any(request, plan)
    return plan
