"""Divide a TFLite graph as its runtime divides it between a delegate and its own kernels."""

from collections.abc import Sequence


def delegate_sets(
    sources: Sequence[Sequence[int]], supported: Sequence[bool], weights: Sequence[int]
) -> list[tuple[int, ...]]:
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
