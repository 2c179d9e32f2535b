"""Slices that take one part of a concat at some lengths only, and others or several at the rest.

Passes replace a slice that is all of a part by that part, in the graph of each sample for itself. Where a constant has
as many rows as the longest run, `concat(x, rows)[2:]` is the constant at that length by chance.
"""

from collections.abc import Sequence
from dataclasses import replace

from mavcg.choose.lengths.samples import ShapeSample
from mavcg.graph import Graph, Node
from mavcg.passes.graph.prune import sliced_input


def with_kept_slices(graphs: Sequence[Graph], seen: Sequence[ShapeSample]) -> tuple[Graph, ...]:
    """Return the graphs with a note of such slices, which passes leave as they are (Graph.kept).

    seen: the samples of these graphs, with their nodes by the name in the first.
    """
    kept: list[set[str]] = [set() for _ in graphs]
    for node in graphs[0].nodes:
        if node.op != "slice" or any(node.output not in sample.nodes for sample in seen):
            continue
        own = [sample.nodes[node.output] for sample in seen]
        if len({_part(graph, each) for graph, each in zip(graphs, own, strict=True)}) > 1:
            for names, each in zip(kept, own, strict=True):
                names.add(each.output)
    return tuple(replace(graph, kept=frozenset(names)) for graph, names in zip(graphs, kept, strict=True))


def _part(graph: Graph, node: Node) -> int:
    """Return the number of the part of a concat that a slice takes whole; -1 if there is none."""
    concat = next((each for each in graph.nodes if node.inputs[0] in each.outputs), None)
    if concat is None or concat.op != "concat":
        return -1
    part = sliced_input(graph.types, concat, tuple(node.attr("starts")), tuple(node.attr("stops")))
    return -1 if part is None else concat.inputs.index(part[0])
