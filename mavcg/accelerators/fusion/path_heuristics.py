"""Searches for an execution path that prove nothing: the paper's, and as baselines no fusion and greedy fusion.

The paper's (DNNVM, algorithm 2) is Floyd's between barriers, and enumeration at barriers.

A barrier is a node that reads several nodes or is read by several. Chains are the nodes between barriers. Groups within
a chain are edges of its line graph, whose shortest path is found by Floyd's algorithm. A region is a barrier with the
chains that end there. Groups that contain a barrier, or nodes of several chains (siblings), are enumerated: for each
region, every set of such groups is tried, and shortest paths cover the other nodes of its chains. Groups with nodes of
two regions are never chosen: no fusion goes through a barrier.

In print, the paper's lines 5 to 12 add cost_i and all cost_j for every branch. This search does what is meant: it takes
the least cost over the branches that the barrier may be fused with, where that branch is fused and the others are not.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from mavcg.accelerators.fusion.path_instance import ChosenPath, PathInstance, bits
from mavcg.errors import MavcgError

MOST_SETS = 50_000  # maximum sets of special groups in a region; the paper's enumeration takes too long beyond it


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


def paper_path(instance: PathInstance, most_sets: int = MOST_SETS) -> ChosenPath:
    """Return the choice of algorithm 2: the best choice within each region, independent of other regions.

    most_sets: largest number of sets of groups that are tried in a region.
    Raises: MavcgError if the regions' groups leave a node uncovered, and if a region has more sets of groups.
    """
    chosen: list[int] = []
    for chains, barrier in _regions(instance):
        chosen += _best_of_region(instance, chains, barrier, most_sets)
    order = instance.execution_order(chosen)
    if order is None:
        raise MavcgError("the paper's search: groups of different regions form a cycle; use the exact search")
    return ChosenPath(order, instance.cost_of(order), False)


def _regions(instance: PathInstance) -> list[tuple[list[list[int]], int | None]]:
    """Return (chains, barrier) of each region, in the order of the barriers.

    A chain that ends at no barrier is a region of its own, with the barrier None.
    """
    readers: list[list[int]] = [[] for _ in instance.nodes]
    for a, b in instance.edges:
        readers[instance.index_of[a]].append(instance.index_of[b])
    barrier = [len(readers[i]) > 1 or p.bit_count() > 1 for i, p in enumerate(instance.predecessors)]
    by_end: dict[int | None, list[list[int]]] = {i: [] for i, is_one in enumerate(barrier) if is_one}
    alone: list[list[list[int]]] = []
    for position in range(len(instance.nodes)):
        before = bits(instance.predecessors[position])
        if barrier[position] or (before and not barrier[before[0]]):
            continue
        chain = [position]
        while readers[chain[-1]] and not barrier[readers[chain[-1]][0]]:
            chain.append(readers[chain[-1]][0])
        end = readers[chain[-1]]
        if end:
            by_end[end[0]].append(chain)
        else:
            alone.append([chain])
    regions: list[tuple[list[list[int]], int | None]] = [(chains, end) for end, chains in by_end.items()]
    return regions + [(chains, None) for chains in alone]


def _best_of_region(
    instance: PathInstance, chains: Sequence[Sequence[int]], barrier: int | None, most_sets: int
) -> list[int]:
    inside = sum(1 << position for chain in chains for position in chain) | (0 if barrier is None else 1 << barrier)
    chain_sets = [sum(1 << position for position in chain) for chain in chains]
    special, plain = list[int](), list[int]()
    for index in {i for position in bits(inside) for i in instance.by_node[position]}:
        members = instance.members[index]
        if not members & ~inside:
            within = any(not members & ~chain for chain in chain_sets)
            (plain if within else special).append(index)
    floyd = [_Chain(instance, chain, plain) for chain in chains]
    best: tuple[float, list[int]] = (math.inf, [])
    for count, (chosen, covered) in enumerate(_sets(instance, sorted(special), barrier)):
        if count > most_sets:
            raise MavcgError(
                f"the paper's search: more than {most_sets} sets of groups in a region; use the exact search"
            )
        cost = instance.cost_of(chosen)
        pieces = list(chosen)
        for chain in floyd:
            piece_cost, taken = chain.shortest(covered)
            cost += piece_cost
            pieces += taken
        if cost < best[0] and _is_acyclic(instance, pieces):
            best = (cost, pieces)
    if best[0] == math.inf:
        names = ", ".join(instance.nodes[position] for position in bits(inside))
        raise MavcgError(f"the paper's search: no choice of groups covers {names}; add a group for each single node")
    return best[1]


def _sets(instance: PathInstance, special: Sequence[int], barrier: int | None) -> Iterator[tuple[list[int], int]]:
    """Yield every set of disjoint special groups, one of which contains the barrier, with the nodes that they cover."""
    at_barrier = [i for i in special if barrier is not None and instance.members[i] >> barrier & 1]
    others = [i for i in special if i not in at_barrier]
    pending = [(0, [i], instance.members[i]) for i in reversed(at_barrier)] if barrier is not None else [(0, [], 0)]
    while pending:
        at, chosen, covered = pending.pop()
        if at == len(others):
            yield chosen, covered
            continue
        pending.append((at + 1, chosen, covered))
        members = instance.members[others[at]]
        if not members & covered:
            pending.append((at + 1, [*chosen, others[at]], covered | members))


def _is_acyclic(instance: PathInstance, chosen: Sequence[int]) -> bool:
    """Return True if groups of a region can run one after another; nodes outside of the region are ignored."""
    covered, pending = 0, list(chosen)
    together = 0
    for index in chosen:
        together |= instance.members[index]
    while pending:
        ready = [i for i in pending if not instance.required_nodes[i] & together & ~covered]
        if not ready:
            return False
        for index in ready:
            covered |= instance.members[index]
        pending = [i for i in pending if i not in ready]
    return True


class _Chain:
    """The line graph of a chain: vertices are the cuts between nodes, edges are groups, lengths are costs."""

    def __init__(self, instance: PathInstance, places: Sequence[int], groups: Sequence[int]) -> None:
        self.places = places
        self._at = {position: at for at, position in enumerate(places)}
        self._cost, self._by = self._floyd(instance, groups)

    def _floyd(
        self, instance: PathInstance, groups: Sequence[int]
    ) -> tuple[list[list[float]], Mapping[tuple[int, int], tuple[int, ...]]]:
        """Return the cost of the cheapest path from each cut to each later one, and its groups (algorithm 2, lines 17
        to 25).
        """
        cuts = len(self.places) + 1
        cost = [[0.0 if i == j else math.inf for j in range(cuts)] for i in range(cuts)]
        by: dict[tuple[int, int], tuple[int, ...]] = {(i, i): () for i in range(cuts)}
        for index in groups:
            members = bits(instance.members[index])
            if members[0] not in self._at:
                continue
            first, end = (f(self._at[position] for position in members) for f in (min, max))
            if end - first + 1 == len(members) and instance.groups[index].cost < cost[first][end + 1]:
                cost[first][end + 1] = instance.groups[index].cost
                by[first, end + 1] = (index,)
        for k in range(cuts):
            for i in range(k):  # edges go to later cuts only
                for j in range(k + 1, cuts):
                    if cost[i][k] + cost[k][j] < cost[i][j]:
                        cost[i][j] = cost[i][k] + cost[k][j]
                        by[i, j] = by[i, k] + by[k, j]
        return cost, by

    def shortest(self, covered: int) -> tuple[float, list[int]]:
        """Return cost and groups for the parts of the chain that are not covered. covered: set of nodes."""
        total, taken, start = 0.0, list[int](), 0
        for end in range(len(self.places) + 1):
            if end == len(self.places) or covered >> self.places[end] & 1:
                total += self._cost[start][end]
                taken += self._by.get((start, end), ())
                start = end + 1
        return total, taken
