"""Find groups that nodes could run in: single nodes, embeddings of templates, and subgraphs that fit on chip."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mavcg.accelerators.fusion.group_shape import GraphFacts, group_shape, is_convex
from mavcg.accelerators.fusion.matching import LabelledGraph, embeddings
from mavcg.accelerators.fusion.templates import FusionTemplate
from mavcg.accelerators.fusion.tiling import whole_tile
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph

MOST_NODES = 12  # maximum nodes of a group that fits on chip whole
MOST_SETS_PER_NODE = 400  # maximum sets of nodes that are tried from each start node


@dataclass(frozen=True)
class Opportunity:
    """Nodes that could run as one operation.

    template: name of its template, "single" or "whole" (condition (a) of the paper).
    """

    nodes: frozenset[str]
    template: str


def label_by_name(graph: XGraph) -> LabelledGraph:
    """Return the graph with each node's name as its label, so that templates can check all parameters of a node."""
    edges = {(name, node.name): "" for node in graph.nodes for name in node.inputs}
    return LabelledGraph({node.name: node.name for node in graph.nodes}, edges)


def template_embeddings(
    facts: GraphFacts, templates: Sequence[FusionTemplate], network: LabelledGraph | None = None
) -> Iterator[tuple[FusionTemplate, frozenset[str]]]:
    """Yield every embedding of every template, as the set of nodes that form the group; each set once for a template.

    An embedding is not a group if another node reads a tensor that should stay on chip, if a path leaves it and comes
    back, or if its results differ in height or width.
    """
    network = network or label_by_name(facts.graph)
    for template in templates:
        candidates = {
            vertex: [
                n.name
                for n in facts.graph.nodes
                if (vertex in template.context or n.on_accelerator) and template.accepts(vertex, n)
            ]
            for vertex in template.pattern.nodes
        }
        seen: set[frozenset[str]] = set()
        for matched in embeddings(template.pattern, network, lambda p, g: True, candidates=candidates):
            images = zip(template.pattern.nodes, matched, strict=True)
            nodes = frozenset(name for vertex, name in images if vertex not in template.context)
            if nodes not in seen:
                seen.add(nodes)
                if len(nodes) > 1 and _is_group(facts, nodes):
                    yield template, nodes


def _is_group(facts: GraphFacts, nodes: frozenset[str]) -> bool:
    shape = group_shape(facts, nodes)
    sizes = {facts.nodes[name].shape[1:3] for name in shape.results}
    # A result that is also read inside the group would be written off chip and kept: smaller embeddings are as good.
    read_inside = {name for node in shape.nodes for name in node.inputs if name in nodes}
    return len(sizes) == 1 and not read_inside & set(shape.results) and is_convex(facts, nodes)


def whole_groups(facts: GraphFacts, target: IsaTarget) -> Iterator[frozenset[str]]:
    """Yield the connected convex sets of at most MOST_NODES nodes whose tensors and weights fit on chip at once.

    Sets grow from each node, by the readers of their tensors and the makers of their inputs, while they fit.
    """
    seen: set[frozenset[str]] = set()
    neighbours = {
        node.name: [n for n in (*facts.readers[node.name], *node.inputs) if facts.nodes[n].on_accelerator]
        for node in facts.graph.nodes
    }
    for start in facts.graph.nodes:
        if not start.on_accelerator or whole_tile(group_shape(facts, (start.name,)), target) is None:
            continue
        pending, tried = [frozenset((start.name,))], 0
        while pending and tried < MOST_SETS_PER_NODE:
            nodes = pending.pop(0)
            if len(nodes) == MOST_NODES:
                continue
            # Only nodes after the start node are added, so that each set is enumerated once, from its first node.
            near = {n for inner in nodes for n in neighbours[inner]} - nodes
            for neighbour in sorted(near, key=facts.index_of.__getitem__):
                grown = nodes | {neighbour}
                if facts.index_of[neighbour] < facts.index_of[start.name] or grown in seen:
                    continue
                seen.add(grown)
                tried += 1
                if whole_tile(group_shape(facts, grown), target) is None:
                    continue
                pending.append(grown)
                if is_convex(facts, grown) and any(facts.nodes[n].kind != "concat" for n in grown):
                    yield grown


def opportunities(facts: GraphFacts, target: IsaTarget, templates: Sequence[FusionTemplate]) -> tuple[Opportunity, ...]:
    """Return all groups, single nodes first, each set of nodes once; a template's name has priority over "whole"."""
    by_nodes: dict[frozenset[str], str] = {
        frozenset((node.name,)): "single" for node in facts.graph.nodes if node.on_accelerator
    }
    for template, nodes in template_embeddings(facts, templates):
        by_nodes.setdefault(nodes, template.name)
    for nodes in whole_groups(facts, target):
        by_nodes.setdefault(nodes, "whole")
    return tuple(Opportunity(nodes, name) for nodes, name in by_nodes.items())
