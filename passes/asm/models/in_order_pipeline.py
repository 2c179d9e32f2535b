"""The state machine of the in-order model: issues the ops of a loop one by one and records why each had to wait."""

from dataclasses import dataclass
from typing import NamedTuple

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.issue_constraints import (
    Dependence,
    IssueConstraints,
    assign_units,
    issue_constraints,
    unit_names,
)


@dataclass(frozen=True)
class Wait:
    """The cycles that an op waited before it issued, for one reason.

    kind: "register", "write order", "unit", "no dual issue", "issue distance", "blocked", "alone", "first" or
    "issue queue". why: the reason, as text. by: index into the body of the op that it waited for; None if it is not a
    single op.
    """

    cycles: int
    kind: str
    why: str
    by: int | None = None


@dataclass(frozen=True)
class Issue:
    """The issue of one op in one iteration: its cycle, its slot, and why it had to wait.

    waits: cycles since the first one in which the previous op left a slot free. stall_cycles: waiting cycles in which
    no op issued; each other waiting cycle costs a slot. An op in the vector queue has the slot and the cycle in which
    it entered the queue; only the time before counts as waiting.
    """

    iteration: int
    op: int
    cycle: int
    slot: int
    stall_cycles: int
    waits: tuple[Wait, ...] = ()


class _Cause(NamedTuple):
    """Why an op may not issue yet; kind, by: as in Wait. detail: the register, the units, or the issue distance."""

    kind: str
    by: int | None
    detail: str = ""


class InOrderPipeline:
    """The state of an in-order core: the ops that issue in the current cycle, busy units, and results on their way."""

    def __init__(self, ops: tuple[Op, ...], timing: Timing) -> None:
        self.ops, self.width = ops, timing.width
        self.units = unit_names(timing)
        self.constraints = issue_constraints(ops, timing)
        self.cycle = 0  # in which the last op issued
        self.here: list[int] = []  # the ops that issued in it
        self.free = [0] * len(self.units)  # the first cycle in which each unit can start work
        self.free_before = list(self.free)  # the value of `free` at the beginning of this cycle
        self.blocked_until, self.blocker = 0, 0
        self.narrow_until = 0  # the cycles before it have a slot less
        self.recent: list[tuple[int, int]] = []  # (cycle, op) that a forbidden issue distance may still concern
        self.before: list[int] = []  # issue cycles of the previous iteration; empty in the first
        self.now: list[int] = []  # issue cycles of this iteration so far
        self.queue_size = timing.vector_queue
        self.queue: list[tuple[int, int]] = []  # (cycle in which it issues, op) of those that wait in it, in order
        self.vector_cycle = 0  # in which the last op from the queue issues
        self.waits = [[edge[:3] for edge in constraints.dependences] for constraints in self.constraints]
        edges = [edge for edges in self.waits for edge in edges]
        self.carried = sorted({source for source, distance, _ in edges if distance})
        self.horizon = max((cycles for *_, cycles in edges), default=0)
        self.reach = max((rule.cycles for rule in timing.forbidden_distances), default=0)
        leads = {first for constraints in self.constraints for _, first in constraints.forbidden_distances}
        self.leads = frozenset[int]().union(*leads)

    def advance(self, op: int) -> int:
        """Issue the next op in the first cycle that its constraints allow, and return that cycle."""
        constraints = self.constraints[op]
        cycle = self._first_slot(op)
        if self.blocked_until > cycle:
            cycle = self.blocked_until
        ready = cycle
        before, now = self.before, self.now
        for source, distance, cycles in self.waits[op]:
            issued = before if distance else now
            if issued and issued[source] + cycles > ready:
                ready = issued[source] + cycles
        if constraints.queued:
            cycle = max(cycle, self._queue_room(cycle)[0])
            while self._breaks_rule(constraints, cycle):
                cycle += 1
            return self._enter_queue(op, cycle, ready)
        cycle = ready
        while (free := self._units_after(constraints, cycle)) is None:
            cycle += 1
        self._enter(op, cycle, free)
        return cycle

    def issue(self, iteration: int, op: int) -> Issue:
        """Issue the next op as `advance` does, and return the issue with the reasons for waiting."""
        constraints = self.constraints[op]
        start = self._first_slot(op)
        ready = [(self._ready(edge), _Cause(edge.kind, edge.source, edge.register)) for edge in constraints.dependences]
        operands = max((until for until, _ in ready), default=0)
        if constraints.queued:
            room, waiting = self._queue_room(max(start, self.blocked_until))
            ready = [(room, _Cause("issue queue", waiting))]
        ready.append((self.blocked_until, _Cause("blocked", self.blocker)))
        delays: list[tuple[int, _Cause]] = []  # until which cycle, why
        cycle = start
        for until, cause in sorted(ready, key=lambda entry: entry[0]):
            if until > cycle:
                delays.append((until, cause))
                cycle = until
        free: list[int] | None = None
        while (
            self._breaks_rule(constraints, cycle)
            if constraints.queued
            else (free := self._units_after(constraints, cycle)) is None
        ):
            delays.append((cycle + 1, self._refusal(constraints, cycle)))
            cycle += 1
        stalled = max(0, cycle - (self.cycle + bool(self.here)))
        issued = cycle
        if free is None:
            issued = self._enter_queue(op, cycle, operands)
        else:
            self._enter(op, cycle, free)
        return Issue(iteration, op, issued, len(self.here) - 1, stalled, self._waits(start, delays))

    def _queue_room(self, cycle: int) -> tuple[int, int | None]:
        """Return the first cycle from this one on with room in the vector queue, and the op that leaves it then."""
        waiting = [entry for entry in self.queue if entry[0] > cycle]
        return (cycle, None) if len(waiting) < self.queue_size else waiting[-self.queue_size]

    def _enter_queue(self, op: int, cycle: int, ready: int) -> int:
        """Let a vector op take its slot in this cycle, and issue behind the others of the queue; return that cycle.

        ready: the cycle in which its operands are there.
        """
        issued = max(cycle, ready, self.vector_cycle)
        while (free := assign_units(self.constraints[op].uses, self.free, issued)) is None:
            issued += 1
        self._enter(op, cycle, free)
        self.now[-1] = self.vector_cycle = issued
        self.queue = [entry for entry in self.queue if entry[0] > cycle]
        if issued > cycle:
            self.queue.append((issued, op))
        return issued

    def _first_slot(self, op: int) -> int:
        """Return the first cycle with a slot for the next op; the first op begins an iteration."""
        if op == 0:
            self.before, self.now = self.now, []
        width = self.width - (self.cycle < self.narrow_until)
        return self.cycle if len(self.here) < width else self.cycle + 1

    def _ready(self, edge: Dependence) -> int:
        cycles = self.before if edge.distance else self.now
        return cycles[edge.source] + edge.cycles if cycles else 0

    def _units_after(self, constraints: IssueConstraints, cycle: int) -> list[int] | None:
        """Return when each unit is free again if the op issues in this cycle; None if a rule or unit forbids it."""
        if self._breaks_rule(constraints, cycle):
            return None
        free = assign_units(constraints.uses, self.free, cycle)
        here = self.here if cycle == self.cycle else []
        if free is None and here and not self.queue_size:
            # An op of the same cycle may occupy the only unit that this one can use: assign the cycle's units anew.
            uses = [use for issued in here for use in self.constraints[issued].uses] + list(constraints.uses)
            free = assign_units(sorted(uses, key=lambda use: len(use[0])), self.free_before, cycle)
        return free

    def _breaks_rule(self, constraints: IssueConstraints, cycle: int) -> bool:
        """True if an op may not take a slot in this cycle, whatever its operands and units."""
        here = self.here if cycle == self.cycle else []
        alone = (constraints.blocks and not constraints.last) or constraints.first
        if here and (alone or not constraints.no_dual_issue.isdisjoint(here)):
            return True
        for cycles, first in constraints.forbidden_distances:
            for when, leader in self.recent:
                if cycle - when == cycles and leader in first:
                    return True
        return False

    def _refusal(self, constraints: IssueConstraints, cycle: int) -> _Cause:
        """Return why an op with ready registers may not issue in this cycle, for which _units_after is None."""
        here = self.here if cycle == self.cycle else []
        if constraints.blocks and not constraints.last and here:
            return _Cause("alone", here[-1])
        if constraints.first and here:
            return _Cause("first", here[-1])
        for issued in here:
            if issued in constraints.no_dual_issue:
                return _Cause("no dual issue", issued)
        for cycles, first in constraints.forbidden_distances:
            for when, leader in self.recent:
                if leader in first and cycle - when == cycles:
                    return _Cause("issue distance", leader, f"{cycles} cycle" + "s" * (cycles != 1))
        stuck = [use for use in constraints.uses if all(self.free[unit] > cycle for unit in use[0])]
        pools = [" or ".join(dict.fromkeys(self.units[unit] for unit in use[0])) for use in stuck or constraints.uses]
        return _Cause("unit", None, ", ".join(dict.fromkeys(pools)))

    def _enter(self, op: int, cycle: int, free: list[int]) -> None:
        if cycle > self.cycle:
            self.free_before, self.here = self.free, []
            self.recent = [(when, leader) for when, leader in self.recent if cycle - when <= self.reach]
        self.free, self.cycle = free, cycle
        self.here.append(op)
        self.now.append(cycle)
        if op in self.leads:
            self.recent.append((cycle, op))
        if blocks := self.constraints[op].blocks:
            self.blocked_until, self.blocker = cycle + blocks, op
        if narrows := self.constraints[op].narrows:
            self.narrow_until = cycle + self.constraints[op].blocks + narrows

    def _waits(self, start: int, delays: list[tuple[int, _Cause]]) -> tuple[Wait, ...]:
        """Return the delays as waits; consecutive delays with the same cause become one wait."""
        waits: list[Wait] = []
        for until, cause in delays:
            cycles, why = until - start, self._why(cause)
            if waits and (waits[-1].why, waits[-1].by) == (why, cause.by):
                cycles += waits.pop().cycles
            waits.append(Wait(cycles, cause.kind, why, cause.by))
            start = until
        return tuple(waits)

    def _why(self, cause: _Cause) -> str:
        cause_text = f"`{self.ops[cause.by].text}`" if cause.by is not None else ""
        return {
            "register": f"waits for {cause.detail} from {cause_text}",
            "write order": f"{cause.detail} is still being written by {cause_text}",
            "blocked": f"blocked by {cause_text}",
            "alone": "issues alone",
            "first": f"issues in the first slot only, where {cause_text} issued",
            "no dual issue": f"never beside {cause_text}",
            "issue distance": f"never {cause.detail} after {cause_text}",
            "unit": f"{cause.detail} unit busy",
            "issue queue": f"the vector queue is full until {cause_text} issues",
        }[cause.kind]

    def state(self) -> object:
        """Return everything that later issues depend on, in cycles relative to the current one.

        Valid at the end of an iteration: equal states then mean that the same issues follow.
        """
        cycle_now = self.cycle
        return (
            tuple(max(-self.horizon, self.now[op] - cycle_now) for op in self.carried),
            tuple(max(0, cycle - cycle_now) for cycle in self.free),
            tuple(max(0, cycle - cycle_now) for cycle in self.free_before),
            tuple(self.here),
            max(0, self.blocked_until - cycle_now),
            max(0, self.narrow_until - cycle_now),
            tuple((when - cycle_now, op) for when, op in self.recent),
            tuple((cycle - cycle_now, op) for cycle, op in self.queue if cycle > cycle_now),
            max(0, self.vector_cycle - cycle_now),
        )
