"""List scheduling: reorders straight-line code; each cycle issues the ready ops of highest priority (Muchnick, 17.1).

ldr  x1, [x0]        cycle 0      ->    ldr  x1, [x0]        cycle 0
add  x2, x1, #1      cycle 3            ldr  x3, [x4]        cycle 1
ldr  x3, [x4]        cycle 4            add  x2, x1, #1      cycle 3
add  x5, x3, #1      cycle 7            add  x5, x3, #1      cycle 4

The resources taken in the current and later cycles are two integers used as bit fields. The first has a field for each
resource of each cycle; the field's highest bit becomes 1 when an op takes more than is left. The second has a bit for
each pattern and cycle, set if the pattern may not issue then. Time only goes forward and nothing is removed.
"""

import random
import sys
from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Edge, Op
from mavcg.passes.asm.schedule.resource_table import WIDTH, ResourceTable, resource_table


class IssueWindow:
    """The resources in use in the current cycle and in the later cycles that ops already occupy; it begins idle."""

    def __init__(self, resources: ResourceTable) -> None:
        patterns = resources.patterns
        amounts = [amount for pattern in patterns for _, _, amount in pattern.uses]
        bits = max([*resources.capacities, *amounts]).bit_length() + 1  # of a field
        cycles = range(1 + max((after for pattern in patterns for after, _, _ in pattern.uses), default=0))
        self._cycle_bits = bits * len(resources.capacities)

        def field(after: int, resource: int) -> int:
            return after * self._cycle_bits + resource * bits

        idle = {
            after: sum(
                (1 << bits - 1) - 1 - capacity << field(after, r) for r, capacity in enumerate(resources.capacities)
            )
            for after in cycles
        }
        self._idle = sum(idle.values())
        self._fresh = idle[cycles[-1]]  # fields of the new last cycle that each step adds
        self._full = sum(1 << field(at, r) + bits - 1 for at in cycles for r in range(len(resources.capacities)))
        self._need = [sum(amount << field(at, r) for at, r, amount in pattern.uses) for pattern in patterns]
        self._pattern_count = len(patterns)
        self._bans = [
            sum(banned << after * len(patterns) for after, banned in pattern.bans if after >= 0) for pattern in patterns
        ]
        self.reset()

    def reset(self) -> None:
        """Return to an idle core."""
        self._used, self._banned = self._idle, 0

    def fits(self, pattern: int) -> bool:
        """True if an op of this pattern may issue in the current cycle."""
        return not (self._used + self._need[pattern] & self._full or self._banned >> pattern & 1)

    def place(self, pattern: int) -> None:
        """Issue an op of this pattern in the current cycle; `fits` must be true."""
        self._used += self._need[pattern]
        self._banned |= self._bans[pattern]

    def advance(self) -> None:
        """Go to the next cycle."""
        self._used = self._used >> self._cycle_bits | self._fresh
        self._banned >>= self._pattern_count


RESTARTS = 14  # greedy schedules with random priorities, after those with plain ones
# Up to this number of ops all orders are tried: a greedy schedule never leaves a slot empty, which is sometimes best.
SHORT = 5


def list_schedule(ops: Sequence[Op], edges: Sequence[Edge], timing: Timing) -> tuple[tuple[int, int], ...]:
    """Return the ops in an order that takes no more cycles than the given order, and fewer if one is found.

    Chooses the best of the input's order, which wins ties, and several greedy orders: by critical path, by number of
    successors, by scarcity of units, and by seeded mixtures of these. The same input gives the same order.
    Returns: (index of the op, cycle in which it issues), in the order of issue.
    Raises: ValueError for edges that form a cycle or have a distance; MissingFact when the core knows nothing of a
        class.
    """
    if any(edge.distance for edge in edges):
        raise ValueError("list_schedule: an edge has a distance; straight-line code has none")
    return _best_schedule(resource_table(ops, timing), tuple(edges)) if ops else ()


@lru_cache(maxsize=1024)  # kernels of many shapes have segments that differ in registers and offsets alone
def _best_schedule(resources: ResourceTable, edges: tuple[Edge, ...]) -> tuple[tuple[int, int], ...]:
    ops = resources.pattern_of
    heights = critical_path(len(ops), edges)
    after: list[list[Edge]] = [[] for _ in ops]
    for edge in edges:
        after[edge.source].append(edge)
    scarcity = [_scarcity(resources, op) for op in range(len(ops))]
    latest = max(heights)
    tails = [latest - height for height in critical_path(len(ops), [_reverse(edge) for edge in edges])]
    keys: list[list[tuple[float, ...]]] = [
        [(heights[op], len(after[op]), -op) for op in range(len(ops))],
        [(heights[op], scarcity[op], -op) for op in range(len(ops))],
        [(heights[op] + scarcity[op], -op) for op in range(len(ops))],
        [(scarcity[op], heights[op], -op) for op in range(len(ops))],
        [(heights[op] - (latest - tails[op]), heights[op], -op) for op in range(len(ops))],
        [(-op,) for op in range(len(ops))],
    ]
    own = tuple(range(len(ops)))
    orders = permutations(own) if len(ops) <= SHORT else [own]  # its own order is the first of the permutations
    tried = [placed for order in orders if (placed := _in_order(order, edges, resources))]
    if len(ops) > SHORT:
        greedy = _Greedy(edges, resources, heights)
        for key in keys:
            tried += greedy.schedule(key, _last_cycle(tried))
        least = max(latest, _busiest(resources, len(ops)))
        rng = random.Random(len(ops))
        for _ in range(RESTARTS):
            if (shortest := _last_cycle(tried)) <= least:
                break
            key = [(heights[op] + 2 * scarcity[op] * rng.random() + 3 * rng.random(),) for op in range(len(ops))]
            tried += greedy.schedule(key, shortest)
    return min(tried, key=_cost)


def _last_cycle(tried: Sequence[tuple[tuple[int, int], ...]]) -> int:
    """Return the cycle of the last issue in the shortest schedule; sys.maxsize if there is no schedule yet.

    The input's order is not a schedule if an edge of latency 0 runs against it.
    """
    return min((schedule[-1][1] for schedule in tried), default=sys.maxsize)


def _busiest(resources: ResourceTable, count: int) -> int:
    """Return a lower bound on the cycle in which the last of `count` ops issues, by the resources alone."""
    work = [0] * len(resources.capacities)
    for op in range(count):
        for after, resource, amount in resources.patterns[resources.pattern_of[op]].uses:
            if not after:  # resources taken in later cycles may lie after the last issue
                work[resource] += amount
    return max((-(-amount // room) for amount, room in zip(work, resources.capacities, strict=True)), default=1) - 1


def critical_path(count: int, edges: Sequence[Edge]) -> list[int]:
    """Return per op the longest latency from its issue to the issue of any op that depends on it, in cycles.

    Raises: ValueError when edges form a cycle.
    """
    after: list[list[Edge]] = [[] for _ in range(count)]
    waiting = [0] * count
    for edge in edges:
        after[edge.source].append(edge)
        waiting[edge.target] += 1
    ready = [op for op in range(count) if not waiting[op]]
    for op in ready:  # grows while it is read, in topological order
        for edge in after[op]:
            waiting[edge.target] -= 1
            if not waiting[edge.target]:
                ready.append(edge.target)
    if len(ready) < count:
        stuck = [op for op in range(count) if waiting[op]]
        raise ValueError(f"list_schedule: edges of distance 0 form a cycle through ops among {stuck}")
    heights = [0] * count
    for op in reversed(ready):
        heights[op] = max((edge.latency + heights[edge.target] for edge in after[op]), default=0)
    return heights


def _reverse(edge: Edge) -> Edge:
    return Edge(edge.target, edge.source, edge.latency)


def _scarcity(resources: ResourceTable, op: int) -> float:
    """Return the largest fraction of a cycle's resource that the op takes: a measure of how hard it is to place."""
    return max(
        amount / resources.capacities[resource]
        for _, resource, amount in resources.patterns[resources.pattern_of[op]].uses
    )


def _cost(placed: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return placed[-1][1], sum(cycle for _, cycle in placed)


def _in_order(order: Sequence[int], edges: Sequence[Edge], resources: ResourceTable) -> tuple[tuple[int, int], ...]:
    """Return the ops in this order with their issue cycles, or () if the order violates an edge."""
    position = {op: at for at, op in enumerate(order)}
    if any(position[edge.source] >= position[edge.target] for edge in edges):
        return ()
    window = IssueWindow(resources)
    earliest = [0] * len(order)
    placed: list[tuple[int, int]] = []
    before: list[list[Edge]] = [[] for _ in order]
    for edge in edges:
        before[edge.target].append(edge)
    cycle = 0
    for op in order:
        pattern = resources.pattern_of[op]
        start = max((earliest[edge.source] + edge.latency for edge in before[op]), default=0)
        while cycle < start or not window.fits(pattern):
            window.advance()
            cycle += 1
        window.place(pattern)
        earliest[op] = cycle
        placed.append((op, cycle))
    return tuple(placed)


class _Greedy:
    """Makes greedy schedules of the same ops with different priorities."""

    def __init__(self, edges: Sequence[Edge], resources: ResourceTable, heights: Sequence[int]) -> None:
        """heights: the ops' critical paths."""
        self._heights, self._pattern_of, self._width = heights, resources.pattern_of, resources.capacities[WIDTH]
        self._window = IssueWindow(resources)
        self._after: list[list[tuple[int, int]]] = [[] for _ in heights]  # (op that waits, latency)
        self._waiting = [0] * len(heights)
        for edge in edges:
            self._after[edge.source].append((edge.target, edge.latency))
            self._waiting[edge.target] += 1

    def schedule(self, key: Sequence[tuple[float, ...]], longest: int) -> list[tuple[tuple[int, int], ...]]:
        """Schedule cycle by cycle; of the ready ops that fit, the one with the largest key issues first.

        longest: latest cycle in which the last op may issue. Returns: a list with the schedule; [] if it is longer.
        """
        window, pattern_of, waiting = self._window, self._pattern_of, self._waiting.copy()
        window.reset()
        by_rank = sorted(range(len(key)), key=key.__getitem__, reverse=True)
        rank = [0] * len(key)
        for number, op in enumerate(by_rank):
            rank[op] = number
        latest = [longest - height for height in self._heights]  # cycle in which each op has to issue
        latest_of_rank = [latest[op] for op in by_rank]
        earliest = [0] * len(key)
        ready = sorted(rank[op] for op, before in enumerate(waiting) if not before)
        later: dict[int, list[int]] = {}  # cycle -> ranks of the ops that become ready in it
        placed: list[tuple[int, int]] = []
        cycle, start = 0, 0  # start: the ready ops before it do not fit in this cycle any more
        refused = 0  # patterns, as bits, of which no op fits in this cycle any more
        while len(placed) < len(key):
            for at in range(start, len(ready)):
                pattern = pattern_of[by_rank[ready[at]]]
                if refused >> pattern & 1:
                    continue
                if window.fits(pattern):
                    break
                refused |= 1 << pattern
            else:
                cycle += 1
                window.advance()
                start, refused = 0, 0
                for number in later.pop(cycle, ()):
                    insort(ready, number)
                # The schedule becomes too long if an op is late already, or if the slots left are too few.
                left = len(key) - len(placed)
                if ready and latest_of_rank[min(ready, key=latest_of_rank.__getitem__)] < cycle:
                    return []
                if left > (longest - cycle + 1) * self._width:
                    return []
                continue
            chosen = by_rank[ready.pop(at)]
            start = at
            if latest[chosen] < cycle:
                return []
            window.place(pattern)
            placed.append((chosen, cycle))
            for target, latency in self._after[chosen]:
                earliest[target] = max(earliest[target], cycle + latency)
                waiting[target] -= 1
                if waiting[target]:
                    continue
                if earliest[target] > latest[target]:
                    return []
                if earliest[target] > cycle:
                    later.setdefault(earliest[target], []).append(rank[target])
                else:
                    insort(ready, rank[target])
                    start = min(start, bisect_left(ready, rank[target]))
        return [tuple(placed)]
