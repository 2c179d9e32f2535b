"""A port-bound model of an out-of-order core: lower bounds on a loop's cycles, for a window of unlimited size.

There are three bounds per iteration: micro-ops dispatched, busy units (port pressure), and recurrences
(recurrences.py). The model leaves out a reorder buffer or issue queues that fill up, caches (every load hits), branch
misses, and values that go from a store to a load through memory. Registers are renamed, so only true dependences count.

Port pressure distributes the micro-operations of a loop over pools of execution units as evenly as possible. `work` is,
per op, a list of (pools whose units can execute a micro-operation, busy cycles).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.issue_constraints import unit_uses
from mavcg.passes.asm.models.recurrences import CycleBound, critical_recurrence


def pool_work(work: Sequence[Sequence[tuple[frozenset[str], int]]]) -> dict[frozenset[str], int]:
    """Return set of pools -> total busy cycles of the micro-operations that exactly these pools can execute."""
    total: dict[frozenset[str], int] = {}
    for uses in work:
        for pools, cycles in uses:
            total[pools] = total.get(pools, 0) + cycles
    return total


def utilization_levels(
    total: Mapping[frozenset[str], int], counts: Mapping[str, int]
) -> list[tuple[frozenset[str], Fraction]]:
    """Return (set of pools, busy cycles of each of its units) for evenly distributed work, the busiest set first.

    total: as from pool_work. counts: pool -> number of units. The busiest set has the most work per unit among the work
    that no other pool can execute; that ratio is a lower bound, and by Hall's theorem it is reached. Work that other
    pools can execute too goes to them, and the remaining pools are solved in the same manner.
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
        # Among equal ratios the smallest set names the cause best; the order by name makes runs reproducible.
        tightest = min(unions, key=lambda union: (-ratios[union], len(union), sorted(union)))
        levels.append((tightest, ratios[tightest]))
        rest: dict[frozenset[str], int] = {}
        for pools, cycles in left.items():
            if not pools <= tightest:
                rest[pools - tightest] = rest.get(pools - tightest, 0) + cycles
        left = rest
    return levels


def pool_pressure(
    work: Sequence[Sequence[tuple[frozenset[str], int]]],
    total: Mapping[frozenset[str], int],
    levels: Sequence[tuple[frozenset[str], Fraction]],
    timing: Timing,
) -> tuple[Mapping[str, Fraction], ...]:
    """Return, for each op, pool -> busy cycles per iteration that the op adds to each unit of the pool."""
    room = {pool: level * timing.pools[pool] for pools, level in levels for pool in pools}
    spread = _distribute(total, room)
    pressure: list[Mapping[str, Fraction]] = []
    for uses in work:
        shares: dict[str, Fraction] = {}
        for pools, cycles in uses:
            for pool in sorted(pools):
                if (part := spread.get((pools, pool), Fraction(0))) > 0:
                    per_unit = part * cycles / total[pools] / timing.pools[pool]
                    shares[pool] = shares.get(pool, Fraction(0)) + per_unit
        pressure.append(shares)
    return tuple(pressure)


def _distribute(
    total: Mapping[frozenset[str], int], room: Mapping[str, Fraction]
) -> dict[tuple[frozenset[str], str], Fraction]:
    """Distribute the cycles of each kind of work over its pools so that no pool exceeds its capacity, `room`.

    Source: Edmonds and Karp (1972): augmenting paths from a full pool to one with room, shortest first.
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
    kind: frozenset[str], assigned: Mapping[tuple[frozenset[str], str], Fraction], space: Mapping[str, Fraction]
) -> list[tuple[frozenset[str], str]]:
    """Return an augmenting path of (work, pool): work is added to the first pool; each step moves work to the next."""
    paths = [[(kind, pool)] for pool in sorted(kind)]
    seen = set(kind)
    for path in paths:  # grows as it is walked
        pool = path[-1][1]
        if space.get(pool, 0) > 0:
            return path
        movers = [mover for (mover, where), amount in assigned.items() if where == pool and amount > 0]
        for mover in movers:
            for onward in sorted(mover - seen):
                seen.add(onward)
                paths.append([*path, (mover, onward)])
    raise AssertionError("the levels leave room for all work")


@dataclass(frozen=True)
class PortBounds:
    """The three lower bounds on a loop with the body `ops`, and the pressure of its ops on the units."""

    dispatch: CycleBound
    units: CycleBound
    recurrence: CycleBound
    ops: tuple[Op, ...]
    timing: Timing

    @property
    def largest(self) -> CycleBound:
        """The largest bound; among equal ones the first of units, dispatch and recurrence."""
        return max((self.units, self.dispatch, self.recurrence), key=lambda bound: bound.cycles)

    @cached_property
    def pressure(self) -> tuple[Mapping[str, Fraction], ...]:
        """Busy cycles per iteration that each op adds to each unit of a pool, by pool; one mapping per op.

        Work is distributed evenly over the units of a pool, and over pools as evenly as the ops allow.
        """
        work = [_work(op, self.timing) for op in self.ops]
        total = pool_work(work)
        return pool_pressure(work, total, utilization_levels(total, self.timing.pools), self.timing)

    def busy(self, pool: str) -> Fraction:
        """Return the cycles per iteration in which each unit of this pool is busy."""
        return sum((shares.get(pool, Fraction(0)) for shares in self.pressure), Fraction(0))


def port_bounds(ops: Sequence[Op], timing: Timing) -> PortBounds:
    """Compute the bounds of a loop with this body.

    Raises: MissingFact when the core's profile does not know a class; MavcgError when an op needs a unit that the core
    does not have.
    """
    work = [_work(op, timing) for op in ops]
    units = _unit_bound(ops, work, utilization_levels(pool_work(work), timing.pools), timing)
    return PortBounds(_dispatch_bound(ops, timing), units, critical_recurrence(ops, timing), tuple(ops), timing)


def straight_bounds(ops: Sequence[Op], timing: Timing) -> tuple[CycleBound, CycleBound]:
    """Compute the unit bound and the dispatch bound of straight-line code that runs once. Raises: as `port_bounds`."""
    work = [_work(op, timing) for op in ops]
    return _unit_bound(ops, work, utilization_levels(pool_work(work), timing.pools), timing), _dispatch_bound(
        ops, timing
    )


def micro_ops(op: Op, timing: Timing) -> int:
    """Return the dispatch slots that an op takes: one per micro-operation, or as many as its class says if these are
    more, those of an address update beside them; one for an op that needs no unit.
    """
    own = timing.of(op.op_class)
    return max(1, len(unit_uses(op, timing)) + max(0, own.slots - len(own.units)))


def _work(op: Op, timing: Timing) -> list[tuple[frozenset[str], int]]:
    uses = [(frozenset(use.any_of) & frozenset(timing.pools), use.cycles) for use in unit_uses(op, timing)]
    if not all(pools and any(timing.pools[pool] > 0 for pool in pools) for pools, _ in uses):
        raise MavcgError(
            f"cores/{timing.core}.toml: instr.{op.op_class}: `{op.text}` needs a unit that the core does not have; "
            "correct its units or the pools' counts"
        )
    return uses


def _dispatch_bound(ops: Sequence[Op], timing: Timing) -> CycleBound:
    count = sum(micro_ops(op, timing) for op in ops)
    why = f"{count} micro-ops, {timing.width} a cycle"
    return CycleBound("dispatch", Fraction(count, timing.width), tuple(range(len(ops))), why)


def _unit_bound(
    ops: Sequence[Op],
    work: Sequence[Sequence[tuple[frozenset[str], int]]],
    levels: Sequence[tuple[frozenset[str], Fraction]],
    timing: Timing,
) -> CycleBound:
    if not levels:
        return CycleBound("units", Fraction(0), (), "no unit is used")
    tightest, cycles = levels[0]
    bound = tuple(index for index in range(len(ops)) if any(pools <= tightest for pools, _ in work[index]))
    names = [pool for pool in timing.pools if pool in tightest]
    count = sum(timing.pools[pool] for pool in names)
    busy = cycles * count
    why = (
        f"{', '.join(names)}: {busy} cycle{'s' if busy != 1 else ''} of work on {count} unit{'s' if count > 1 else ''}"
    )
    return CycleBound("units", cycles, bound, why)
