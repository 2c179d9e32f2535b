"""The heuristic of modulo scheduling: place the most constrained op, and let it push out what is in its way.

The ops placed so far are always consistent with the closure of all edges, so that what is left to decide is slots. An
op that finds none takes the cycle where those it pushes out were easiest to place so far; having been hard to place
itself, it is then harder to push out.
Sources: Rau, "Iterative Modulo Scheduling" (1994): placing with eviction at one interval after the other. Huff,
"Lifetime-Sensitive Modulo Scheduling" (1993): the least slack first. Nagata and Braysy, "A powerful route minimization
heuristic" (2009): penalties that decide whom to push out.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import count as count_from
from itertools import islice

import numpy as np

from mavcg.passes.asm.needs import WIDTH, Needs
from mavcg.passes.asm.op import Edge, Schedule
from mavcg.passes.asm.slots import Table
from mavcg.passes.asm.windows import Cycles, cycle_ranges, windows

# Stages beyond the fewest that the edges allow, seed by seed: one more is what most loops need.
EXTRA_STAGES = (1, 1, 2, 1, 1, 0, 1, 1)
LATE = 0.1  # of the ops that find a slot take the last one
PINNED = 1e9  # the penalty of the branch, which nothing pushes out


def search(
    needs: Needs, edges: Sequence[Edge], last: int, intervals: range, most_stages: int, effort: float = 1.0
) -> Schedule | None:
    """The schedule of the smallest of these intervals for which one is found, in as few stages as that allows.

    Goes up in growing strides until one is found, then tries the intervals below it while evictions are left.
    edges: with the order of emission in them (modulo.ordered_edges). last: the branch, pinned to interval - 1. effort:
    about as many seconds as it may take, counted in evictions and not by a clock.
    """
    count = len(needs.kind_of)
    # Evictions in all. One costs some 150 us and 2 more per op: at effort 1 no search takes much over a second.
    left = int(effort * min(400_000 / (100 + count), 200 * count))
    ways = 2 if _rhythms(needs, intervals.start, 0) else 1  # with the rhythm and without
    share = left // (2 * ways)  # for one attempt: at the smallest interval many succeed, and those by one of the first

    @cache
    def closures(interval: int) -> _Closures:
        return _Closures(windows(count, edges, last, interval), most_stages)

    def attempt(interval: int, seed: int, extra_stages: int, evictions: int) -> Schedule | None:
        nonlocal left
        apart = list(islice(closures(interval), extra_stages + 1))[-1]
        cycles, used = _Attempt(needs, apart, last, interval, seed).run(min(evictions, left))
        left -= used + 4  # setting up costs about as much as four
        return Schedule(interval, cycles, "heuristic") if cycles is not None else None

    best, at = None, intervals.start
    tried = dict.fromkeys(intervals, 0)
    for misses in count_from(0):
        if best is not None or at >= intervals.stop or left <= 0:
            break
        while closures(at) and best is None and tried[at] < ways and left > 0:
            best = attempt(at, tried[at], EXTRA_STAGES[0], min(4 * count, share))
            tried[at] += 1
        if at == intervals.start:
            share = left // (6 * ways)  # on the way up
        at = min(at + max(1, 2 ** (misses - 1)), max(at + 1, intervals.stop - 1))
    # What an interval leaves to the ops, a longer one leaves too.
    possible = next((at for at in intervals if closures(at)), intervals.stop)
    while left > 0:
        shorter = range(possible, intervals.stop if best is None else best.interval)
        if not shorter:
            break
        middle = (shorter[0] + shorter[-1] + 1) // 2
        at = min(shorter, key=lambda at: (tried[at], abs(at - middle)))
        best = attempt(at, tried[at], EXTRA_STAGES[tried[at] % len(EXTRA_STAGES)], 4 * count) or best
        tried[at] += 1
    return best and _fewer_stages(best, needs, last, closures(best.interval))


class _Closures:
    """The closures of one interval for 1, 2, .. stages, those that there are; each made when it is asked for."""

    def __init__(self, make: Callable[[int], Cycles | None], most_stages: int) -> None:
        self._made: list[Cycles] = []
        tried = (make(stages) for stages in range(1, most_stages + 1))
        self._more = (apart for apart in tried if apart is not None)

    def __iter__(self) -> Iterator[Cycles]:
        yield from self._made[:]
        for apart in self._more:
            self._made.append(apart)
            yield apart

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None


def _fewer_stages(best: Schedule, needs: Needs, last: int, closures: Iterable[Cycles]) -> Schedule:
    """The same interval with the fewest stages for which a short search finds cycles."""
    for apart in closures:
        stages_allowed = 1 + int(cycle_ranges(apart, last, best.interval)[1].max()) // best.interval
        if stages_allowed > max(best.cycles) // best.interval:
            break
        for seed in range(2):
            cycles, _ = _Attempt(needs, apart, last, best.interval, seed).run(len(needs.kind_of))
            if cycles is not None:
                return replace(best, cycles=cycles)
    return best


class _Attempt:
    """One filling of a reservation table, from one seed."""

    def __init__(self, needs: Needs, apart: Cycles, last: int, interval: int, seed: int) -> None:
        """apart: the closure that `windows` gives for this interval."""
        count = len(needs.kind_of)
        self._rng = random.Random(seed)
        self._table = Table(needs, interval)
        self._apart = apart
        self._turned = np.ascontiguousarray(apart.T)
        self._interval = interval
        self._cycles = np.zeros(count, dtype=np.int32)
        self._placed = np.zeros(count, dtype=bool)
        self._penalty = [1.0] * count
        self._penalty[last] = PINNED
        self._earliest, self._latest = cycle_ranges(apart, last, interval)
        self._low, self._high = self._earliest.copy(), self._latest.copy()  # what the placed leave to the others
        # An op that takes much of a cycle has fewer slots to go to: its slack is worth less.
        shares = [max(amount / needs.capacities[resource] for _, resource, amount in kind.uses) for kind in needs.kinds]
        self._worth = np.array([1.25 - shares[kind] for kind in needs.kind_of])
        self._noise = np.array([self._rng.random() for _ in range(count)]) * (0.5 if seed < 2 else 2.0)
        self._reach = [self._table.reach(op) for op in range(count)]
        self._kind_of = needs.kind_of
        # A help for some loops and too strict for others: tried by turns.
        self._rhythm = _rhythms(needs, interval, self._rng.randrange(interval)) if seed % 2 == 0 else {}
        self._known: dict[tuple[int, int], tuple[int, float, list[int]]] = {}
        self._possible = not any(self._table.impossible(op) for op in range(count))
        if self._possible:
            self._put(last, interval - 1)

    def run(self, evictions: int) -> tuple[tuple[int, ...] | None, int]:
        """Cycles for all ops, or None when that many evictions did not do; and how many it took."""
        used = 0
        while self._possible and not self._placed.all():
            slack = (self._high - self._low + 1) * self._worth + self._noise
            slack[self._placed] = np.inf
            op = int(slack.argmin())
            cycle = self._free_cycle(op)
            if cycle is None:
                used += 1
                self._penalty[op] += 1
                cycle, out = self._least_eviction(op)
                if cycle is None or used > evictions:
                    return None, used
                self._push_out(out)
            self._put(op, cycle)
        return (tuple(self._cycles.tolist()) if self._possible else None), used

    def _free_cycle(self, op: int) -> int | None:
        """The first cycle that edges and slots leave to the op, or now and then the last: no two searches alike."""
        interval = self._interval
        start = int(self._low[op])
        turn = start % interval
        within = (1 << min(int(self._high[op]) - start + 1, interval)) - 1
        rhythm = self._rhythm.get(self._kind_of[op])
        late = self._rng.random() < LATE
        any_slot = self._table.open_slots(op)
        slots = any_slot if rhythm is None else any_slot & rhythm
        if free := (slots >> turn | slots << interval - turn) & within:
            return start + (free if late else free & -free).bit_length() - 1
        return None

    def _put(self, op: int, cycle: int) -> None:
        self._table.place(op, cycle)
        self._cycles[op] = cycle
        self._placed[op] = True
        np.maximum(self._low, cycle + self._apart[op], out=self._low)
        np.minimum(self._high, cycle - self._turned[op], out=self._high)

    def _push_out(self, ops: list[int]) -> None:
        for op in ops:
            self._table.remove(op)
            self._placed[op] = False
        (kept,), (free,) = self._placed.nonzero(), (~self._placed).nonzero()
        at, rows = self._cycles[kept], free[:, None]
        self._low[free] = (at + self._turned[rows, kept]).max(axis=1)
        self._high[free] = (at - self._apart[rows, kept]).min(axis=1)

    def _least_eviction(self, op: int) -> tuple[int | None, list[int]]:
        """The cycle for the op, and whom to push out for it: the least sum of penalties. None: nowhere."""
        span = range(int(self._earliest[op]), int(self._latest[op]) + 1)
        (others,) = self._placed.nonzero()
        penalties = np.array([self._penalty[other] for other in others.tolist()])
        lowest = self._cycles[others] + self._turned[op, others]
        highest = self._cycles[others] - self._apart[op, others]
        # Against a cycle stand all whose lowest is above it and all whose highest is below.
        above = np.bincount(_within(lowest - span.start, len(span)), penalties, len(span) + 1)
        below = np.bincount(_within(highest + 1 - span.start, len(span)), penalties, len(span) + 1)
        by_edges = (above.sum() - np.cumsum(above) + np.cumsum(below))[: len(span)]
        best, found_at, found = PINNED, None, list[int]()
        rhythm = self._rhythm.get(self._kind_of[op], -1)
        for index in np.argsort(by_edges, kind="stable").tolist():
            if by_edges[index] >= best:
                break
            cycle = span[index]
            if not rhythm >> cycle % self._interval & 1:
                continue
            cost, out = self._in_the_way(op, cycle % self._interval)
            if by_edges[index] > 0.5:
                gone = others[(lowest > cycle) | (highest < cycle)].tolist()
                out = [*gone, *(other for other in out if other not in gone)]
                cost = sum([self._penalty[other] for other in out])
            cost += 0.5 * self._rng.random()  # among equals, not always the same one
            if cost < best:
                best, found_at, found = cost, cycle, out
        return found_at, found

    def _in_the_way(self, op: int, slot: int) -> tuple[float, list[int]]:
        """Whom the op would push out of this slot, and the sum of their penalties, which rest while they are placed."""
        interval, changes = self._interval, self._table.changes
        now = sum([changes[(slot + after) % interval] for after in self._reach[op]])
        kind = self._kind_of[op]
        known = self._known.get((kind, slot))
        if known is None or known[0] != now:
            out = self._table.in_the_way(op, slot, self._penalty)
            known = now, sum([self._penalty[other] for other in out]), out
            self._known[kind, slot] = known
        return known[1], known[2]


def _within(values: Cycles, most: int) -> Cycles:
    """Values limited to 0 .. most; np.clip takes five times as long for so few."""
    return np.minimum(np.maximum(values, 0), most)


def _rhythms(needs: Needs, interval: int, turn: int) -> dict[int, int]:
    """Slots, as a bit set, that suit a kind where cycles a certain way apart exclude each other.

    An A53 loads no vector four cycles after a multiply-add: loads then do best four cycles from one another, each in
    the gap that the one before leaves, with what may not stand beside a multiply-add either, and those in between. As
    many gaps as there are loads, and one before the first, unless they close the circle. turn: where the first is.
    """
    periods = [after for kind in needs.kinds for after, _ in kind.bans if after > 1]
    if not periods:
        return {}
    period = min(periods)
    between = {number for number, kind in enumerate(needs.kinds) if any(after > 1 for after, _ in kind.bans)}
    late = {number for number, kind in enumerate(needs.kinds) if any(after < -1 for after, _ in kind.bans)}
    if any(after and resource == WIDTH for kind in late for after, resource, _ in needs.kinds[kind].uses):
        return {}  # a load that blocks more than its cycle
    loads = sum(kind in late for kind in needs.kind_of)
    beats = [(turn + at) % interval for at in range(0, interval, period)]
    closed = interval % period == 0 and loads >= len(beats)
    gaps = beats if closed else beats[: loads + 1]
    gap_bits, load_bits = (sum(1 << slot for slot in some) for some in (gaps, gaps if closed else gaps[1:]))
    found = dict.fromkeys(between, ~gap_bits & (1 << interval) - 1)
    found.update(dict.fromkeys(late - between, load_bits))
    for number, kind in enumerate(needs.kinds):
        if number not in found and any(kinds >> other & 1 for _, kinds in kind.bans for other in between):
            found[number] = gap_bits
    return found
