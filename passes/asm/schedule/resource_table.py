"""The resource table of a loop body: the issue slots and units of a core that each instruction class takes.

Every constraint on a cycle becomes a sum or a ban. Sums: the issue width, and for each connected set of unit pools the
micro-operations that only these pools can execute (Hall's condition: every micro-operation gets a unit exactly if no
such set receives more than it has units). Bans: classes that may not issue in the same cycle (no dual issue), or a
given number of cycles later (forbidden issue distance). The solver and the heuristic's reservation table
(reservation_table.py) both use these sums and bans, so that they solve the same problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from mavcg.hardware.instr_classes import lineage
from mavcg.hardware.timing import ClassTiming, NoDualIssue, Timing
from mavcg.passes.asm.isa.op import Op

WIDTH = 0  # index of the issue width among the resources; the others are sets of pools


@dataclass(frozen=True)
class ReservationPattern:
    """The resources that an op of one class takes, and the patterns that it excludes, in the cycles around its issue.

    uses: (cycles after issue, resource, amount). bans: (cycles after issue, negative for before; bit set of the
    patterns that may not issue in that cycle).
    """

    uses: tuple[tuple[int, int, int], ...]
    bans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ResourceTable:
    """The resources of a core and their use by the ops of a body.

    capacities: amount of each resource per cycle. patterns: one per instruction class. pattern_of: per op, the index
    of its pattern.
    """

    capacities: tuple[int, ...]
    patterns: tuple[ReservationPattern, ...]
    pattern_of: tuple[int, ...]


def resource_table(ops: Sequence[Op], timing: Timing) -> ResourceTable:
    """Build the resource table of these ops: the constraints of a core as sums and bans over their classes.

    A micro-operation occupies its unit for use.cycles cycles. One that several pools can execute is counted cycle by
    cycle, so that one of several cycles may change its pool in this count. Micro-operations of one class that do not
    fit in a single cycle, such as two for the only load unit, start in the first cycles with room for them.
    Raises: MissingFact when the core knows nothing of a class.
    """
    names = list(dict.fromkeys(op.op_class for op in ops))
    facts = [timing.of(name) for name in names]
    masks, capacities = _pool_sets(facts, timing)
    bans = _bans(names, timing)
    patterns = tuple(
        ReservationPattern(_uses(fact, timing, masks, capacities), bans[number]) for number, fact in enumerate(facts)
    )
    number_of = {name: number for number, name in enumerate(names)}
    return ResourceTable(capacities, patterns, tuple(number_of[op.op_class] for op in ops))


def _pool_sets(facts: list[ClassTiming], timing: Timing) -> tuple[list[frozenset[str]], tuple[int, ...]]:
    """Return the sets of pools that become resources, and all capacities.

    The sets are those that micro-operations name, closed under the union of overlapping sets.
    """
    used = list(dict.fromkeys(frozenset(use.any_of) for fact in facts for use in fact.units))
    sets = list(used)
    for pools in sets:  # grows while it is read
        for others in used:
            if pools & others and (union := pools | others) not in sets:
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
    for cycle in range(int(fact.last), fact.blocks):  # nothing issues beside it: it takes the whole width
        taken[cycle, WIDTH] = timing.width
    for cycle in range(fact.blocks, fact.blocks + fact.narrows):
        taken[cycle, WIDTH] = taken.get((cycle, WIDTH), 0) + 1
    return tuple((cycle, resource, amount) for (cycle, resource), amount in sorted(taken.items()))


def _bans(names: list[str], timing: Timing) -> list[tuple[tuple[int, int], ...]]:
    bans: list[dict[int, int]] = [{} for _ in names]

    def ban(first: frozenset[str], second: frozenset[str], cycles: int) -> None:
        for a in _patterns_of_classes(names, first):
            for b in _patterns_of_classes(names, second):
                bans[a][cycles] = bans[a].get(cycles, 0) | 1 << b
                bans[b][-cycles] = bans[b].get(-cycles, 0) | 1 << a

    for rule in timing.no_dual_issue:
        ban(rule.these, rule.those, 0)
    for spacing in timing.forbidden_distances:
        ban(spacing.first, spacing.then, spacing.cycles)
    return [tuple(sorted(of_class.items())) for of_class in bans]


def _patterns_of_classes(names: list[str], classes: frozenset[str]) -> list[int]:
    return [number for number, name in enumerate(names) if not classes.isdisjoint(lineage(name))]


def resource_min_interval(ops: Sequence[Op], timing: Timing) -> int:
    """Return ResMII, the smallest interval that has slots and units for all ops of a body, in cycles.

    It is the maximum, over all resources, of the amount that the ops take divided by the amount per cycle. If two sets
    of classes never dual-issue, it is at least the cycles of one set plus those of the classes that dual-issue with no
    class of that set. Source: Rau (1994), section 2.1, for the first part.
    """
    resources = resource_table(ops, timing)
    number_of = {op.op_class: pattern for op, pattern in zip(ops, resources.pattern_of, strict=True)}
    names = list(number_of)

    def slots(chosen: Sequence[int]) -> int:
        totals = [0] * len(resources.capacities)
        for pattern in (pattern for pattern in resources.pattern_of if pattern in chosen):
            for _, resource, amount in resources.patterns[pattern].uses:
                totals[resource] += amount
        return max(-(-total // capacity) for total, capacity in zip(totals, resources.capacities, strict=True))

    def separate_slots(rule: NoDualIssue, swapped: bool) -> int:
        chosen_classes = _patterns_of_classes(names, rule.those if swapped else rule.these)
        common = ~0  # the patterns that dual-issue with none of these classes
        for pattern in chosen_classes:
            common &= dict(resources.patterns[pattern].bans).get(0, 0)
        return slots(chosen_classes) + slots(
            [pattern for pattern in range(len(names)) if common >> pattern & 1 and pattern not in chosen_classes]
        )

    separate = [separate_slots(rule, swapped) for rule in timing.no_dual_issue for swapped in (False, True)]
    least = max(1, slots(range(len(names))), *separate)
    for rule in timing.forbidden_distances:
        leaders, followers = _patterns_of_classes(names, rule.first), _patterns_of_classes(names, rule.then)
        never_meet = all(dict(resources.patterns[a].bans).get(0, 0) >> b & 1 for a in leaders for b in followers)
        # A leader issues neither in a follower's cycle nor at the rule's distance before it. If the leaders leave just
        # as many cycles as the followers fill, the two forbidden sets are equal: the distance maps the set onto itself.
        if never_meet and least == slots(leaders) + slots(followers):
            least += slots(followers) % (least // gcd(least, rule.cycles)) != 0
    return least
