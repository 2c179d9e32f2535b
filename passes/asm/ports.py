"""A port-bound model of an out-of-order core: what a loop cannot beat, however far ahead the core looks.

Three bounds per iteration: micro-ops dispatched, units kept busy, and circles of results that feed the next iteration.
What is not modelled: a reorder buffer or issue queues that fill up, caches (every load hits), branch misses, and values
that go from a store to a load through memory. Registers are renamed, so only true dependences count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from mavcg.errors import MavcgError
from mavcg.passes.asm.demands import After, dependences, unit_uses
from mavcg.passes.asm.op import Op
from mavcg.timing import Timing


@dataclass(frozen=True)
class Bound:
    """Cycles per iteration that one resource allows no fewer than.

    kind: "dispatch", "units" or "recurrence". ops: the ops that make it, as indices into the body. why: for people.
    """

    kind: str
    cycles: Fraction
    ops: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class PortBounds:
    """The three bounds of a loop with the body `ops`, and who keeps which unit busy."""

    dispatch: Bound
    units: Bound
    recurrence: Bound
    ops: tuple[Op, ...]
    timing: Timing

    @property
    def largest(self) -> Bound:
        """The bound that decides; of equal ones the one that a better order of the ops helps least."""
        return max((self.units, self.dispatch, self.recurrence), key=lambda bound: bound.cycles)

    @cached_property
    def pressure(self) -> tuple[Mapping[str, Fraction], ...]:
        """For each op, the busy cycles per iteration that it brings to each unit of a pool it uses.

        A pool of two has half of its work on each; the work is spread over the pools as evenly as its choices allow.
        """
        work = [_work(op, self.timing) for op in self.ops]
        total = _total(work)
        return _pressure(work, total, _levels(total, self.timing.pools), self.timing)

    def busy(self, pool: str) -> Fraction:
        """Cycles per iteration in which each unit of this pool works."""
        return sum((shares.get(pool, Fraction(0)) for shares in self.pressure), Fraction(0))


def port_bounds(ops: Sequence[Op], timing: Timing) -> PortBounds:
    """The bounds of a loop with this body.

    Raises: MissingFact when the core's profile does not know a class; MavcgError when an op needs a unit that the core
    does not have.
    """
    work = [_work(op, timing) for op in ops]
    units = _unit_bound(ops, work, _levels(_total(work), timing.pools), timing)
    return PortBounds(_dispatch_bound(ops, timing), units, recurrence(ops, timing), tuple(ops), timing)


def _total(work: Sequence[Sequence[tuple[frozenset[str], int]]]) -> dict[frozenset[str], int]:
    """Cycles of all ops' work by the pools that it may go to."""
    total: dict[frozenset[str], int] = {}
    for uses in work:
        for pools, cycles in uses:
            total[pools] = total.get(pools, 0) + cycles
    return total


def micro_ops(op: Op, timing: Timing) -> int:
    """How many of the core's dispatch slots an op takes: one where it needs no unit."""
    return max(1, len(unit_uses(op, timing)))


def recurrence(ops: Sequence[Op], timing: Timing) -> Bound:
    """The circle of results with the largest latency per iteration that it spans; exact.

    Source: Lawler, "Combinatorial Optimization" (1976), on ratios of circles; a guess is raised to the ratio of a
    circle that beats it until none does.
    """
    edges = _result_edges(ops, timing)
    best = Fraction(0)
    circle: list[tuple[int, int, After]] = []
    while (found := _better_circle(2 * len(ops), edges, best)) is not None:
        circle = found
        best = Fraction(sum(edge[2].cycles for edge in circle), sum(edge[2].distance for edge in circle))
    if not circle:
        return Bound("recurrence", best, (), "no result feeds the next iteration")
    start = min(range(len(circle)), key=lambda number: circle[number][0])
    circle = circle[start:] + circle[:start]
    steps = [f"{after.register} from `{ops[source % len(ops)].text}` ({after.cycles})" for source, _, after in circle]
    shown = steps if len(steps) <= 4 else [*steps[:3], f"{len(steps) - 3} more"]
    rounds = sum(after.distance for *_, after in circle)
    why = f"{', '.join(shown)}: around once in {rounds} iteration{'s' if rounds > 1 else ''}"
    return Bound("recurrence", best, tuple(source % len(ops) for source, *_ in circle), why)


def _result_edges(ops: Sequence[Op], timing: Timing) -> list[tuple[int, int, After]]:
    """Who waits for whose result; op i's address update is a node of its own, len(ops) + i.

    An out-of-order core makes the new address when the old one is there, not when the data of a store is.
    """
    count = len(ops)
    edges = []
    for index, waits in enumerate(dependences(ops, timing)):
        for after in waits:
            if after.kind != "register":
                continue
            source = after.source + (count if after.register == ops[after.source].writeback else 0)
            edges.append((source, index, after))
            if after.register == ops[index].writeback:
                edges.append((source, count + index, after))
    return edges


def _better_circle(
    count: int, edges: Sequence[tuple[int, int, After]], ratio: Fraction
) -> list[tuple[int, int, After]] | None:
    """A circle with more latency per iteration than this, found as one that longest paths never settle on."""
    weights = [edge[2].cycles * ratio.denominator - edge[2].distance * ratio.numerator for edge in edges]
    longest = [0] * count
    by: list[int | None] = [None] * count  # the edge that set it
    for _ in range(count + 1):
        changed = False
        for number, (source, target, _after) in enumerate(edges):
            if longest[source] + weights[number] > longest[target]:
                longest[target] = longest[source] + weights[number]
                by[target] = number
                changed = True
        if not changed:
            return None
        if (circle := _circle_in(by, edges)) is not None:
            return circle
    raise AssertionError("longest paths neither settled nor closed a circle")


def _circle_in(by: list[int | None], edges: Sequence[tuple[int, int, After]]) -> list[tuple[int, int, After]] | None:
    """A circle among the edges that set the longest paths; such a circle has positive weight."""
    seen = [0] * len(by)  # the walk that came by
    for start in range(len(by)):
        node = start
        while seen[node] == 0 and (edge := by[node]) is not None:
            seen[node] = start + 1
            node = edges[edge][0]
        if seen[node] == start + 1 and by[node] is not None:
            circle: list[tuple[int, int, After]] = []
            first = node
            while not circle or node != first:
                edge = by[node]
                assert edge is not None
                circle.append(edges[edge])
                node = edges[edge][0]
            return circle[::-1]
    return None


def _work(op: Op, timing: Timing) -> list[tuple[frozenset[str], int]]:
    uses = [(frozenset(use.any_of) & frozenset(timing.pools), use.cycles) for use in unit_uses(op, timing)]
    if not all(pools and any(timing.pools[pool] > 0 for pool in pools) for pools, _ in uses):
        raise MavcgError(
            f"cores/{timing.core}.toml: instr.{op.op_class}: `{op.text}` needs a unit that the core does not have; "
            "correct its units or the pools' counts"
        )
    return uses


def _dispatch_bound(ops: Sequence[Op], timing: Timing) -> Bound:
    count = sum(micro_ops(op, timing) for op in ops)
    why = f"{count} micro-ops, {timing.width} a cycle"
    return Bound("dispatch", Fraction(count, timing.width), tuple(range(len(ops))), why)


def _unit_bound(
    ops: Sequence[Op],
    work: Sequence[Sequence[tuple[frozenset[str], int]]],
    levels: Sequence[tuple[frozenset[str], Fraction]],
    timing: Timing,
) -> Bound:
    if not levels:
        return Bound("units", Fraction(0), (), "no unit is used")
    tightest, cycles = levels[0]
    bound = tuple(index for index in range(len(ops)) if any(pools <= tightest for pools, _ in work[index]))
    names = [pool for pool in timing.pools if pool in tightest]
    count = sum(timing.pools[pool] for pool in names)
    busy = cycles * count
    why = (
        f"{', '.join(names)}: {busy} cycle{'s' if busy != 1 else ''} of work on {count} unit{'s' if count > 1 else ''}"
    )
    return Bound("units", cycles, bound, why)


def _levels(total: Mapping[frozenset[str], int], counts: Mapping[str, int]) -> list[tuple[frozenset[str], Fraction]]:
    """Sets of pools and how busy each unit of theirs is when work is spread evenly, busiest first.

    The busiest set is the one with the most work that can go nowhere else per unit; that ratio is a bound, and Hall's
    theorem says that it is reached. What may also run elsewhere then goes there, and the rest is looked at anew.
    """
    left = {pools: cycles for pools, cycles in total.items() if cycles}
    levels: list[tuple[frozenset[str], Fraction]] = []
    while left:
        unions: set[frozenset[str]] = set()
        for pools in left:
            unions |= {pools | union for union in unions} | {pools}
        ratios = {
            union: Fraction(sum(c for pools, c in left.items() if pools <= union), sum(counts[p] for p in union))
            for union in unions
        }
        # Among equals the smallest names the culprits best; by name after that, to be the same on every run.
        tightest = min(unions, key=lambda union: (-ratios[union], len(union), sorted(union)))
        levels.append((tightest, ratios[tightest]))
        rest: dict[frozenset[str], int] = {}
        for pools, cycles in left.items():
            if not pools <= tightest:
                rest[pools - tightest] = rest.get(pools - tightest, 0) + cycles
        left = rest
    return levels


def _pressure(
    work: Sequence[Sequence[tuple[frozenset[str], int]]],
    total: Mapping[frozenset[str], int],
    levels: Sequence[tuple[frozenset[str], Fraction]],
    timing: Timing,
) -> tuple[Mapping[str, Fraction], ...]:
    room = {pool: level * timing.pools[pool] for pools, level in levels for pool in pools}
    spread = _spread(total, room)
    found: list[Mapping[str, Fraction]] = []
    for uses in work:
        shares: dict[str, Fraction] = {}
        for pools, cycles in uses:
            for pool in sorted(pools):
                if (part := spread.get((pools, pool), Fraction(0))) > 0:
                    per_unit = part * cycles / total[pools] / timing.pools[pool]
                    shares[pool] = shares.get(pool, Fraction(0)) + per_unit
        found.append(shares)
    return tuple(found)


def _spread(
    total: Mapping[frozenset[str], int], room: Mapping[str, Fraction]
) -> dict[tuple[frozenset[str], str], Fraction]:
    """Cycles of each kind of work on each pool so that no pool gets more than it has room for.

    Paths that move work from a full pool to one with room, shortest first (Edmonds and Karp, 1972).
    """
    given: dict[tuple[frozenset[str], str], Fraction] = {}
    space = dict(room)
    for kind in sorted(total, key=lambda pools: (len(pools), sorted(pools))):
        need = Fraction(total[kind])
        while need > 0:
            path = _path_to_room(kind, given, space)
            amount = min(
                [need, space[path[-1][1]], *(given[k, p] for (_, p), (k, _) in zip(path, path[1:], strict=False))]
            )
            for number, (mover, pool) in enumerate(path):
                given[mover, pool] = given.get((mover, pool), Fraction(0)) + amount
                if number + 1 < len(path):
                    given[path[number + 1][0], pool] -= amount
            space[path[-1][1]] -= amount
            need -= amount
    return given


def _path_to_room(
    kind: frozenset[str], given: Mapping[tuple[frozenset[str], str], Fraction], space: Mapping[str, Fraction]
) -> list[tuple[frozenset[str], str]]:
    """Steps (work, pool): the first puts work of this kind into a pool, each later one moves other work on from it."""
    paths = [[(kind, pool)] for pool in sorted(kind)]
    seen = set(kind)
    for path in paths:  # grows as it is walked
        pool = path[-1][1]
        if space.get(pool, 0) > 0:
            return path
        movers = [mover for (mover, where), amount in given.items() if where == pool and amount > 0]
        for mover in movers:
            for onward in sorted(mover - seen):
                seen.add(onward)
                paths.append([*path, (mover, onward)])
    raise AssertionError("the levels leave room for all work")
