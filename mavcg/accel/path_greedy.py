"""The baselines of the path search: no fusion, and greedy fusion."""

from mavcg.accel.path_instance import ChosenPath, PathInstance
from mavcg.errors import MavcgError


def unfused_path(instance: PathInstance) -> ChosenPath:
    """Return each node by itself, in the cheapest group of it alone.

    Raises: MavcgError for a node without such a group.
    """
    chosen = []
    for place, node in enumerate(instance.nodes):
        alone = [index for index in instance.by_node[place] if instance.members[index] == 1 << place]
        if not alone:
            raise MavcgError(f"node {node}: no group of it alone; add one")
        chosen.append(min(alone, key=lambda index: instance.groups[index].cost))
    return ChosenPath(tuple(chosen), instance.cost_of(chosen), False)


def greedy_path(instance: PathInstance) -> ChosenPath:
    """Take, from the first node on, the fitting group that gains most over its nodes by themselves.

    A group fits if none of its nodes has run, and all that it reads from outside has. Source: DNNVM, section IV-B.
    Raises: MavcgError where that leaves a node that no group fits.
    """
    alone = _costs_alone(instance)
    state, chosen = 0, list[int]()

    def order(index: int) -> tuple[float, int, int]:
        gain = sum(alone[node] for node in instance.groups[index].nodes) - instance.groups[index].cost
        return -gain, -instance.members[index].bit_count(), index

    while state != instance.everything:
        fitting = _fitting(instance, state)
        if not fitting:
            raise MavcgError("greedy fusion leaves nodes that no group fits; add a group for each single node")
        index = min(fitting, key=order)
        chosen.append(index)
        state |= instance.members[index]
    return ChosenPath(tuple(chosen), instance.cost_of(chosen), False)


def _costs_alone(instance: PathInstance) -> dict[str, float]:
    """Return the cost of each node by itself; above all others' for a node that no group has alone."""
    most = 1 + sum(abs(group.cost) for group in instance.groups)
    found = dict.fromkeys(instance.nodes, most)
    for group in instance.groups:
        if len(group.nodes) == 1:
            found[group.nodes[0]] = min(found[group.nodes[0]], group.cost)
    return found


def _fitting(instance: PathInstance, state: int) -> list[int]:
    """Return the groups that are ready and have the first node for which there are any."""
    for place, indices in enumerate(instance.by_node):
        if state >> place & 1:
            continue
        ready = [i for i in indices if not instance.members[i] & state and not instance.required_nodes[i] & ~state]
        if ready:
            return ready
    return []
