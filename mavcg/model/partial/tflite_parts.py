"""Plans the subgraphs of a TFLite file in each size, and the data by which the delegate recognises the file."""

from dataclasses import replace

from mavcg.errors import MavcgError
from mavcg.importers.tflite_support import TfliteSupport, part_graph, tflite_support
from mavcg.model.link_programs import ProgramEntry
from mavcg.model.model_request import ModelRequest
from mavcg.model.partial.node_sets import delegate_sets
from mavcg.model.partial.part_lengths import named_lengths, reader_of
from mavcg.model.partial.plan import Nodes, plan_subgraphs
from mavcg.model.partial.planned_parts import Choose, Division, Made, PlannedParts, check_any, subgraph_name
from mavcg.model.partial.request import PartialRequest
from mavcg.model.partial.tflite_lengths import TfliteLengths
from mavcg.model.partial.tflite_nodes import tflite_nodes
from mavcg.runtime.drop_in_text import NO_FILE, DropInFile


def plan_tflite(request: PartialRequest, choose: Choose) -> PlannedParts:
    """Plan the subgraphs of a TFLite file in each size, and the data by which the delegate recognises the file.

    Raises: MavcgError where a file has no constants for that, or no subgraph can be built.
    """
    build = request.build
    if build.bounds is not None:
        lengths = TfliteLengths(build, named_lengths(build))
        support = lengths.longest_support()
        plan = _plan_tflite_size(request, support, 0, 0, choose, lengths)
        return PlannedParts(
            plan, tuple(entry for part in plan.subgraphs for entry in part.made), _file_of(build, support)
        )
    first, file = None, NO_FILE
    entries: list[ProgramEntry] = []
    for number, size in enumerate(build.sizes or (build.shapes,)):
        support = tflite_support(build.model, size)
        file = _file_of(build, support)
        plan = _plan_tflite_size(request, support, number, len({entry.size for entry in entries}), choose)
        first = first or plan
        entries += [entry for subgraph in plan.subgraphs for entry in subgraph.made]
    assert first is not None
    return PlannedParts(first, tuple(entries), file)


def _file_of(build: ModelRequest, support: TfliteSupport) -> DropInFile:
    """Return the data by which the delegate recognises a file. Raises: MavcgError for one without constants."""
    if support.anchor is None:
        raise MavcgError(f"{build.model}: has no constants by which the delegate could recognise it")
    return DropInFile(support.data, len(support.operators), support.anchor.tensor, support.anchor.offset)


def _plan_tflite_size(
    request: PartialRequest,
    support: TfliteSupport,
    number: int,
    dense: int,
    choose: Choose,
    lengths: TfliteLengths | None = None,
) -> Division:
    """Plan the subgraphs of a TFLite file in one size, or for its bounded dimensions.

    number: of the size. dense: its number among sizes with subgraphs.
    """

    def attempt(nodes: Nodes) -> Made:
        op = subgraph_name(request, nodes[0])
        name = op if number == 0 else f"{op}_size{number}"
        graph, inputs, outputs = part_graph(support, nodes, name)
        if lengths is not None:
            chosen = choose(lengths.reader(nodes, name), lengths.named.dimensions)
        else:
            chosen = choose(reader_of(replace(graph, name=name)), ())
        return (ProgramEntry(chosen, "", nodes, inputs, outputs, op, dense, number, nodes),)

    outputs = [str(index) for index in support.model.outputs]
    plan = plan_subgraphs(tflite_nodes(support), outputs, request.min_share, attempt, delegate_sets)
    if number == 0:
        check_any(request, plan)
    return plan
