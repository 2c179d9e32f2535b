"""What one cycle of a core can hold, modulo an interval: the reservation table that the schedulers fill.

Source: Rau, "Iterative Modulo Scheduling" (1994), for the modulo reservation table.
"""

from collections.abc import Sequence

from mavcg.passes.asm.needs import WIDTH, Kind, Needs


class Table:
    """The cycles of a core and the ops placed in them; with an interval, cycle c and c + interval are one slot.

    changes: with an interval, per slot, how often what it holds has changed.
    """

    def __init__(self, needs: Needs, interval: int | None) -> None:
        """interval: None for unbounded time from cycle 0."""
        self._kind_of = needs.kind_of
        self._capacities = list(needs.capacities)
        self._interval = interval
        self._room: list[int] = []
        self._holders: list[dict[int, int]] = []  # per slot and resource, as in room: who takes how much
        self._issued: list[list[int]] = []  # per slot: the ops that issue in it
        self._cycle: dict[int, int] = {}
        self._uses = [_merged(kind, interval) for kind in needs.kinds]
        self._bans = [
            tuple((cycles if interval is None else cycles % interval, banned) for cycles, banned in kind.bans)
            for kind in needs.kinds
        ]
        self._never = [
            interval is not None
            and any(cycles and not cycles % interval and banned >> number & 1 for cycles, banned in kind.bans)
            or any(amount > needs.capacities[resource] for _, resource, amount in self._uses[number])
            for number, kind in enumerate(needs.kinds)
        ]
        # With an interval, slots as bits: where so much of a resource is left, and where ops of a kind issue.
        self._open: list[list[int]] = []
        self._issuing = [0] * len(needs.kinds)
        if interval is not None:
            self._grow(interval)
            self._open = [[(1 << interval) - 1] * (capacity + 1) for capacity in needs.capacities]
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
        """Whether the op finds no slot at this interval even when it is alone."""
        return self._never[self._kind_of[op]]

    def fits(self, op: int, cycle: int) -> bool:
        """Whether the op, not placed now, may issue in this cycle beside what is there."""
        kind = self._kind_of[op]
        if self._never[kind]:
            return False
        width, room = len(self._capacities), self._room
        for after, resource, amount in self._uses[kind]:
            slot = self._slot(cycle + after)
            if room[slot * width + resource] < amount:
                return False
        return not (self._bans[kind] and self._banned(kind, cycle))

    def open_slots(self, op: int) -> int:
        """With an interval: the slots in which the op, not placed now, fits; slot s is bit s."""
        interval = len(self._issued)
        kind = self._kind_of[op]
        if self._never[kind]:
            return 0
        found = (1 << interval) - 1
        for after, resource, amount in self._uses[kind]:
            free = self._open[resource][amount]
            found &= free >> after | free << interval - after
        for after, banned in self._bans[kind]:
            for other, issuing in enumerate(self._issuing):
                if issuing and banned >> other & 1:
                    found &= ~(issuing >> after | issuing << interval - after)
        return found

    def reach(self, op: int) -> tuple[int, ...]:
        """The cycles after its issue of which the content decides whether the op fits; modulo the interval."""
        kind = self._kind_of[op]
        return tuple({after for after, _, _ in self._uses[kind]} | {after for after, _ in self._bans[kind]})

    def _banned(self, kind: int, cycle: int) -> list[int]:
        """The ops there that may not be where they are when one of this kind issues in this cycle."""
        return [
            other
            for after, banned in self._bans[kind]
            if self._interval is not None or cycle + after >= 0
            for other in self._issued[self._slot(cycle + after)]
            if banned >> self._kind_of[other] & 1
        ]

    def in_the_way(self, op: int, cycle: int, cost: Sequence[float]) -> list[int]:
        """Placed ops without which the op fits in this cycle; where there is a choice, those of least cost.

        cost: per op. The op must not be `impossible`.
        """
        kind = self._kind_of[op]
        out = list(dict.fromkeys(self._banned(kind, cycle))) if self._bans[kind] else []
        width = len(self._capacities)
        for after, resource, amount in self._uses[kind]:
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
        """Let the op issue in this cycle, where it `fits`."""
        self._cycle[op] = cycle
        self._issued[self._slot(cycle)].append(op)
        self._change(op, cycle, 1)

    def remove(self, op: int) -> None:
        """Take a placed op out again."""
        cycle = self._cycle.pop(op)
        self._issued[self._slot(cycle)].remove(op)
        self._change(op, cycle, -1)

    def _change(self, op: int, cycle: int, sign: int) -> None:
        width, kind = len(self._capacities), self._kind_of[op]
        for after, resource, amount in self._uses[kind]:
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
            issues = any(self._kind_of[other] == kind for other in self._issued[slot])
            self._issuing[kind] = self._issuing[kind] & ~(1 << slot) | issues << slot


def _merged(kind: Kind, interval: int | None) -> tuple[tuple[int, int, int], ...]:
    """Uses modulo the interval: one that lasts longer than it meets itself, and counts twice.

    The width comes last: whoever must go for a unit's sake makes room in it too.
    """
    total: dict[tuple[int, int], int] = {}
    for after, resource, amount in kind.uses:
        at = after if interval is None else after % interval, resource
        total[at] = total.get(at, 0) + amount
    found = [(after, resource, amount) for (after, resource), amount in total.items()]
    return tuple(sorted(found, key=lambda use: use[1] == WIDTH))
