"""Divide the supported nodes of a graph into convex sets that can be computed as one node each.

A set is convex if no path leaves it and comes back. Several sets together must also not wait for each other. Nodes are
numbers in an order of computation. ONNX runtimes run a model that mavcg writes, so its sets are free; TFLite's runtime
divides a graph between a delegate and its own kernels itself.
"""

from collections.abc import Mapping, Sequence

Sources = Sequence[Sequence[int]]


def convex_sets(sources: Sources, supported: Sequence[bool], weights: Sequence[int]) -> list[tuple[int, ...]]:
    """Return disjoint connected convex sets of the supported nodes, the heaviest first; no two of them can be joined.

    Args:
        sources: for each node, the nodes whose results it reads, which come before it.
        weights: weight of each node; if a set could be joined with several others, the heaviest is joined first.
    """
    group = _by_level(sources, supported)
    while True:
        pair = _joinable(sources, supported, group, weights)
        if pair is None:
            break
        kept, gone = pair
        group = [kept if g == gone else g for g in group]
    members: dict[int, list[int]] = {}
    for node, label in enumerate(group):
        if supported[node]:
            members.setdefault(label, []).append(node)
    return sorted(map(tuple, members.values()), key=lambda nodes: (-sum(weights[n] for n in nodes), nodes))


def _by_level(sources: Sources, supported: Sequence[bool]) -> list[int]:
    """Return a label for each node; supported nodes that are connected within a level share one.

    A node's level is the largest number of times that a path to it enters supported nodes. A path that leaves the nodes
    of a level only goes to higher levels, so the sets are convex, and no two of them wait for each other.
    """
    level: list[int] = []
    group = list(range(len(sources)))

    def root(node: int) -> int:
        while group[node] != node:
            group[node] = group[group[node]]
            node = group[node]
        return node

    for node, read in enumerate(sources):
        level.append(max((level[s] + (supported[node] and not supported[s]) for s in read), default=0))
        if supported[node]:
            for s in read:
                if supported[s] and level[s] == level[node]:
                    group[root(s)] = root(node)
    return [root(node) for node in range(len(sources))]


def _joinable(
    sources: Sources, supported: Sequence[bool], group: Sequence[int], weights: Sequence[int]
) -> tuple[int, int] | None:
    """Return the labels of the heaviest pair of sets, one reading the other, that are convex together; else None."""
    targets: dict[int, set[int]] = {label: set() for label in group}
    for node, read in enumerate(sources):
        for s in read:
            if group[s] != group[node]:
                targets[group[s]].add(group[node])
    total: dict[int, int] = {}
    for node, label in enumerate(group):
        total[label] = total.get(label, 0) + weights[node]
    able = {label for node, label in enumerate(group) if supported[node]}
    pairs = [(a, b) for a in able for b in targets[a] if b in able]
    for a, b in sorted(pairs, key=lambda pair: (-total[pair[0]] - total[pair[1]], pair)):
        if not _reaches(targets, targets[a] - {b}, b):
            return a, b
    return None


def _reaches(targets: Mapping[int, set[int]], starts: set[int], end: int) -> bool:
    """Return True if a path leads from one of the starts to `end`. They are labels of sets."""
    seen, stack = set(starts), list(starts)
    while stack:
        label = stack.pop()
        if label == end:
            return True
        new = targets[label] - seen
        seen |= new
        stack += new
    return False


def delegate_sets(sources: Sources, supported: Sequence[bool], weights: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the sets of supported nodes that the runtime turns into one delegate kernel each, the heaviest first.

    The runtime visits the nodes in order: the first node that can run begins a set, and all nodes of its kind
    (supported or not) that can run by then join it. The sets are convex, and may have several connected parts.

    Args:
        sources: for each node, the nodes whose results it reads, which come before it.
        weights: weight of each node.
    Source: TensorFlow Lite, graph_info.cc, PartitionGraphIntoIndependentNodeSubsets, described in our words.
    """
    done = [False] * len(sources)
    sets: list[tuple[int, ...]] = []
    left = list(range(len(sources)))
    while left:
        kind: bool | None = None
        taken: list[int] = []
        # One pass is enough: sources come before their readers.
        for node in left:
            if all(done[s] for s in sources[node]) and kind in (None, supported[node]):
                kind, done[node] = supported[node], True
                taken.append(node)
        left = [node for node in left if not done[node]]
        if kind:
            sets.append(tuple(taken))
    return sorted(sets, key=lambda nodes: (-sum(weights[n] for n in nodes), nodes))
