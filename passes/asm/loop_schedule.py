"""Finds the modulo schedule of a loop's body, in a store of schedules or by search, and the order of its kernel."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import NO_SCHEDULE, Edge, Op, Schedule
from mavcg.passes.asm.schedule.issue_order import kernel_issue_order
from mavcg.passes.asm.schedule.modulo import STAGES, kernel_order, schedule_loop, with_emission_order
from mavcg.passes.asm.schedule.nop_padding import pad_with_nops
from mavcg.passes.asm.schedule.reservation_table import is_schedule_of


class ScheduleStore(Protocol):
    """A store of schedules; the key is a digest of loop, core and effort."""

    def get(self, key: str) -> Schedule | None: ...

    def put(self, key: str, schedule: Schedule) -> None: ...


@dataclass(frozen=True)
class SchedulingEffort:
    """The time to spend on the search for a loop's schedule, and the store of schedules found before.

    exact_seconds: approximate time of the exact solver; 0 for the heuristic alone. heuristic_seconds: approximate time
    of the heuristic.
    """

    exact_seconds: float = 0.0
    store: ScheduleStore | None = None
    heuristic_seconds: float = 1.0

    def part(self, share: float, solver_share: float | None = None) -> "SchedulingEffort":
        """Return a fraction of the seconds, for one of several forms of a loop; solver_share: the solver's fraction."""
        exact = self.exact_seconds * (share if solver_share is None else solver_share)
        return replace(self, exact_seconds=exact, heuristic_seconds=self.heuristic_seconds * share)


def find_schedule(
    ops: Sequence[Op],
    edges: Sequence[Edge],
    timing: Timing,
    effort: SchedulingEffort,
    below: float,
    cautious: Sequence[Edge] = (),
) -> Schedule | None:
    """Return a modulo schedule with an interval below `below`, from the store or by search; None if there is none.

    cautious: as in schedule_loop.
    """
    seconds = effort.exact_seconds
    # A schedule depends on classes and edges alone: kernels of many shapes have loops that differ in offsets only.
    classes = [op.op_class for op in ops]
    question = classes, edges, timing.key(), effort.heuristic_seconds, seconds, below, cautious
    key = hashlib.sha256(repr(question).encode()).hexdigest()
    schedule = effort.store.get(key) if effort.store is not None else None
    if schedule is not None and schedule != NO_SCHEDULE:
        # A wrong one would be wrong code, whoever wrote it.
        emission_edges = with_emission_order(edges, len(ops) - 1)
        if not is_schedule_of(schedule, ops, emission_edges, timing, below, STAGES):
            schedule = None
    if schedule is None:
        schedule = schedule_loop(ops, edges, timing, len(ops) - 1, seconds, effort.heuristic_seconds, below, cautious)
        if effort.store is not None:
            effort.store.put(key, schedule or NO_SCHEDULE)
    return None if schedule == NO_SCHEDULE else schedule


def padded_kernel_order(
    ops: Sequence[Op], edges: Sequence[Edge], timing: Timing, schedule: Schedule
) -> tuple[int, ...]:
    """Return the kernel's order, with ops that need the first slot in front of their cycle, and NOPs where they pay."""
    last = len(ops) - 1
    order = kernel_issue_order(kernel_order(schedule, last)[:-1], ops, edges, timing, schedule)
    return pad_with_nops((*order, last), ops, timing, schedule)
