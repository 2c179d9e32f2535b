"""Which cycles the edges of a loop leave to its ops at a given interval: longest paths between all of them."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from mavcg.passes.asm.op import Edge

_NO_PATH = -(10**6)  # cycles; two of them added still fit 32 bits, and stay below half of one

Cycles = npt.NDArray[np.int32]


def circles_close(count: int, edges: Sequence[Edge], interval: int) -> bool:
    """Whether around every circle of edges the latencies pass within interval * distance cycles.

    Source: Bellman-Ford; without a circle of too much latency, paths of at most `count` edges are the longest.
    """
    if not edges:
        return True
    ends = np.array(sorted((e.target, e.source, e.latency - interval * e.distance) for e in edges), dtype=np.int64)
    sources, cycles = ends[:, 1], ends[:, 2]
    targets, first = np.unique(ends[:, 0], return_index=True)
    longest = np.zeros(count, dtype=np.int64)
    for _ in range(count + 1):
        found = np.maximum.reduceat(longest[sources] + cycles, first)
        if (found <= longest[targets]).all():
            return True
        longest[targets] = np.maximum(longest[targets], found)
    return False


def _closure(count: int, edges: Sequence[Edge], interval: int) -> Cycles:
    """[source, target]: the least cycles from one to the other along any path; a positive diagonal cannot be kept."""
    apart = np.full((count, count), _NO_PATH, dtype=np.int32)
    np.fill_diagonal(apart, 0)
    for edge in edges:
        cycles = edge.latency - interval * edge.distance
        apart[edge.source, edge.target] = max(apart[edge.source, edge.target], cycles)
    for via in range(count):
        (rows,) = (apart[:, via] > _NO_PATH // 2).nonzero()  # mostly few come by here
        if len(rows) < count // 2:
            before = apart[rows]
            apart[rows] = np.maximum(before, before[:, via, None] + apart[via])
        else:
            np.maximum(apart, apart[:, via, None] + apart[None, via, :], out=apart)
        if apart[via, via] > 0:
            break  # there is no schedule: more rounds would only let the numbers grow
    return apart


def windows(count: int, edges: Sequence[Edge], last: int, interval: int) -> Callable[[int], Cycles | None]:
    """For so many stages, the closure of the edges with the branch at interval - 1 and all else in cycles 0 .. stages *
    interval - 1; None when the edges cannot be kept so.
    """
    pinned = [Edge(last, op, 1 - interval) for op in range(count)]
    apart = _closure(count, [*edges, *pinned], interval)

    def within(stages: int) -> Cycles | None:
        if (np.diagonal(apart) > 0).any():
            return None
        # An edge from every op to the branch: all that it adds are paths by way of the branch.
        to_last = np.maximum(apart[:, last], apart.max(axis=1) + (1 - stages) * interval)
        found = np.maximum(apart, to_last[:, None] + apart[last])
        return found if (np.diagonal(found) <= 0).all() else None

    return within


def cycle_ranges(apart: Cycles, last: int, interval: int) -> tuple[Cycles, Cycles]:
    """Each op's earliest and latest cycle, of a closure that `windows` gave."""
    return interval - 1 + apart[last], interval - 1 - apart[:, last]
