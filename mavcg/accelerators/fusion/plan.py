"""Choose the groups of a network: find candidates and their costs, search for the path, and compute baselines."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mavcg.accelerators.codegen.division import divide
from mavcg.accelerators.fusion.costs import GroupCost, GroupCosts
from mavcg.accelerators.fusion.group_shape import GraphFacts
from mavcg.accelerators.fusion.opportunities import Opportunity, opportunities
from mavcg.accelerators.fusion.path_exact import cheapest_path
from mavcg.accelerators.fusion.path_heuristics import greedy_path, paper_path, unfused_path
from mavcg.accelerators.fusion.path_instance import ChosenPath, PathInstance, PricedGroup
from mavcg.accelerators.fusion.templates import FusionTemplate
from mavcg.accelerators.groups import FusedGroup, FusionPlan, GroupTooLarge
from mavcg.accelerators.target import IsaTarget
from mavcg.accelerators.xgraph import XGraph

MOST_SCREENED = 64  # maximum groups of template "whole" that pass a screening
SEARCHES: Mapping[str, Callable[[PathInstance], ChosenPath]] = {
    "exact": cheapest_path,
    "paper": paper_path,
    "greedy": greedy_path,
    "none": unfused_path,
}


@dataclass(frozen=True)
class FusionChoices:
    """The groups of a network that can run, with their costs, and the choice of each search.

    candidates, costs: in the order of the instance's groups. paths: choice of each search. seconds: CPU time of each
    stage.
    """

    graph: XGraph
    candidates: tuple[Opportunity, ...]
    costs: tuple[GroupCost, ...]
    instance: PathInstance
    paths: Mapping[str, ChosenPath]
    seconds: Mapping[str, float]

    def plan(self, search: str) -> FusionPlan:
        """Return the groups that a search has chosen, in an order in which they can run."""
        groups = []
        for index in self.paths[search].chosen:
            cost = self.costs[index]
            groups.append(
                FusedGroup(self.instance.groups[index].nodes, self.candidates[index].template, cost.tile, cost.cost)
            )
        return FusionPlan(tuple(groups))


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of the processes that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _no_progress(message: str) -> None:
    pass


def choose_fusion(
    graph: XGraph,
    target: IsaTarget,
    templates: Sequence[FusionTemplate],
    costs: GroupCosts,
    searches: Sequence[str] = tuple(SEARCHES),
    progress: Callable[[str], None] = _no_progress,
    screen: GroupCosts | None = None,
) -> FusionChoices:
    """Find all groups and their costs, and choose groups by each search.

    screen: costs that are faster to compute, such as modelled costs before simulation. Groups that these costs do not
    rate below their nodes unfused are left out. Of the groups that fit on chip whole, the MOST_SCREENED with the
    largest gain are kept. Raises: GroupTooLarge for a node that does not fit on chip by itself with any tile.
    """
    seconds: dict[str, float] = {}
    start = _cpu_seconds()
    facts = GraphFacts(graph)
    progress("fusion opportunities")
    segments = divide(graph).segments
    segment_of = {name: number for number, segment in enumerate(segments) for name in segment.nodes}
    embedded = tuple(
        opportunity
        for opportunity in opportunities(facts, target, templates)
        if len({segment_of[name] for name in opportunity.nodes}) == 1
    )
    if screen is not None:
        embedded = _screen(facts, embedded, screen)
    seconds["isomorphism"] = _cpu_seconds() - start
    start = _cpu_seconds()
    candidates, priced = list[Opportunity](), list[GroupCost]()
    groups = list[PricedGroup]()
    ordered = [tuple(sorted(opportunity.nodes, key=facts.index_of.__getitem__)) for opportunity in embedded]
    costs.prepare(graph, ordered, progress)
    for opportunity, names in zip(embedded, ordered, strict=True):
        cost = costs.cost(graph, names)
        if cost is None and len(names) == 1:
            node = facts.nodes[names[0]]
            raise GroupTooLarge(
                f"{node.origin or node.name} ({node.kind}): not even its smallest tile fits on chip of "
                f"{target.name}; give a target with larger buffers"
            )
        if cost is not None:
            candidates.append(opportunity)
            priced.append(cost)
            groups.append(PricedGroup(names, cost.cost))
    seconds["evaluation"] = _cpu_seconds() - start
    instance = PathInstance.of(groups, accelerator_edges(graph), graph.name)
    paths = {}
    for search in searches:
        progress(f"execution path: {search}")
        start = _cpu_seconds()
        paths[search] = path_of_segments(instance, SEARCHES[search], segment_of)
        seconds[f"path, {search}"] = _cpu_seconds() - start
    return FusionChoices(graph, tuple(candidates), tuple(priced), instance, paths, seconds)


def path_of_segments(
    instance: PathInstance, search: Callable[[PathInstance], ChosenPath], segment_of: Mapping[str, int]
) -> ChosenPath:
    """Return the choice of a search that is made for each segment by itself, since no group crosses segments.

    segment_of: number of each node's segment; segments run in this order.
    """
    numbers = sorted(set(segment_of.values()))
    if len(numbers) < 2:
        return search(instance)
    chosen, cost, optimal = list[int](), 0.0, True
    for number in numbers:
        own = [at for at, group in enumerate(instance.groups) if segment_of[group.nodes[0]] == number]
        edges = [(a, b) for a, b in instance.edges if segment_of[a] == segment_of[b] == number]
        path = search(PathInstance.of([instance.groups[at] for at in own], edges))
        chosen += [own[index] for index in path.chosen]
        cost, optimal = cost + path.cost, optimal and path.optimal
    return ChosenPath(tuple(chosen), cost, optimal)


def _screen(facts: GraphFacts, embedded: Sequence[Opportunity], screen: GroupCosts) -> tuple[Opportunity, ...]:
    """Return the groups that are faster than their nodes unfused by the costs `screen`, and all single nodes."""
    alone: dict[str, float] = {}
    gains: list[tuple[float, int]] = []
    for at, opportunity in enumerate(embedded):
        cost = screen.cost(facts.graph, sorted(opportunity.nodes, key=facts.index_of.__getitem__))
        if len(opportunity.nodes) == 1:
            (name,) = opportunity.nodes
            alone[name] = float("inf") if cost is None else cost.cost
        elif cost is not None and (gain := sum(alone[name] for name in opportunity.nodes) - cost.cost) > 0:
            gains.append((gain, at))
    whole = [(gain, at) for gain, at in gains if embedded[at].template == "whole"]
    kept = {at for gain, at in gains if embedded[at].template != "whole"}
    kept |= {at for _, at in sorted(whole, key=lambda gain: (-gain[0], gain[1]))[:MOST_SCREENED]}
    return tuple(opportunity for at, opportunity in enumerate(embedded) if len(opportunity.nodes) == 1 or at in kept)


def accelerator_edges(graph: XGraph) -> list[tuple[str, str]]:
    """Return the edges between accelerator nodes, including those by paths through host nodes.

    With these paths, no group can depend on its own result.
    """
    before: dict[str, frozenset[str]] = {}
    edges = []
    nodes = graph.by_name()
    for node in graph.nodes:
        sources = frozenset(
            s for name in node.inputs for s in ((name,) if nodes[name].on_accelerator else before[name])
        )
        before[node.name] = sources
        if node.on_accelerator:
            edges += [(source, node.name) for source in sorted(sources)]
    return edges
