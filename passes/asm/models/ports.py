"""A port-bound model of an out-of-order core: lower bounds on a loop's cycles, for a window of unlimited size.

There are three bounds per iteration: micro-ops dispatched, busy units (port_pressure.py), and recurrences
(recurrences.py). The model leaves out a reorder buffer or issue queues that fill up, caches (every load hits), branch
misses, and values that go from a store to a load through memory. Registers are renamed, so only true dependences count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.bounds import CycleBound
from mavcg.passes.asm.models.issue_constraints import unit_uses
from mavcg.passes.asm.models.port_pressure import pool_pressure, pool_work, utilization_levels
from mavcg.passes.asm.models.recurrences import critical_recurrence


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
    """Return the dispatch slots that an op takes: one per micro-operation, and one for an op that needs no unit."""
    return max(1, len(unit_uses(op, timing)))


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
