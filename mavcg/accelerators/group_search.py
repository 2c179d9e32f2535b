"""Choose the groups that a network is executed in: single nodes, or fused groups from a path search."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from mavcg.accelerators.codegen.division import divide
from mavcg.accelerators.codegen.generate import generate_group
from mavcg.accelerators.codegen.objective import Objective, cost_of_run
from mavcg.accelerators.costs.computed import SimulatedGroupCosts
from mavcg.accelerators.costs.learned import LearnedGroupCosts
from mavcg.accelerators.fusion.costs import GroupCosts
from mavcg.accelerators.fusion.group_shape import GraphFacts, group_shape
from mavcg.accelerators.fusion.plan import FusionChoices, choose_fusion
from mavcg.accelerators.fusion.templates import read_templates
from mavcg.accelerators.fusion.tiling import paper_tile
from mavcg.accelerators.groups import FusedGroup, GroupTooLarge
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.accelerators.target import VTA, IsaTarget
from mavcg.accelerators.xgraph import XGraph, XNode

MOST_ROUNDS = 24  # maximum searches with learned costs; after each, the costs of the chosen groups are made exact


@dataclass(frozen=True)
class ChosenGroups:
    """Groups with their tiles, in the order of execution.

    embeddings: number of candidate groups. tiles: simulated cycles with the paper's tile and with the searched tile, of
    each group for which the paper has a tile; the group keeps the cheaper tile.
    """

    groups: tuple[FusedGroup, ...]
    embeddings: int
    tiles: tuple["TileComparison", ...] = ()


@dataclass(frozen=True)
class TileComparison:
    """Simulated cycles of a group by itself, with the tile of equations 5 and 6 (paper) and with the searched tile."""

    nodes: tuple[str, ...]
    paper: int
    searched: int


def choose_groups(
    graph: XGraph,
    target: IsaTarget,
    search: str,
    progress: Callable[[str], None],
    costs: GroupCosts | None = None,
    objective: Objective = "time",
) -> ChosenGroups:
    """Return the groups of the accelerator's nodes.

    search: "exact", "paper" or "greedy", over the embeddings of all templates, or "none" to make each node a group.
    costs: provider of costs; None for simulated costs. objective: what its costs count.
    Raises: GroupTooLarge if a node does not fit on chip by itself.
    """
    ours = divide(graph).accelerator
    costs = SimulatedGroupCosts(target, objective) if costs is None else costs
    if search == "none":
        groups = []
        for number, name in enumerate(ours):
            progress(f"tiles of node {number + 1} of {len(ours)}: {name}")
            groups.append(_single(graph, name, costs, target))
        return compare_tiles(graph, ChosenGroups(tuple(groups), 0), target, progress, objective)
    choices = search_path(graph, target, search, progress, costs)
    embeddings = sum(len(group.nodes) > 1 for group in choices.instance.groups)
    return compare_tiles(graph, ChosenGroups(choices.plan(search).groups, embeddings), target, progress, objective)


def search_path(
    graph: XGraph, target: IsaTarget, search: str, progress: Callable[[str], None], costs: GroupCosts
) -> FusionChoices:
    """Search a path and return the choice.

    If groups with learned costs were chosen, their costs are made exact and the search is repeated.
    """
    templates = read_templates()
    if not isinstance(costs, LearnedGroupCosts):
        return choose_fusion(graph, target, templates, costs, (search,), progress)
    for _ in range(MOST_ROUNDS):
        choices = choose_fusion(graph, target, templates, costs, (search,), progress)
        if not costs.make_exact(graph, [group.nodes for group in choices.plan(search).groups], progress):
            return choices
    costs.make_exact(graph, [group.nodes for group in choices.instance.groups], progress)
    return choose_fusion(graph, target, templates, costs, (search,), progress)


def compare_tiles(
    graph: XGraph,
    chosen: ChosenGroups,
    target: IsaTarget,
    progress: Callable[[str], None],
    objective: Objective = "time",
) -> ChosenGroups:
    """Simulate each group with the paper's tile too, and keep the cheaper tile; for VTA, which has none, keep all."""
    if target.isa == VTA:
        return chosen
    facts, groups = GraphFacts(graph), list[FusedGroup]()
    compared: dict[object, tuple[int, int, FusedGroup] | None] = {}
    comparisons = []
    for number, group in enumerate(chosen.groups, 1):
        progress(f"the paper's tile of group {number} of {len(chosen.groups)}")
        key = group_shape(facts, group.nodes).key, group.tile
        if key not in compared:
            compared[key] = _compare_tiles(graph, facts, group, target, objective)
        result = compared[key]
        if result is None:
            groups.append(group)
            continue
        paper, searched, better = result
        groups.append(replace(group, tile=better.tile, cost=better.cost))
        comparisons.append(TileComparison(group.nodes, paper, searched))
    return replace(chosen, groups=tuple(groups), tiles=tuple(comparisons))


def _compare_tiles(
    graph: XGraph, facts: GraphFacts, group: FusedGroup, target: IsaTarget, objective: Objective
) -> tuple[int, int, FusedGroup] | None:
    """Return a group's cycles with the paper's tile and with its own, and the group with the cheaper tile.

    The result is None if the paper has no tile for the group.
    """
    shape = group_shape(facts, group.nodes)
    paper = None if facts.nodes[group.nodes[0]].kind == "concat" else paper_tile(shape, target)
    if paper is None:
        return None
    tried = []
    for tile in (paper[0], group.tile):
        program, fitted = generate_group(graph, replace(group, tile=tile), target)
        time = simulate(program)
        tried.append((time.cycles, replace(fitted, cost=cost_of_run(program, time, objective))))
    (by_paper, smaller), (searched, own) = tried
    return by_paper, searched, smaller if smaller.cost < own.cost else own


def _single(graph: XGraph, name: str, costs: GroupCosts, target: IsaTarget) -> FusedGroup:
    cost = costs.cost(graph, (name,))
    if cost is None:
        node: XNode = graph.by_name()[name]
        raise GroupTooLarge(
            f"{graph.name}: {node.origin or name} ({node.kind}) does not fit on chip even as tiles of a pixel; give "
            f"the target {target.name} larger buffers, or leave the node to the CPU"
        )
    return FusedGroup((name,), "single", cost.tile, cost.cost)
