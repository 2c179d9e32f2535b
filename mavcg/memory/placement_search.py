"""Search for the smallest memory that holds buffers with known lifetimes; exact if the search ends within its limits.

The buffers fall into components that are never live together; each is searched by itself, in rounds. A round is a
depth-first search (csrc/placement.c) with a static order of the buffers and a limit of nodes. Orders alternate and
limits grow, and some orders put buffers first that lacked room in earlier rounds: restarts that learn from failures, as
in constraint solvers (Boussemart et al., "Boosting systematic search by weighting constraints", ECAI 2004). Limits are
counted in nodes, not in seconds, so the same input gives the same offsets on every machine.
"""

import random
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd

from mavcg.memory.search_library import SearchProblem

MOST_BUFFERS = 3000  # larger components are not searched: the stack of lists grows with the square of the number
_GROWTH = 1.2  # growth of the node limit from one pass over the orders to the next
# Sort keys of the orders, largest first: T largest sum of sizes in a section, W length of the lifetime, A area, F
# largest and S summed failures of its sections, P these times its size, B the buffer's own failures, R random.
_ORDERS = ("TWA", "AWT", "FWA", "STA", "BTA", "WAT", "TAW", "PTA", "RTA")


@dataclass(frozen=True)
class LiveBuffer:
    """A buffer of `size` that is live from `first` to before `end`."""

    size: int
    first: int
    end: int


@dataclass(frozen=True)
class SearchLimits:
    """Limits of a search.

    nodes: of all search trees together. seconds: None for no time limit; with one the result depends on the machine.
    enough: extent at which the search ends, such as a given capacity.
    """

    nodes: int
    seconds: float | None = None
    enough: int = 0
    seed: int = 0


@dataclass(frozen=True)
class BufferPlacement:
    """A placement of buffers.

    offsets: in the order of the buffers. extent: end of the highest buffer. lower_bound: extent that no placement can
    undercut. nodes: of the search trees.
    """

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
    """Return the largest sum of sizes of buffers that are live at the same time."""
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
    """Return a placement no larger than `start`; it is the smallest possible if its extent equals lower_bound.

    start: offsets of a valid placement. Buffers without a size, or that are never live, keep theirs. Offsets that are
    multiples of a common divisor of all sizes stay multiples of it.
    """
    offsets, budget = list(start), _Budget(limits, progress)
    components = sorted(_components(buffers), key=lambda part: -live_peak([buffers[i] for i in part]))
    bound = max((live_peak([buffers[i] for i in part]) for part in components), default=0)
    for part in components:
        extent = max(offsets[i] + buffers[i].size for i in part)
        if extent > max(bound, limits.enough):
            in_part = [buffers[i] for i in part]
            placed = _search_component(in_part, [offsets[i] for i in part], max(bound, limits.enough), budget)
            bound = max(bound, placed.lower_bound)
            for i, offset in zip(part, placed.offsets, strict=True):
                offsets[i] = offset
    extent = max((o + b.size for o, b in zip(offsets, buffers, strict=True) if b.end > b.first), default=0)
    return BufferPlacement(tuple(offsets), extent, bound, budget.used)


def _components(buffers: Sequence[LiveBuffer]) -> Iterator[list[int]]:
    """Yield the numbers of buffers of each component, linked by overlapping lifetimes; empty buffers are left out."""
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
) -> BufferPlacement:
    """Search for a smaller placement of one component, by bisection of capacities from the goal up.

    goal: at least the component's live peak; it is tried first. start: a valid placement. A capacity without an answer
    in time counts as too small for the bisection, but not for the lower bound.
    """
    step = gcd(*(b.size for b in buffers))
    best, extent = tuple(start), max(o + b.size for o, b in zip(start, buffers, strict=True))
    bound = live_peak(buffers)
    if len(buffers) > MOST_BUFFERS:
        return BufferPlacement(best, extent, bound)
    problem = _Component(buffers)
    low, capacity = goal // step * step, goal // step * step
    share = 0.5  # fraction of the remaining nodes for the first capacity: most components fit their live peak
    while low < extent and budget.left():
        offsets, possible = problem.fit(capacity, int(budget.left() * share) + 1, budget)
        if offsets is not None:
            best, extent = offsets, max(o + b.size for o, b in zip(offsets, buffers, strict=True))
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
    """A component in the form of the search, with sections instead of times."""

    def __init__(self, buffers: Sequence[LiveBuffer]) -> None:
        self.buffers = buffers
        self.spans = _sections(buffers)
        self.sums = [0] * max(end for _, end in self.spans)
        for buffer, (begin, end) in zip(buffers, self.spans, strict=True):
            for section in range(begin, end):
                self.sums[section] += buffer.size
        self.problem = SearchProblem(self.spans, [buffer.size for buffer in buffers])

    def fit(self, capacity: int, most_nodes: int, budget: _Budget) -> tuple[tuple[int, ...] | None, bool | None]:
        """Return (offsets, True) if a placement within the capacity is found, (None, False) if none exists, else (None,
        None)."""
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
                "T": max(self.sums[begin:end]),
                "W": length,
                "A": length * buffer.size,
                "S": int(summed),
                "F": int(failures[begin:end].max()),
                "P": int(summed * buffer.size),
                "B": int(self.problem.buffer_failures[number]),
            }
            rows.append((*(-(generator.random() * (1 + summed) if k == "R" else values[k]) for k in keys), number))
        return [int(row[-1]) for row in sorted(rows)]


def _sections(buffers: Sequence[LiveBuffer]) -> list[tuple[int, int]]:
    """Return the range of sections [begin, end) in which each buffer is live.

    A section is a maximal set of buffers live at the same time: a maximal clique of the interval graph. It begins with
    a buffer, and some buffer ends before the next section begins.
    """
    starts, ends = sorted({b.first for b in buffers}), sorted({b.end for b in buffers})
    times, at = [], 0
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        while at < len(ends) and ends[at] <= start:
            at += 1
        if following is None or (at < len(ends) and ends[at] <= following):
            times.append(start)
    return [(bisect_left(times, b.first), bisect_left(times, b.end)) for b in buffers]
