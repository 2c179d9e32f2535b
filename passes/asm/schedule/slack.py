"""Slack: the range of cycles in which the edges of a loop allow each op to issue, by all-pairs longest paths."""

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from mavcg.passes.asm.isa.op import Edge

_NO_PATH = -(10**6)  # in cycles: two added fit 32 bits, and any sum with a path's length stays below half of it

Cycles = npt.NDArray[np.int32]


def recurrences_fit(count: int, edges: Sequence[Edge], interval: int) -> bool:
    """True if no recurrence needs a longer initiation interval.

    The latencies along each cycle of edges must add up to at most interval * distance cycles.
    Source: Bellman-Ford: if no recurrence has more latency, the longest paths have at most `count` edges.
    """
    if not edges:
        return True
    ends = _as_rows(edges)
    sources, all_targets, latencies, iterations = ends[ends[:, 1].argsort(kind="stable")].T
    cycles = latencies - interval * iterations
    targets, first = np.unique(all_targets, return_index=True)
    longest = np.zeros(count, dtype=np.int64)
    for _ in range(count + 1):
        longer = np.maximum.reduceat(longest[sources] + cycles, first)
        if (longer <= longest[targets]).all():
            return True
        longest[targets] = np.maximum(longest[targets], longer)
    return False


def _as_rows(edges: Sequence[Edge]) -> Cycles:
    """Return the edges as rows (source, target, latency, distance); np.array takes ten times as long for tuples."""
    return np.fromiter(chain.from_iterable(edges), np.int32, 4 * len(edges)).reshape(-1, 4)


def _longest_paths(count: int, edges: Sequence[Edge], interval: int) -> Cycles:
    """Return the minimum distances between ops, [source, target], in cycles: the longest path from source to target.

    A positive diagonal means that no schedule satisfies the edges.
    """
    distances = np.full((count, count), _NO_PATH, dtype=np.int32)
    np.fill_diagonal(distances, 0)
    if edges:
        sources, targets, latencies, iterations = _as_rows(edges).T
        np.maximum.at(distances, (sources, targets), latencies - interval * iterations)
    for via in range(count):
        (rows,) = (distances[:, via] > _NO_PATH // 2).nonzero()  # mostly few paths go through here
        if len(rows) < count // 2:
            before = distances[rows]
            distances[rows] = np.maximum(before, before[:, via, None] + distances[via])
        else:
            np.maximum(distances, distances[:, via, None] + distances[None, via, :], out=distances)
        if distances[via, via] > 0:
            break  # no schedule exists; to go on would only increase the numbers
    return distances


def distances_by_stages(count: int, edges: Sequence[Edge], last: int, interval: int) -> Callable[[int], Cycles | None]:
    """Return a function from a number of stages to the minimum distances [source, target] between ops, in cycles.

    The distances are the longest paths along edges, with the branch pinned to cycle interval - 1 and all ops in cycles
    0 .. stages * interval - 1. The function returns None if no schedule satisfies the edges within these cycles.
    """
    pinned = [Edge(last, op, 1 - interval) for op in range(count)]
    distances = _longest_paths(count, [*edges, *pinned], interval)

    def within(stages: int) -> Cycles | None:
        if (np.diagonal(distances) > 0).any():
            return None
        # An edge from every op to the branch adds only paths through the branch.
        to_last = np.maximum(distances[:, last], distances.max(axis=1) + (1 - stages) * interval)
        bounded = np.maximum(distances, to_last[:, None] + distances[last])
        return bounded if (np.diagonal(bounded) <= 0).all() else None

    return within


def start_ranges(distances: Cycles, last: int, interval: int) -> tuple[Cycles, Cycles]:
    """Return each op's earliest and latest issue cycle, from a matrix of distances_by_stages."""
    return interval - 1 + distances[last], interval - 1 - distances[:, last]
