"""Compute the baselines of the path search: no fusion, and greedy fusion."""

from mavcg.accelerators.path_instance import ChosenPath, PathInstance
from mavcg.errors import MavcgError


def unfused_path(instance: PathInstance) -> ChosenPath:
    """Return the path without fusion: for each node, the cheapest group that contains only this node.

    Raises: MavcgError for a node without such a group.
    """
    chosen = []
    for position, node in enumerate(instance.nodes):
        alone = [index for index in instance.by_node[position] if instance.members[index] == 1 << position]
        if not alone:
            raise MavcgError(f"node {node}: no group contains this node alone; add one")
        chosen.append(min(alone, key=lambda index: instance.groups[index].cost))
    return ChosenPath(tuple(chosen), instance.cost_of(chosen), False)


def greedy_path(instance: PathInstance) -> ChosenPath:
    """Return greedy choices: from the first node on, the ready group that saves most over running its nodes unfused.

    A group is ready if none of its nodes was executed, and all tensors that it reads from outside exist. Source: DNNVM,
    section IV-B. Raises: MavcgError if a node remains that no ready group contains.
    """
    alone = _costs_alone(instance)
    state, chosen = 0, list[int]()

    def order(index: int) -> tuple[float, int, int]:
        gain = sum(alone[node] for node in instance.groups[index].nodes) - instance.groups[index].cost
        return -gain, -instance.members[index].bit_count(), index

    while state != instance.everything:
        fitting = _fitting(instance, state)
        if not fitting:
            raise MavcgError(
                "greedy fusion leaves nodes that no remaining group covers; add a group for each single node"
            )
        index = min(fitting, key=order)
        chosen.append(index)
        state |= instance.members[index]
    return ChosenPath(tuple(chosen), instance.cost_of(chosen), False)


def _costs_alone(instance: PathInstance) -> dict[str, float]:
    """Return the cost of each node unfused; more than all other costs for a node without a group of its own."""
    most = 1 + sum(abs(group.cost) for group in instance.groups)
    costs = dict.fromkeys(instance.nodes, most)
    for group in instance.groups:
        if len(group.nodes) == 1:
            costs[group.nodes[0]] = min(costs[group.nodes[0]], group.cost)
    return costs


def _fitting(instance: PathInstance, state: int) -> list[int]:
    """Return the ready groups with the first node for which there are any. state: set of executed nodes."""
    for position, indices in enumerate(instance.by_node):
        if state >> position & 1:
            continue
        ready = [i for i in indices if not instance.members[i] & state and not instance.required_nodes[i] & ~state]
        if ready:
            return ready
    return []
