"""Which cycles the edges of a loop leave to its ops at a given interval: longest paths between all of them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mavcg.passes.asm.op import Edge

_NO_PATH = -(10**6)

Cycles = npt.NDArray[np.int32]


def circles_close(count: int, edges: Sequence[Edge], interval: int) -> bool:
    """Whether around every circle of edges the latencies pass within interval * distance cycles."""
    return bool((np.diagonal(_closure(count, edges, interval)) <= 0).all())


def _closure(count: int, edges: Sequence[Edge], interval: int) -> Cycles:
    """[source, target]: the least cycles from one to the other along any path; a positive diagonal cannot be kept."""
    apart = np.full((count, count), _NO_PATH, dtype=np.int32)
    np.fill_diagonal(apart, 0)
    for edge in edges:
        cycles = edge.latency - interval * edge.distance
        apart[edge.source, edge.target] = max(apart[edge.source, edge.target], cycles)
    for via in range(count):
        np.maximum(apart, apart[:, via, None] + apart[None, via, :], out=apart)
        if apart[via, via] > 0:
            break  # there is no schedule: more rounds would only let the numbers grow
    return apart


def windows(count: int, edges: Sequence[Edge], last: int, interval: int, stages: int) -> Cycles | None:
    """The closure of the edges with the branch at interval - 1 and all else in cycles 0 .. stages * interval - 1.

    None when the edges cannot be kept so.
    """
    pinned = [Edge(last, op, 1 - interval) for op in range(count)]
    within = [Edge(op, last, (1 - stages) * interval) for op in range(count)]
    apart = _closure(count, [*edges, *pinned, *within], interval)
    return apart if (np.diagonal(apart) <= 0).all() else None


def cycle_ranges(apart: Cycles, last: int, interval: int) -> tuple[Cycles, Cycles]:
    """Each op's earliest and latest cycle, of a closure that `windows` gave."""
    return interval - 1 + apart[last], interval - 1 - apart[:, last]
