"""The reservation table of modulo scheduling: the resources taken in each cycle, modulo the initiation interval.

Source: Rau, "Iterative Modulo Scheduling" (1994), for the modulo reservation table.

By it a modulo schedule is checked, wherever it comes from.
"""

from collections.abc import Mapping, Sequence

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Edge, Op, Schedule
from mavcg.passes.asm.schedule.resource_table import WIDTH, ReservationPattern, ResourceTable, resource_table


class ReservationTable:
    """The ops placed in the slots of one interval; cycles c and c + interval are the same slot.

    changes: per slot, how often its content has changed.
    """

    def __init__(self, resources: ResourceTable, interval: int) -> None:
        self._kind_of = resources.pattern_of
        self._capacities = list(resources.capacities)
        self._interval = interval
        self._room = list(resources.capacities) * interval
        # Per slot and resource, indexed as _room: op -> amount that it takes.
        self._holders: list[dict[int, int]] = [{} for _ in self._room]
        self._issued: list[list[int]] = [[] for _ in range(interval)]  # per slot: the ops that issue in it
        self._cycle: dict[int, int] = {}
        self._uses = [_fold(pattern, interval) for pattern in resources.patterns]
        self._uses_from: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}  # as _places has them
        self._bans = [
            tuple((cycles % interval, banned) for cycles, banned in pattern.bans) for pattern in resources.patterns
        ]
        self._never = [
            any(cycles and not cycles % interval and banned >> number & 1 for cycles, banned in pattern.bans)
            or any(amount > resources.capacities[resource] for _, resource, amount in self._uses[number])
            for number, pattern in enumerate(resources.patterns)
        ]
        # Bit sets of slots: with a given amount of a resource free, and with an issue of a pattern.
        self._open = [[(1 << interval) - 1] * (capacity + 1) for capacity in resources.capacities]
        self._issuing = [0] * len(resources.patterns)
        self.changes = [0] * interval

    def impossible(self, op: int) -> bool:
        """True if the op fits in no slot at this interval even when it is alone."""
        return self._never[self._kind_of[op]]

    def fits(self, op: int, cycle: int) -> bool:
        """True if the op, not placed now, may issue in this cycle together with the ops placed so far."""
        return bool(self.open_slots(op) >> cycle % self._interval & 1)

    def open_slots(self, op: int) -> int:
        """Return the slots in which the op, not placed now, fits, slot s as bit s."""
        interval = self._interval
        pattern = self._kind_of[op]
        if self._never[pattern]:
            return 0
        slots = (1 << interval) - 1
        for after, resource, amount in self._uses[pattern]:
            free = self._open[resource][amount]
            slots &= free >> after | free << interval - after
        for after, banned in self._bans[pattern]:
            for issuing_pattern, issuing in enumerate(self._issuing):
                if issuing and banned >> issuing_pattern & 1:
                    slots &= ~(issuing >> after | issuing << interval - after)
        return slots

    def reach(self, op: int) -> tuple[int, ...]:
        """Return the distances, in cycles modulo the interval, of the slots whose content decides if the op fits."""
        pattern = self._kind_of[op]
        return tuple({after for after, _, _ in self._uses[pattern]} | {after for after, _ in self._bans[pattern]})

    def _excluded_ops(self, pattern: int, cycle: int) -> list[int]:
        """Return the placed ops that a ban excludes when an op of this pattern issues in this cycle."""
        return [
            placed
            for after, banned in self._bans[pattern]
            for placed in self._issued[(cycle + after) % self._interval]
            if banned >> self._kind_of[placed] & 1
        ]

    def conflicts(self, op: int, cycle: int, cost: Sequence[float]) -> list[int]:
        """Return the placed ops to remove so that the op fits in this cycle, preferring those of least cost.

        cost: of removing each op. The op must not be `impossible`.
        """
        pattern = self._kind_of[op]
        out = list(dict.fromkeys(self._excluded_ops(pattern, cycle))) if self._bans[pattern] else []
        for at, _, _, amount in self._places(pattern, cycle % self._interval):
            short = amount - self._room[at]
            if short <= 0:
                continue
            holders = self._holders[at]
            short -= sum(holders.get(displaced, 0) for displaced in out)
            for holder in sorted(holders, key=cost.__getitem__) if short > 0 else ():
                if holder not in out:
                    out.append(holder)
                    short -= holders[holder]
                    if short <= 0:
                        break
        return out

    def place(self, op: int, cycle: int) -> None:
        """Reserve the op's resources for an issue in this cycle; `fits` must be true."""
        slot, pattern = cycle % self._interval, self._kind_of[op]
        self._cycle[op] = cycle
        self._issued[slot].append(op)
        self._issuing[pattern] |= 1 << slot
        self.changes[slot] += 1
        for at, used, resource, amount in self._places(pattern, slot):
            left = self._room[at] - amount
            for level in range(left + 1, self._room[at] + 1):
                self._open[resource][level] &= ~(1 << used)
            self._room[at] = left
            self._holders[at][op] = amount
            self.changes[used] += 1

    def remove(self, op: int) -> None:
        """Release the resources of a placed op."""
        slot, pattern = self._cycle.pop(op) % self._interval, self._kind_of[op]
        self._issued[slot].remove(op)
        if not any(self._kind_of[placed] == pattern for placed in self._issued[slot]):
            self._issuing[pattern] &= ~(1 << slot)
        self.changes[slot] += 1
        for at, used, resource, amount in self._places(pattern, slot):
            left = self._room[at] + amount
            for level in range(self._room[at] + 1, left + 1):
                self._open[resource][level] |= 1 << used
            self._room[at] = left
            del self._holders[at][op]
            self.changes[used] += 1

    def _places(self, pattern: int, slot: int) -> list[tuple[int, int, int, int]]:
        """Return (index in _room, slot, resource, amount) for each use of an op that issues in a slot."""
        known = self._uses_from.get((pattern, slot))
        if known is None:
            slots = [
                ((slot + after) % self._interval, resource, amount) for after, resource, amount in self._uses[pattern]
            ]
            known = [
                (used * len(self._capacities) + resource, used, resource, amount) for used, resource, amount in slots
            ]
            self._uses_from[pattern, slot] = known
        return known


def _fold(pattern: ReservationPattern, interval: int) -> tuple[tuple[int, int, int], ...]:
    """Return a pattern's uses modulo the interval; uses that fall in the same slot are added up.

    The issue width comes last, because an op displaced for a unit frees an issue slot too.
    """
    total: dict[tuple[int, int], int] = {}
    for after, resource, amount in pattern.uses:
        at = after % interval, resource
        total[at] = total.get(at, 0) + amount
    folded = [(after, resource, amount) for (after, resource), amount in total.items()]
    return tuple(sorted(folded, key=lambda use: use[1] == WIDTH))


ALGORITHMS = ("heuristic", "cp-sat")


def is_schedule_of(
    schedule: Schedule, ops: Sequence[Op], edges: Sequence[Edge], timing: Timing, below: float, stages: int
) -> bool:
    """Return True if a schedule that may come from anywhere is one of this loop: well formed, short enough, correct.

    ops: of the body; the last is the closing branch, which ends the first stage. edges: all dependences, as the order
    of emission needs them (modulo.with_emission_order). below: exclusive upper bound on the interval. stages: maximum
    of iterations in flight. Raises: MissingFact when the core knows nothing of a class.
    """
    interval, cycles = schedule.interval, schedule.cycles
    if not ops or type(interval) is not int or not 0 < interval < below or schedule.by not in ALGORITHMS:
        return False
    if type(schedule.optimal) is not bool or len(cycles) != len(ops):
        return False
    if any(type(cycle) is not int or not 0 <= cycle < stages * interval for cycle in cycles):
        return False
    if cycles[-1] != interval - 1:
        return False
    cycle_of = dict(enumerate(cycles))
    return edges_hold(cycle_of, edges, interval) and slots_hold(cycle_of, resource_table(ops, timing), interval)


def edges_hold(cycles: Mapping[int, int], edges: Sequence[Edge], interval: int) -> bool:
    """Return True if each dependence has its latency. cycles: cycle of each op."""
    return all(cycles[edge.target] + interval * edge.distance >= cycles[edge.source] + edge.latency for edge in edges)


def slots_hold(cycles: Mapping[int, int], resources: ResourceTable, interval: int) -> bool:
    """Return True if the core has the resources of all ops, and no ban is broken. cycles: cycle of each op."""
    table = ReservationTable(resources, interval)
    for op, cycle in cycles.items():
        if not table.fits(op, cycle):
            return False
        table.place(op, cycle)
    return True
