"""What the instructions of a body ask of each cycle of a core, as sums and bans.

Every limit on a cycle becomes a sum or a ban. Sums: the issue width, and for each connected set of unit pools the
micro-operations that only these pools can serve (Hall's condition: all find a unit exactly when no such set is asked
for more than it has). Bans: classes that may not issue in the same cycle, or not a given number of cycles later. The
solver reads the same sums and bans as the reservation table (slots.py), so that both schedulers obey one reading of a
core's facts.
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
