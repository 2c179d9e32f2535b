"""The reservation table that the schedulers fill: resources taken in each cycle, modulo the initiation interval.

Source: Rau, "Iterative Modulo Scheduling" (1994), for the modulo reservation table.
"""

from collections.abc import Sequence

from mavcg.passes.asm.schedule.resource_table import WIDTH, ReservationPattern, ResourceTable


class ReservationTable:
    """The cycles of a core and the ops placed in them; with an interval, cycles c and c + interval are one slot.

    changes: with an interval, the number of changes of each slot's content.
    """

    def __init__(self, resources: ResourceTable, interval: int | None) -> None:
        """interval: None for unbounded time from cycle 0."""
        self._kind_of = resources.pattern_of
        self._capacities = list(resources.capacities)
        self._interval = interval
        self._room: list[int] = []
        self._holders: list[dict[int, int]] = []  # per slot and resource, as in _room: amount by op
        self._issued: list[list[int]] = []  # per slot: the ops that issue in it
        self._cycle: dict[int, int] = {}
        self._uses = [_fold(pattern, interval) for pattern in resources.patterns]
        # The same without an interval, as distances in _room.
        self._offsets = [
            tuple((after * len(self._capacities) + resource, amount) for after, resource, amount in uses)
            for uses in self._uses
        ]
        self._farthest = max((offset for offsets in self._offsets for offset, _ in offsets), default=0)
        self._bans = [
            tuple((cycles if interval is None else cycles % interval, banned) for cycles, banned in pattern.bans)
            for pattern in resources.patterns
        ]
        self._never = [
            interval is not None
            and any(cycles and not cycles % interval and banned >> number & 1 for cycles, banned in pattern.bans)
            or any(amount > resources.capacities[resource] for _, resource, amount in self._uses[number])
            for number, pattern in enumerate(resources.patterns)
        ]
        # With an interval, slots as bits: where so much of a resource is left, and where ops of a kind issue.
        self._open: list[list[int]] = []
        self._issuing = [0] * len(resources.patterns)
        if interval is not None:
            self._grow(interval)
            self._open = [[(1 << interval) - 1] * (capacity + 1) for capacity in resources.capacities]
        self.changes = [0] * len(self._issued)

    def _grow(self, slots: int) -> None:
        more = slots - len(self._issued)
        self._room += self._capacities * more
        self._holders += [{} for _ in range(more * len(self._capacities))]
        self._issued += [[] for _ in range(more)]

    def _slot(self, cycle: int) -> int:
        if self._interval is not None:
            return cycle % self._interval
        if cycle >= len(self._issued):
            self._grow(2 * cycle + 16)
        return cycle

    def impossible(self, op: int) -> bool:
        """True if the op fits in no slot at this interval even when it is alone."""
        return self._never[self._kind_of[op]]

    def fits(self, op: int, cycle: int) -> bool:
        """True if the op, not placed now, may issue in this cycle together with the ops placed so far."""
        pattern = self._kind_of[op]
        if self._never[pattern]:
            return False
        width, room = len(self._capacities), self._room
        if self._interval is None:
            start = cycle * width
            if start + self._farthest >= len(room):
                self._grow(2 * cycle + self._farthest // width + 16)
            for offset, amount in self._offsets[pattern]:
                if room[start + offset] < amount:
                    return False
        else:
            for after, resource, amount in self._uses[pattern]:
                if room[(cycle + after) % self._interval * width + resource] < amount:
                    return False
        return not (self._bans[pattern] and self._banned_ops(pattern, cycle))

    def open_slots(self, op: int) -> int:
        """Return the slots in which the op, not placed now, fits, slot s as bit s. Needs an interval."""
        interval = len(self._issued)
        pattern = self._kind_of[op]
        if self._never[pattern]:
            return 0
        slots = (1 << interval) - 1
        for after, resource, amount in self._uses[pattern]:
            free = self._open[resource][amount]
            slots &= free >> after | free << interval - after
        for after, banned in self._bans[pattern]:
            for other, issuing in enumerate(self._issuing):
                if issuing and banned >> other & 1:
                    slots &= ~(issuing >> after | issuing << interval - after)
        return slots

    def reach(self, op: int) -> tuple[int, ...]:
        """Return the cycles after its issue whose content decides whether the op fits; modulo the interval."""
        pattern = self._kind_of[op]
        return tuple({after for after, _, _ in self._uses[pattern]} | {after for after, _ in self._bans[pattern]})

    def _banned_ops(self, pattern: int, cycle: int) -> list[int]:
        """Return the placed ops that a ban excludes when an op of this pattern issues in this cycle."""
        return [
            other
            for after, banned in self._bans[pattern]
            if self._interval is not None or cycle + after >= 0
            for other in self._issued[self._slot(cycle + after)]
            if banned >> self._kind_of[other] & 1
        ]

    def conflicts(self, op: int, cycle: int, cost: Sequence[float]) -> list[int]:
        """Return placed ops without which the op fits in this cycle; where there is a choice, those of least cost.

        cost: per op. The op must not be `impossible`.
        """
        pattern = self._kind_of[op]
        out = list(dict.fromkeys(self._banned_ops(pattern, cycle))) if self._bans[pattern] else []
        width = len(self._capacities)
        for after, resource, amount in self._uses[pattern]:
            at = self._slot(cycle + after) * width + resource
            short = amount - self._room[at]
            if short <= 0:
                continue
            holders = self._holders[at]
            short -= sum(holders.get(other, 0) for other in out)
            for other in sorted(holders, key=cost.__getitem__) if short > 0 else ():
                if other not in out:
                    out.append(other)
                    short -= holders[other]
                    if short <= 0:
                        break
        return out

    def place(self, op: int, cycle: int) -> None:
        """Reserve the op's resources for an issue in this cycle, where it `fits`."""
        self._cycle[op] = cycle
        self._issued[self._slot(cycle)].append(op)
        self._change(op, cycle, 1)

    def remove(self, op: int) -> None:
        """Release the resources of a placed op."""
        cycle = self._cycle.pop(op)
        self._issued[self._slot(cycle)].remove(op)
        self._change(op, cycle, -1)

    def _change(self, op: int, cycle: int, sign: int) -> None:
        width, pattern = len(self._capacities), self._kind_of[op]
        for after, resource, amount in self._uses[pattern]:
            slot = self._slot(cycle + after)
            at = slot * width + resource
            self._room[at] -= sign * amount
            if sign > 0:
                self._holders[at][op] = amount
            else:
                del self._holders[at][op]
            if self._interval is not None:
                self.changes[slot] += 1
                free, room = self._open[resource], self._room[at]
                for level in range(1, len(free)):
                    free[level] = free[level] | 1 << slot if level <= room else free[level] & ~(1 << slot)
        if self._interval is not None:
            slot = self._slot(cycle)
            self.changes[slot] += 1
            issues = any(self._kind_of[other] == pattern for other in self._issued[slot])
            self._issuing[pattern] = self._issuing[pattern] & ~(1 << slot) | issues << slot


def _fold(pattern: ReservationPattern, interval: int | None) -> tuple[tuple[int, int, int], ...]:
    """Return a pattern's uses modulo the interval: a use that lasts longer than the interval counts twice.

    The issue width comes last: an op that is displaced for a unit frees an issue slot too.
    """
    total: dict[tuple[int, int], int] = {}
    for after, resource, amount in pattern.uses:
        at = after if interval is None else after % interval, resource
        total[at] = total.get(at, 0) + amount
    found = [(after, resource, amount) for (after, resource), amount in total.items()]
    return tuple(sorted(found, key=lambda use: use[1] == WIDTH))
