"""The groups that a network is executed in: one node each, or fused as a path search decides."""

from collections.abc import Callable
from dataclasses import dataclass

from mavcg.accel.codegen.division import divide
from mavcg.accel.codegen.simulated_costs import SimulatedGroupCosts
from mavcg.accel.fusion.plan import SEARCHES, choose_fusion
from mavcg.accel.fusion.templates import read_templates
from mavcg.accel.groups import FusedGroup
from mavcg.accel.target import IsaTarget
from mavcg.accel.xgraph import XGraph, XNode
from mavcg.errors import MavcgError


@dataclass(frozen=True)
class ChosenGroups:
    """Groups with their tiles, in the order of execution. embeddings: groups that the search chose from."""

    groups: tuple[FusedGroup, ...]
    embeddings: int


def choose_groups(graph: XGraph, target: IsaTarget, search: str, progress: Callable[[str], None]) -> ChosenGroups:
    """Return the groups of the accelerator's nodes, by costs from simulation.

    search: exact, paper or greedy over the embeddings of all templates; none: a group for each node. Raises: MavcgError
    where a node does not fit by itself.
    """
    ours = divide(graph).accelerator
    costs = SimulatedGroupCosts(target)
    if search == "none":
        groups = []
        for number, name in enumerate(ours):
            progress(f"tiles of node {number + 1} of {len(ours)}: {name}")
            groups.append(_single(graph, name, costs))
        return ChosenGroups(tuple(groups), 0)
    if len(ours) < sum(node.on_accelerator for node in graph.nodes):
        raise MavcgError(
            f"--search {search}: {graph.name} needs the CPU between nodes of the accelerator; give --search none"
        )
    choices = choose_fusion(graph, target, read_templates(), costs, (search,), progress)
    embeddings = sum(len(group.nodes) > 1 for group in choices.instance.groups)
    return ChosenGroups(choices.plan(search).groups, embeddings)


def _single(graph: XGraph, name: str, costs: SimulatedGroupCosts) -> FusedGroup:
    found = costs.cost(graph, (name,))
    if found is None:
        node: XNode = graph.by_name()[name]
        raise MavcgError(
            f"{graph.name}: {node.origin or name} ({node.kind}) does not fit on chip even as tiles of a pixel; give "
            f"the target {costs.target.name} larger buffers, or leave the node to the CPU"
        )
    return FusedGroup((name,), "single", found.tile, found.cycles)


__all__ = ["SEARCHES", "ChosenGroups", "choose_groups"]
