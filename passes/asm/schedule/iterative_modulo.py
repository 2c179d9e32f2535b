"""Iterative modulo scheduling: places the op with the least slack first and displaces ops that conflict with it.

The ops placed so far always satisfy the transitive closure of all edges, so that only slots remain to be decided. An op
that fits in no slot displaces other ops: it takes the cycle in which they have the least sum of penalties. An op's
penalty grows each time it has to displace others, so that ops that are hard to place are seldom displaced.
Sources: Rau, "Iterative Modulo Scheduling" (1994): displacement, one interval after the other. Huff,
"Lifetime-Sensitive Modulo Scheduling" (1993): the least slack first. Nagata and Braysy, "A powerful route minimization
heuristic" (2009): penalties that select the ops to displace.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import count as count_from
from itertools import islice

import numpy as np

from mavcg.passes.asm.isa.op import Edge, Schedule
from mavcg.passes.asm.schedule.reservation_table import ReservationTable
from mavcg.passes.asm.schedule.resource_table import WIDTH, ResourceTable
from mavcg.passes.asm.schedule.slack import Cycles, distances_by_stages, start_ranges

# Stages beyond the minimum that the edges allow, for seeds 0, 1, ..: most loops need one more.
EXTRA_STAGES = (1, 1, 2, 1, 1, 0, 1, 1)
LATE = 0.1  # fraction of the ops that take the last free slot instead of the first
PINNED = 1e9  # the penalty of the branch, which is never displaced


def iterative_modulo_schedule(
    resources: ResourceTable, edges: Sequence[Edge], last: int, intervals: range, most_stages: int, effort: float = 1.0
) -> Schedule | None:
    """Return a schedule with the smallest interval for which one is found, in few stages; None if none is found.

    Increases the interval in growing strides until a schedule is found, then tries the intervals below it while
    displacements are left.
    Args:
        edges: latencies include the order of emission (modulo.with_emission_order).
        last: index of the branch, which is pinned to cycle interval - 1.
        effort: approximate seconds that the search may take, counted in displacements, not by a clock.
    """
    count = len(resources.pattern_of)
    # Total displacements. One costs about 150 us and 2 us more per op: at effort 1 a search takes about a second.
    left = int(effort * min(400_000 / (100 + count), 200 * count))
    variants = 2 if _rhythms(resources, intervals.start, 0) else 1  # with the rhythm and without
    share = left // (2 * variants)  # displacements of one attempt

    @cache
    def closures(interval: int) -> _Closures:
        return _Closures(distances_by_stages(count, edges, last, interval), most_stages)

    def attempt(interval: int, seed: int, extra_stages: int, displacements: int) -> Schedule | None:
        nonlocal left
        distances = list(islice(closures(interval), extra_stages + 1))[-1]
        cycles, used = _Attempt(resources, distances, last, interval, seed).run(min(displacements, left))
        left -= used + 4  # an attempt's setup costs about as much as four displacements
        return Schedule(interval, cycles, "heuristic") if cycles is not None else None

    best, at = None, intervals.start
    tried = dict.fromkeys(intervals, 0)
    for misses in count_from(0):
        if best is not None or at >= intervals.stop or left <= 0:
            break
        while closures(at) and best is None and tried[at] < variants and left > 0:
            best = attempt(at, tried[at], EXTRA_STAGES[0], min(4 * count, share))
            tried[at] += 1
        if at == intervals.start:
            share = left // (6 * variants)  # while the interval increases
        at = min(at + max(1, 2 ** (misses - 1)), max(at + 1, intervals.stop - 1))
    # Edges that a schedule can satisfy at one interval can be satisfied at every longer one.
    possible = next((at for at in intervals if closures(at)), intervals.stop)
    while left > 0:
        shorter = range(possible, intervals.stop if best is None else best.interval)
        if not shorter:
            break
        middle = (shorter[0] + shorter[-1] + 1) // 2
        at = min(shorter, key=lambda at: (tried[at], abs(at - middle)))
        best = attempt(at, tried[at], EXTRA_STAGES[tried[at] % len(EXTRA_STAGES)], 4 * count) or best
        tried[at] += 1
    return best and _fewer_stages(best, resources, last, closures(best.interval))


class _Closures:
    """The distance matrices of one interval for 1, 2, .. stages, where a schedule is possible; computed lazily."""

    def __init__(self, make: Callable[[int], Cycles | None], most_stages: int) -> None:
        self._made: list[Cycles] = []
        tried = (make(stages) for stages in range(1, most_stages + 1))
        self._more = (distances for distances in tried if distances is not None)

    def __iter__(self) -> Iterator[Cycles]:
        yield from self._made[:]
        for distances in self._more:
            self._made.append(distances)
            yield distances

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None


def _fewer_stages(best: Schedule, resources: ResourceTable, last: int, closures: Iterable[Cycles]) -> Schedule:
    """Return a schedule of the same interval with the fewest stages for which a short search finds cycles."""
    for distances in closures:
        stages_allowed = 1 + int(start_ranges(distances, last, best.interval)[1].max()) // best.interval
        if stages_allowed > max(best.cycles) // best.interval:
            break
        for seed in range(2):
            cycles, _ = _Attempt(resources, distances, last, best.interval, seed).run(len(resources.pattern_of))
            if cycles is not None:
                return replace(best, cycles=cycles)
    return best


class _Attempt:
    """One attempt to place all ops in a reservation table, with one random seed."""

    def __init__(self, resources: ResourceTable, distances: Cycles, last: int, interval: int, seed: int) -> None:
        """distances: the matrix that slack.distances_by_stages returns for this interval."""
        count = len(resources.pattern_of)
        self._rng = random.Random(seed)
        self._table = ReservationTable(resources, interval)
        self._distances = distances
        self._transposed = np.ascontiguousarray(distances.T)
        self._interval = interval
        self._cycles = np.zeros(count, dtype=np.int32)
        self._placed = np.zeros(count, dtype=bool)
        self._penalty = [1.0] * count
        self._penalty[last] = PINNED
        self._penalties = np.array(self._penalty)  # the same as an array
        self._earliest, self._latest = start_ranges(distances, last, interval)
        self._low, self._high = (
            self._earliest.copy(),
            self._latest.copy(),
        )  # the range that the placed ops leave to the others
        # An op that takes much of a cycle fits in fewer slots: its slack is worth less.
        shares = [
            max(amount / resources.capacities[resource] for _, resource, amount in pattern.uses)
            for pattern in resources.patterns
        ]
        self._worth = np.array([1.25 - shares[pattern] for pattern in resources.pattern_of])
        self._noise = np.array([self._rng.random() for _ in range(count)]) * (0.5 if seed < 2 else 2.0)
        self._reach = [self._table.reach(op) for op in range(count)]
        self._kind_of = resources.pattern_of
        # The rhythm helps some loops and is too strict for others: only even seeds keep it.
        self._rhythm = _rhythms(resources, interval, self._rng.randrange(interval)) if seed % 2 == 0 else {}
        self._known: dict[tuple[int, int], tuple[int, float, list[int]]] = {}
        self._possible = not any(self._table.impossible(op) for op in range(count))
        if self._possible:
            self._put(last, interval - 1)

    def run(self, displacements: int) -> tuple[tuple[int, ...] | None, int]:
        """Place all ops with at most this many displacements; return their cycles, or None, and the displacements."""
        used = 0
        while self._possible and not self._placed.all():
            slack = (self._high - self._low + 1) * self._worth + self._noise
            slack[self._placed] = np.inf
            op = int(slack.argmin())
            cycle = self._free_cycle(op)
            if cycle is None:
                used += 1
                self._penalty[op] += 1
                self._penalties[op] += 1
                cycle, out = self._cheapest_displacement(op)
                if cycle is None or used > displacements:
                    return None, used
                self._displace(out)
            self._put(op, cycle)
        return (tuple(self._cycles.tolist()) if self._possible else None), used

    def _free_cycle(self, op: int) -> int | None:
        """Return the first (at random times the last) cycle that edges and slots allow; None if there is none."""
        interval = self._interval
        start = int(self._low[op])
        rotation = start % interval
        within = (1 << min(int(self._high[op]) - start + 1, interval)) - 1
        rhythm = self._rhythm.get(self._kind_of[op])
        late = self._rng.random() < LATE
        any_slot = self._table.open_slots(op)
        slots = any_slot if rhythm is None else any_slot & rhythm
        if free := (slots >> rotation | slots << interval - rotation) & within:
            return start + (free if late else free & -free).bit_length() - 1
        return None

    def _put(self, op: int, cycle: int) -> None:
        self._table.place(op, cycle)
        self._cycles[op] = cycle
        self._placed[op] = True
        np.maximum(self._low, cycle + self._distances[op], out=self._low)
        np.minimum(self._high, cycle - self._transposed[op], out=self._high)

    def _displace(self, ops: list[int]) -> None:
        for op in ops:
            self._table.remove(op)
            self._placed[op] = False
        (placed,), (free,) = self._placed.nonzero(), (~self._placed).nonzero()
        at = self._cycles[placed]
        self._low[free] = (at + self._transposed.take(free, 0).take(placed, 1)).max(axis=1)
        self._high[free] = (at - self._distances.take(free, 0).take(placed, 1)).min(axis=1)

    def _cheapest_displacement(self, op: int) -> tuple[int | None, list[int]]:
        """Return the allowed cycle whose conflicting ops have the least sum of penalties, or None, and these ops."""
        span = range(int(self._earliest[op]), int(self._latest[op]) + 1)
        (others,) = self._placed.nonzero()
        penalties, cycles = self._penalties.take(others), self._cycles.take(others)
        lowest = cycles + self._transposed[op].take(others)
        highest = cycles - self._distances[op].take(others)
        # A cycle conflicts with every placed op whose `lowest` is above it or whose `highest` is below it.
        above = np.bincount(_clamp(lowest - span.start, len(span)), penalties, len(span) + 1)
        below = np.bincount(_clamp(highest + 1 - span.start, len(span)), penalties, len(span) + 1)
        sums = (above.sum() - above.cumsum() + below.cumsum())[: len(span)]
        by_edges: list[float] = sums.tolist()
        best, best_cycle, displaced = PINNED, None, list[int]()
        rhythm = self._rhythm.get(self._kind_of[op], -1)
        for index in sums.argsort(kind="stable").tolist():
            if by_edges[index] >= best:
                break
            cycle = span[index]
            if not rhythm >> cycle % self._interval & 1:
                continue
            cost, out = self._conflicts(op, cycle % self._interval)
            if by_edges[index] > 0.5:
                gone = others[(lowest > cycle) | (highest < cycle)].tolist()
                out = [*gone, *(displaced for displaced in out if displaced not in gone)]
                cost = sum([self._penalty[displaced] for displaced in out])
            cost += 0.5 * self._rng.random()  # break ties at random
            if cost < best:
                best, best_cycle, displaced = cost, cycle, out
        return best_cycle, displaced

    def _conflicts(self, op: int, slot: int) -> tuple[float, list[int]]:
        """Return the ops that conflict with the op in this slot, after the sum of their penalties.

        Placed ops keep their penalties, so that the result is cached until a slot changes.
        """
        interval, changes = self._interval, self._table.changes
        version = sum([changes[(slot + after) % interval] for after in self._reach[op]])
        pattern = self._kind_of[op]
        cached = self._known.get((pattern, slot))
        if cached is None or cached[0] != version:
            out = self._table.conflicts(op, slot, self._penalty)
            cached = version, sum([self._penalty[displaced] for displaced in out]), out
            self._known[pattern, slot] = cached
        return cached[1], cached[2]


def _clamp(values: Cycles, most: int) -> Cycles:
    """Clamp values to 0 .. most; np.clip takes five times as long for so few."""
    return np.minimum(np.maximum(values, 0), most)


def _rhythms(resources: ResourceTable, interval: int, start: int) -> dict[int, int]:
    """Return pattern -> bit set of slots that suit it, for cores with a forbidden issue distance.

    An A53 issues no vector load four cycles after a multiply-add. Loads then fit best four cycles apart: cycles without
    a multiply-add, here called gaps, recur every four cycles, and each load issues four cycles after a gap. Classes
    that may not dual-issue with a multiply-add go into the gaps, the multiply-adds between them. There is one gap more
    than there are loads, unless gaps fill the whole interval. start: slot of the first gap.
    """
    periods = [after for pattern in resources.patterns for after, _ in pattern.bans if after > 1]
    if not periods:
        return {}
    period = min(periods)
    between = {
        number for number, pattern in enumerate(resources.patterns) if any(after > 1 for after, _ in pattern.bans)
    }
    late = {number for number, pattern in enumerate(resources.patterns) if any(after < -1 for after, _ in pattern.bans)}
    if any(after and resource == WIDTH for pattern in late for after, resource, _ in resources.patterns[pattern].uses):
        return {}  # a load that blocks more than one cycle
    loads = sum(pattern in late for pattern in resources.pattern_of)
    beats = [(start + at) % interval for at in range(0, interval, period)]
    closed = interval % period == 0 and loads >= len(beats)
    gaps = beats if closed else beats[: loads + 1]
    gap_bits, load_bits = (sum(1 << slot for slot in some) for some in (gaps, gaps if closed else gaps[1:]))
    suitable = dict.fromkeys(between, ~gap_bits & (1 << interval) - 1)
    suitable.update(dict.fromkeys(late - between, load_bits))
    for number, pattern in enumerate(resources.patterns):
        if number not in suitable and any(
            patterns >> issuing & 1 for _, patterns in pattern.bans for issuing in between
        ):
            suitable[number] = gap_bits
    return suitable
