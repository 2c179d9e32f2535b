"""Search for the smallest memory that holds buffers with known lifetimes: exact where the search comes to an end.

The buffers fall into components that are never live together; each is searched by itself, in rounds. A round is a
depth-first search (csrc/placement.c) with a static order of the buffers and a limit of nodes. Orders alternate and
limits grow, and some orders put first what lacked room in the rounds before: restarts that learn from failures, as
constraint solvers have them (Boussemart et al., "Boosting systematic search by weighting constraints", ECAI 2004). The
limits are counted in nodes, not in seconds: the same input gives the same offsets on every machine.
"""

import random
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd

from mavcg.memory.search_library import SearchProblem

MOST_BUFFERS = 3000  # of a component that is searched: the stack of lists grows with their square
_GROWTH = 1.2  # of the limit of nodes, from one pass over the orders to the next
# Keys of the orders, largest first: T largest sum of sizes in a section, W length of the lifetime, A area, F largest
# and S summed failures of its sections, P these times its size, B its own failures, R drawn by the seed.
_ORDERS = ("TWA", "AWT", "FWA", "STA", "BTA", "WAT", "TAW", "PTA", "RTA")


@dataclass(frozen=True)
class LiveBuffer:
    """A buffer of `size` that is live from `first` up to but not including `end`."""

    size: int
    first: int
    end: int


@dataclass(frozen=True)
class SearchLimits:
    """nodes: of the search trees, all together. seconds: None for no limit of time; what is found then depends on the
    machine. enough: an extent at which the search ends, such as a given capacity."""

    nodes: int
    seconds: float | None = None
    enough: int = 0
    seed: int = 0


@dataclass(frozen=True)
class BufferPlacement:
    """offsets: of each buffer, in the order given. extent: the end of the highest one. lower_bound: no placement is
    below it; nodes: of the search trees."""

    offsets: tuple[int, ...]
    extent: int
    lower_bound: int
    nodes: int = 0


@dataclass
class _Budget:
    limits: SearchLimits
    progress: Callable[[str], None]
    used: int = 0
    started: float = field(default_factory=time.monotonic)

    def left(self) -> int:
        if self.limits.seconds is not None and time.monotonic() - self.started > self.limits.seconds:
            return 0
        return max(0, self.limits.nodes - self.used)


def live_peak(buffers: Sequence[LiveBuffer]) -> int:
    """Return the largest sum of sizes of buffers that are live together."""
    events = sorted([(b.first, b.size) for b in buffers if b.end > b.first] + [(b.end, -b.size) for b in buffers])
    live = peak = 0
    for _, change in events:  # at equal times, ends come first: their changes are negative
        live += change
        peak = max(peak, live)
    return peak


def search_placement(
    buffers: Sequence[LiveBuffer],
    start: Sequence[int],
    limits: SearchLimits,
    progress: Callable[[str], None] = lambda message: None,
) -> BufferPlacement:
    """Return a placement no larger than that of the offsets in `start`, the smallest where lower_bound meets it.

    start: offsets of a valid placement. Buffers without a size, or that are never live, keep theirs. Multiples of a
    common divisor of all sizes stay multiples of it.
    """
    offsets, budget = list(start), _Budget(limits, progress)
    components = sorted(_components(buffers), key=lambda part: -live_peak([buffers[i] for i in part]))
    bound = max((live_peak([buffers[i] for i in part]) for part in components), default=0)
    for part in components:
        extent = max(offsets[i] + buffers[i].size for i in part)
        if extent > max(bound, limits.enough):
            own = [buffers[i] for i in part]
            found = _search_component(own, [offsets[i] for i in part], max(bound, limits.enough), budget)
            bound = max(bound, found.lower_bound)
            for i, offset in zip(part, found.offsets, strict=True):
                offsets[i] = offset
    extent = max((o + b.size for o, b in zip(offsets, buffers, strict=True) if b.end > b.first), default=0)
    return BufferPlacement(tuple(offsets), extent, bound, budget.used)


def _components(buffers: Sequence[LiveBuffer]) -> Iterator[list[int]]:
    """Yield the numbers of buffers that are linked by common times; those that take no room are left out."""
    order = sorted((i for i, b in enumerate(buffers) if b.size and b.end > b.first), key=lambda i: buffers[i].first)
    part: list[int] = []
    end = 0
    for i in order:
        if part and buffers[i].first >= end:
            yield sorted(part)
            part = []
        part.append(i)
        end = max(end, buffers[i].end)
    if part:
        yield sorted(part)


def _search_component(
    buffers: Sequence[LiveBuffer], start: Sequence[int], goal: int, budget: _Budget
) -> BufferPlacement:  # fmt: skip
    """Search between the goal, which is no lower than the component's live peak, and what is there.

    First at the goal; what that leaves open is halved again and again. A capacity without an answer counts as too
    small for the next one to be tried, but not for the lower bound.
    """
    step = gcd(*(b.size for b in buffers))
    best, extent = tuple(start), max(o + b.size for o, b in zip(start, buffers, strict=True))
    bound = live_peak(buffers)
    if len(buffers) > MOST_BUFFERS:
        return BufferPlacement(best, extent, bound)
    problem = _Component(buffers)
    low, capacity = goal // step * step, goal // step * step
    share = 0.5  # of the nodes left, for the first capacity: most components fit into their live peak
    while low < extent and budget.left():
        found, possible = problem.fit(capacity, int(budget.left() * share) + 1, budget)
        if found is not None:
            best, extent = found, max(o + b.size for o, b in zip(found, buffers, strict=True))
            if extent <= goal:
                break
        else:
            low = capacity + step
            if possible is False:
                bound = max(bound, low)
        capacity, share = (low + extent - step) // 2 // step * step, 0.25
        capacity = max(capacity, low)
        if extent - step < low:
            break
    return BufferPlacement(best, extent, min(bound, extent))


class _Component:
    """Buffers linked by common times, as the search takes them: with sections in place of times."""

    def __init__(self, buffers: Sequence[LiveBuffer]) -> None:
        self.buffers = buffers
        self.spans = _sections(buffers)
        self.sums = [0] * max(end for _, end in self.spans)
        for buffer, (begin, end) in zip(buffers, self.spans, strict=True):
            for section in range(begin, end):
                self.sums[section] += buffer.size
        self.problem = SearchProblem(self.spans, [buffer.size for buffer in buffers])

    def fit(self, capacity: int, most_nodes: int, budget: _Budget) -> tuple[tuple[int, ...] | None, bool | None]:
        """Return offsets below the capacity, or None; with False where it is proven that there are none."""
        generator = random.Random(budget.limits.seed)
        end, limit = budget.used + most_nodes, float(len(self.buffers))
        while budget.used < end and budget.left():
            limit *= _GROWTH
            for order in _ORDERS:
                nodes = min(int(limit) + 1, max(1, end - budget.used))
                round_ = self.problem.search(self._order(order, generator), capacity, nodes)
                self.problem.section_failures *= 0.5
                self.problem.buffer_failures *= 0.5
                budget.used += round_.nodes
                if round_.possible is not None:
                    return round_.offsets, round_.possible
                if budget.used >= end or not budget.left():
                    break
            budget.progress(f"{len(self.buffers)} buffers into {capacity}: {budget.used} nodes")
        return None, None

    def _order(self, keys: str, generator: random.Random) -> list[int]:
        failures = self.problem.section_failures
        rows = []
        for number, (buffer, (begin, end)) in enumerate(zip(self.buffers, self.spans, strict=True)):
            length = buffer.end - buffer.first
            summed = float(failures[begin:end].sum())
            values = {
                "T": max(self.sums[begin:end]), "W": length, "A": length * buffer.size, "S": int(summed),
                "F": int(failures[begin:end].max()), "P": int(summed * buffer.size),
                "B": int(self.problem.buffer_failures[number]),
            }  # fmt: skip
            rows.append((*(-(generator.random() * (1 + summed) if k == "R" else values[k]) for k in keys), number))
        return [int(row[-1]) for row in sorted(rows)]


def _sections(buffers: Sequence[LiveBuffer]) -> list[tuple[int, int]]:
    """Return the sections that each buffer is live in, as [begin, end).

    A section is a time at which buffers are live that are not all live at another one: a maximal clique of the
    interval graph. It begins with a buffer, and one ends before the next begins.
    """
    starts, ends = sorted({b.first for b in buffers}), sorted({b.end for b in buffers})
    times, at = [], 0
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        while at < len(ends) and ends[at] <= start:
            at += 1
        if following is None or (at < len(ends) and ends[at] <= following):
            times.append(start)
    return [(bisect_left(times, b.first), bisect_left(times, b.end)) for b in buffers]
