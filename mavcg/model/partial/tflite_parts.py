"""Plans the subgraphs of a TFLite file in each size, and the data by which the delegate recognises the file."""

from dataclasses import replace

from mavcg.errors import MavcgError
from mavcg.importers.tflite_support import TfliteSupport, part_graph, tflite_support
from mavcg.model.link_programs import ProgramEntry
from mavcg.model.partial.node_sets import delegate_sets
from mavcg.model.partial.plan import Nodes, plan_subgraphs
from mavcg.model.partial.planned_parts import Choose, Division, Made, PlannedParts, check_any, subgraph_name
from mavcg.model.partial.request import PartialRequest
from mavcg.model.partial.tflite_nodes import tflite_nodes
from mavcg.runtime.drop_in_text import NO_FILE, DropInFile


def plan_tflite(request: PartialRequest, choose: Choose) -> PlannedParts:
    """Plan the subgraphs of a TFLite file in each size, and the data by which the delegate recognises the file.

    Raises: MavcgError where a file has no constants for that, or no subgraph can be built.
    """
    build = request.build
    first, file = None, NO_FILE
    entries: list[ProgramEntry] = []
    for number, size in enumerate(build.sizes or (build.shapes,)):
        support = tflite_support(build.model, size)
        if support.anchor is None:
            raise MavcgError(f"{build.model}: has no constants by which the delegate could recognise it")
        file = DropInFile(support.data, len(support.operators), support.anchor.tensor, support.anchor.offset)
        plan = _plan_tflite_size(request, support, number, len({entry.size for entry in entries}), choose)
        first = first or plan
        entries += [entry for subgraph in plan.subgraphs for entry in subgraph.made]
    assert first is not None
    return PlannedParts(first, tuple(entries), file)


def _plan_tflite_size(
    request: PartialRequest, support: TfliteSupport, number: int, dense: int, choose: Choose
) -> Division:
    """Plan the subgraphs of a TFLite file in one size.

    number: of the size. dense: its number among sizes with subgraphs.
    """

    def attempt(nodes: Nodes) -> Made:
        op = subgraph_name(request, nodes[0])
        name = op if number == 0 else f"{op}_size{number}"
        graph, inputs, outputs = part_graph(support, nodes, name)
        chosen = choose(replace(graph, name=name))
        return (ProgramEntry(chosen, "", nodes, inputs, outputs, op, dense, number, nodes),)

    outputs = [str(index) for index in support.model.outputs]
    plan = plan_subgraphs(tflite_nodes(support), outputs, request.min_share, attempt, delegate_sets)
    if number == 0:
        check_any(request, plan)
    return plan
