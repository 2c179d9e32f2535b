"""A model of an in-order core: simulates the issue cycle of each op and the causes of its waiting.

Ops issue in program order, at most `timing.width` a cycle. The model leaves out caches (every load hits), the front
end, branch misses, and values that go from a store to a load through memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.issue_constraints import (
    Dependence,
    IssueConstraints,
    assign_units,
    issue_constraints,
    unit_names,
)

# A machine with finite state repeats; loops of hundreds of ops do so within a handful of iterations.
_MOST_ITERATIONS = 4096


@dataclass(frozen=True)
class Wait:
    """Cycles that one op waited before it issued, for one reason.

    kind: "register", "write order", "unit", "apart" (no dual issue), "spacing" (forbidden issue distance), "blocked",
    "alone" or "first". by: the op that it waited for, as an index into the body; None where that is no single op.
    """

    cycles: int
    kind: str
    why: str
    by: int | None = None


@dataclass(frozen=True)
class Issue:
    """The issue of one op in one iteration: its cycle, its slot, and the causes of its waiting.

    waits: counted from the first cycle in which the op before it left a slot. stall_cycles: the waiting cycles in which
    nothing issued at all; the others cost a slot.
    """

    iteration: int
    op: int
    cycle: int
    slot: int
    stall_cycles: int
    waits: tuple[Wait, ...] = ()


@dataclass(frozen=True)
class Trace:
    """All issues of a simulation, in program order: ops of iteration 0, then of iteration 1, and so on."""

    ops: tuple[Op, ...]
    issues: tuple[Issue, ...]

    def iteration(self, number: int) -> tuple[Issue, ...]:
        """Return the issues of one iteration."""
        return self.issues[number * len(self.ops) : (number + 1) * len(self.ops)]


@dataclass(frozen=True)
class SteadyState:
    """The steady state of a loop: from iteration `start` on, every `period` iterations take `cycles` cycles."""

    start: int
    period: int
    cycles: int

    @property
    def per_iteration(self) -> Fraction:
        return Fraction(self.cycles, self.period)


def simulate(ops: Sequence[Op], timing: Timing, iterations: int = 1) -> Trace:
    """Simulate `iterations` iterations of the body on a core that is idle at cycle 0.

    Raises: MissingFact when the core's profile does not know a class; MavcgError when it can never issue an op.
    """
    core = _InOrderPipeline(tuple(ops), timing)
    return Trace(tuple(ops), tuple(core.issue(number, op) for number in range(iterations) for op in range(len(ops))))


def last_issue_cycle(ops: Sequence[Op], timing: Timing) -> int:
    """Return the cycle in which the last op of code that runs once issues. Raises: as `simulate`."""
    core = _InOrderPipeline(tuple(ops), timing, explain=False)
    return [core.issue(0, op).cycle for op in range(len(ops))][-1]


def steady_cycles(ops: Sequence[Op], timing: Timing) -> Fraction:
    """Return the exact cycles per iteration of a loop with this body in its steady state; 0 without ops."""
    return steady_state(ops, timing).per_iteration


def steady_state(ops: Sequence[Op], timing: Timing) -> SteadyState:
    """Simulate a loop until the core's state at an iteration's end repeats one at an earlier iteration's end.

    Raises: MissingFact as `simulate`; MavcgError when that does not happen within 4,096 iterations.
    """
    if not ops:
        return SteadyState(0, 1, 0)
    core = _InOrderPipeline(tuple(ops), timing, explain=False)
    seen: dict[object, tuple[int, int]] = {}
    for number in range(_MOST_ITERATIONS):
        for op in range(len(ops)):
            core.issue(number, op)
        state = core.state()
        if state in seen:
            first, cycle = seen[state]
            return SteadyState(first + 1, number - first, core.cycle - cycle)
        seen[state] = (number, core.cycle)
    raise MavcgError(
        f"loop of {len(ops)} ops on {timing.core}: no steady state within {_MOST_ITERATIONS} iterations; "
        "estimate it as a block instead"
    )


class _Cause(NamedTuple):
    """Why an op may not issue yet; what: the register or units, or the cycles of a forbidden issue distance."""

    kind: str
    by: int | None
    what: str = ""


class _InOrderPipeline:
    """The state of the core as the ops of a loop pass through it."""

    def __init__(self, ops: tuple[Op, ...], timing: Timing, explain: bool = True) -> None:
        self.ops, self.width, self.explain = ops, timing.width, explain
        self.units = unit_names(timing)
        self.constraints = issue_constraints(ops, timing)
        self.cycle = 0  # in which the last op issued
        self.here: list[int] = []  # the ops that issued in it
        self.free = [0] * len(self.units)  # the first cycle in which each unit can start work
        self.free_before = list(self.free)  # the same as this cycle began
        self.blocked_until, self.blocker = 0, 0
        self.recent: list[tuple[int, int]] = []  # (cycle, op) that a forbidden issue distance may still concern
        self.before: list[int] = []  # issue cycles of the previous iteration; empty in the first
        self.now: list[int] = []  # issue cycles of this iteration so far
        edges = [edge for constraints in self.constraints for edge in constraints.dependences]
        self.carried = sorted({edge.source for edge in edges if edge.distance})
        self.horizon = max((edge.cycles for edge in edges), default=0)
        self.reach = max((rule.cycles for rule in timing.forbidden_distances), default=0)
        self.leads = {
            op for constraints in self.constraints for _, first in constraints.forbidden_distances for op in first
        }

    def issue(self, iteration: int, op: int) -> Issue:
        """Issue the next op in the first cycle that its constraints allow."""
        constraints = self.constraints[op]
        if op == 0:
            self.before, self.now = self.now, []
        start = self.cycle if len(self.here) < self.width else self.cycle + 1
        ready = [(self._ready(edge), _Cause(edge.kind, edge.source, edge.register)) for edge in constraints.dependences]
        ready.append((self.blocked_until, _Cause("blocked", self.blocker)))
        delays: list[tuple[int, _Cause]] = []  # until which cycle, why
        cycle = start
        for until, cause in sorted(ready):
            if until > cycle:
                delays.append((until, cause))
                cycle = until
        while True:
            refusal = self._refusal(constraints, cycle)
            if not isinstance(refusal, _Cause):
                break
            cycle += 1
            delays.append((cycle, refusal))
        stalled = max(0, cycle - (self.cycle + bool(self.here)))
        self._enter(op, cycle, refusal)
        waits = self._waits(start, delays) if self.explain else ()
        return Issue(iteration, op, cycle, len(self.here) - 1, stalled, waits)

    def _ready(self, edge: Dependence) -> int:
        cycles = self.before if edge.distance else self.now
        return cycles[edge.source] + edge.cycles if cycles else 0

    def _refusal(self, constraints: IssueConstraints, cycle: int) -> _Cause | list[int]:
        """Return why an op with ready registers may not issue in this cycle, or when each unit is free afterwards."""
        here = self.here if cycle == self.cycle else []
        if constraints.blocks and here:
            return _Cause("alone", here[-1])
        if constraints.first and here:
            return _Cause("first", here[-1])
        for other in here:
            if other in constraints.no_dual_issue:
                return _Cause("apart", other)
        for cycles, first in constraints.forbidden_distances:
            for when, other in self.recent:
                if other in first and cycle - when == cycles:
                    return _Cause("spacing", other, f"{cycles} cycle" + "s" * (cycles != 1))
        free = assign_units(constraints.uses, self.free, cycle)
        if free is None and here:
            # An op of the same cycle may occupy the only unit that this one can use: assign the cycle's units anew.
            uses = [use for other in here for use in self.constraints[other].uses] + list(constraints.uses)
            free = assign_units(sorted(uses, key=lambda use: len(use[0])), self.free_before, cycle)
        if free is None:
            stuck = [
                use for use in constraints.uses if all(self.free[unit] > cycle for unit in use[0])
            ] or constraints.uses
            pools = [" or ".join(dict.fromkeys(self.units[unit] for unit in use[0])) for use in stuck]
            return _Cause("unit", None, ", ".join(dict.fromkeys(pools)))
        return free

    def _enter(self, op: int, cycle: int, free: list[int]) -> None:
        if cycle > self.cycle:
            self.free_before, self.here = self.free, []
            self.recent = [(when, other) for when, other in self.recent if cycle - when <= self.reach]
        self.free, self.cycle = free, cycle
        self.here.append(op)
        self.now.append(cycle)
        if op in self.leads:
            self.recent.append((cycle, op))
        if blocks := self.constraints[op].blocks:
            self.blocked_until, self.blocker = cycle + blocks, op

    def _waits(self, start: int, delays: list[tuple[int, _Cause]]) -> tuple[Wait, ...]:
        """Return one record per cause; consecutive delays by the same cause become one."""
        waits: list[Wait] = []
        for until, cause in delays:
            cycles, why = until - start, self._why(cause)
            if waits and (waits[-1].why, waits[-1].by) == (why, cause.by):
                cycles += waits.pop().cycles
            waits.append(Wait(cycles, cause.kind, why, cause.by))
            start = until
        return tuple(waits)

    def _why(self, cause: _Cause) -> str:
        other = f"`{self.ops[cause.by].text}`" if cause.by is not None else ""
        return {
            "register": f"waits for {cause.what} from {other}",
            "write order": f"{cause.what} is still being written by {other}",
            "blocked": f"blocked by {other}",
            "alone": "issues alone",
            "first": f"issues in the first slot only, where {other} is",
            "apart": f"never beside {other}",
            "spacing": f"never {cause.what} after {other}",
            "unit": f"{cause.what} unit busy",
        }[cause.kind]

    def state(self) -> object:
        """Return all that later issues depend on, in cycles from now; valid at the end of an iteration."""
        now = self.cycle
        return (
            tuple(max(-self.horizon, self.now[op] - now) for op in self.carried),
            tuple(max(0, cycle - now) for cycle in self.free),
            tuple(max(0, cycle - now) for cycle in self.free_before),
            tuple(self.here),
            max(0, self.blocked_until - now),
            tuple((when - now, op) for when, op in self.recent),
        )
