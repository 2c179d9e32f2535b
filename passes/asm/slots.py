"""What one cycle of a core can hold, modulo an interval: the reservation table that the schedulers fill.

Every limit on a cycle becomes a sum or a ban. Sums: the issue width, and for each connected set of unit pools the
micro-operations that only these pools can serve (Hall's condition: all find a unit exactly when no such set is asked
for more than it has). Bans: classes that may not issue in the same cycle, or not a given number of cycles later. The
solver reads the same sums and bans, so that both schedulers obey one reading of a core's facts.

Source: Rau, "Iterative Modulo Scheduling" (1994), for the modulo reservation table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from mavcg.instr_classes import lineage
from mavcg.passes.asm.op import Op
from mavcg.timing import Apart, ClassTiming, Timing

WIDTH = 0  # the resource that stands for the issue width; the others stand for sets of pools


@dataclass(frozen=True)
class Kind:
    """What ops of one class ask of the cycles around their issue.

    uses: (cycles after issue, resource, amount). bans: (cycles after issue, may be negative; bit set of the kinds of
    which none may issue then).
    """

    uses: tuple[tuple[int, int, int], ...]
    bans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Needs:
    """What the ops of a body ask of each cycle: capacities per cycle and resource, and each op's kind by number."""

    capacities: tuple[int, ...]
    kinds: tuple[Kind, ...]
    kind_of: tuple[int, ...]


def needs_of(ops: Sequence[Op], timing: Timing) -> Needs:
    """The limits of a core as sums and bans over the classes of these ops.

    A unit stays busy for its use's cycles; uses that may take several pools are counted cycle by cycle, so one that
    lasts may in this count change its pool. Micro-operations of one class that no single cycle can hold, as two for
    the only load unit, start in the first cycles that can.
    Raises: MissingFact when the core knows nothing of a class.
    """
    names = list(dict.fromkeys(op.op_class for op in ops))
    facts = [timing.of(name) for name in names]
    masks, capacities = _pool_sets(facts, timing)
    bans = _bans(names, timing)
    kinds = tuple(Kind(_uses(fact, timing, masks, capacities), bans[number]) for number, fact in enumerate(facts))
    number_of = {name: number for number, name in enumerate(names)}
    return Needs(capacities, kinds, tuple(number_of[op.op_class] for op in ops))


def _pool_sets(facts: list[ClassTiming], timing: Timing) -> tuple[list[frozenset[str]], tuple[int, ...]]:
    """The sets of pools to count for: what uses may take, closed under union of overlapping ones."""
    asked = list(dict.fromkeys(frozenset(use.any_of) for fact in facts for use in fact.units))
    sets = list(asked)
    for known in sets:  # grows while it is read
        for other in asked:
            if known & other and (union := known | other) not in sets:
                sets.append(union)
    return sets, (timing.width, *(sum(timing.pools[pool] for pool in pools) for pools in sets))


def _uses(
    fact: ClassTiming, timing: Timing, pool_sets: list[frozenset[str]], capacities: tuple[int, ...]
) -> tuple[tuple[int, int, int], ...]:
    taken: dict[tuple[int, int], int] = {}

    def fits(start: int, cycles: int, resources: list[int]) -> bool:
        return all(
            taken.get((cycle, resource), 0) < capacities[resource]
            for cycle in range(start, start + cycles)
            for resource in resources
        )

    def take(cycles: int, resources: list[int]) -> None:
        start = next(at for at in range(1000) if fits(at, cycles, resources))
        for cycle in range(start, start + cycles):
            for resource in resources:
                taken[cycle, resource] = taken.get((cycle, resource), 0) + 1

    for _ in range(max(1, len(fact.units)) if timing.order == "out" else 1):
        take(1, [WIDTH])
    for use in fact.units:
        take(use.cycles, [1 + at for at, pools in enumerate(pool_sets) if pools.issuperset(use.any_of)])
    for cycle in range(fact.blocks):  # alone: it takes the whole width
        taken[cycle, WIDTH] = timing.width
    return tuple((cycle, resource, amount) for (cycle, resource), amount in sorted(taken.items()))


def _bans(names: list[str], timing: Timing) -> list[tuple[tuple[int, int], ...]]:
    found: list[dict[int, int]] = [{} for _ in names]

    def ban(first: frozenset[str], then: frozenset[str], cycles: int) -> None:
        for a in _matching(names, first):
            for b in _matching(names, then):
                found[a][cycles] = found[a].get(cycles, 0) | 1 << b
                found[b][-cycles] = found[b].get(-cycles, 0) | 1 << a

    for apart in timing.apart:
        ban(apart.these, apart.those, 0)
    for spacing in timing.spacings:
        ban(spacing.first, spacing.then, spacing.cycles)
    return [tuple(sorted(bans.items())) for bans in found]


def _matching(names: list[str], classes: frozenset[str]) -> list[int]:
    return [number for number, name in enumerate(names) if not classes.isdisjoint(lineage(name))]


def resource_interval(ops: Sequence[Op], timing: Timing) -> int:
    """ResMII: the interval below which the ops of a body cannot all find their slots, whatever their order.

    For every resource what all ops together take of it, by what a cycle has; and where classes stay apart, what
    the ones need plus what those need that none of the ones can meet.
    Source: Rau (1994), section 2.1, for the first part.
    """
    needs = needs_of(ops, timing)
    number_of = {op.op_class: kind for op, kind in zip(ops, needs.kind_of, strict=True)}
    names = list(number_of)

    def slots(chosen: Sequence[int]) -> int:
        totals = [0] * len(needs.capacities)
        for kind in (kind for kind in needs.kind_of if kind in chosen):
            for _, resource, amount in needs.kinds[kind].uses:
                totals[resource] += amount
        return max(-(-total // capacity) for total, capacity in zip(totals, needs.capacities, strict=True))

    def together(rule: Apart, swapped: bool) -> int:
        ones = _matching(names, rule.those if swapped else rule.these)
        common = ~0  # the kinds that no one of the ones can meet
        for kind in ones:
            common &= dict(needs.kinds[kind].bans).get(0, 0)
        return slots(ones) + slots([kind for kind in range(len(names)) if common >> kind & 1 and kind not in ones])

    apart = [together(rule, swapped) for rule in timing.apart for swapped in (False, True)]
    least = max(1, slots(range(len(names))), *apart)
    for rule in timing.spacings:
        ones, others = _matching(names, rule.first), _matching(names, rule.then)
        never_meet = all(dict(needs.kinds[a].bans).get(0, 0) >> b & 1 for a in ones for b in others)
        # The cycles of the others, and those so far before them, are without any of the ones. Where there are no more
        # than the others fill, the two sets are one.
        if never_meet and least == slots(ones) + slots(others):
            least += slots(others) % (least // gcd(least, rule.cycles)) != 0
    return least


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
