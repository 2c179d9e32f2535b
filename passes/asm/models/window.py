"""Simulates straight-line code on an out-of-order core with a reorder buffer and issue queues of limited size.

Ops are dispatched in program order, at most `timing.width` micro-ops a cycle, into the reorder buffer and into a queue
before each unit. An op issues in the first cycle in which its operands and a unit are ready, and retires in order. The
model leaves out caches (every load hits), branch misses, and values that go from a store to a load through memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from mavcg.hardware.timing import Timing, UnitUse
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.issue_constraints import Dependence, op_dependences, unit_uses


def window_cycles(ops: Sequence[Op], timing: Timing) -> int:
    """Return the cycles until the last op has issued, on an idle core with all inputs ready.

    timing.in_flight: entries of the reorder buffer. timing.issue_queue: entries of the queue before each unit.
    Raises: MissingFact when the core's profile does not know a class. The core must have a unit for each op, which the
        caller checks by ports.straight_bounds.
    """
    return window_cycles_at(ops, timing, (len(ops),))[0] if ops else 0


def window_cycles_at(ops: Sequence[Op], timing: Timing, counts: Sequence[int]) -> tuple[int, ...]:
    """Return, for each count, the cycles until all of the first `count` ops have issued. counts: in rising order.

    Raises: as `window_cycles`.
    """
    core = _Window(timing)
    waits = op_dependences(ops, timing)
    latest = list(accumulate((core.run(n, op, ops, waits[n]) for n, op in enumerate(ops)), max))
    return tuple(1 + latest[count - 1] for count in counts)


@dataclass
class _Window:
    """The state of the core as ops are dispatched in program order.

    cycle, dispatched: current cycle of dispatch, and the micro-ops dispatched in it. busy: pool -> for each unit the
    cycles in which it works. queued: set of pools -> issue cycles of the micro-ops sent to it. leaves: cycles in which
    micro-ops left the reorder buffer. retire, retired: cycle of the last retirement, and the micro-ops retired in it.
    issued, updated: issue cycles of ops and of their address updates.
    """

    timing: Timing
    cycle: int = 0
    dispatched: int = 0
    busy: dict[str, list[set[int]]] = field(init=False)
    queued: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    leaves: list[int] = field(default_factory=list)
    retire: int = 0
    retired: int = 0
    issued: list[int] = field(default_factory=list)
    updated: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.busy = {pool: [set() for _ in range(count)] for pool, count in self.timing.pools.items()}

    def run(self, index: int, op: Op, ops: Sequence[Op], waits: Sequence[Dependence]) -> int:
        """Dispatch, issue and retire the next op; return the cycle in which its last micro-op issues."""
        uses = unit_uses(op, self.timing)
        count = max(1, len(uses))
        self._dispatch(uses, count)
        ready = update = self.cycle
        for after in waits:
            if after.kind == "register" and not after.distance:
                is_update = after.register == ops[after.source].writeback
                there = (self.updated if is_update else self.issued)[after.source] + after.cycles
                if after.register == op.writeback:
                    update = max(update, there)
                ready = max(ready, there)
        own = len(self.timing.of(op.op_class).units)
        cycles = [self._book(use, ready if number < own else update) for number, use in enumerate(uses)]
        self.issued.append(max([ready, *cycles[:own]]))
        self.updated.append(max([update, *cycles[own:]]))
        self._retire(self.issued[index] + max(1, self.timing.of(op.op_class).latency), count)
        return max(self.issued[index], self.updated[index])

    def _dispatch(self, uses: Sequence[UnitUse], count: int) -> None:
        """Advance to the cycle in which these micro-ops enter the reorder buffer and queues."""
        start = self.cycle + (self.dispatched >= self.timing.width)
        if len(self.leaves) >= self.timing.in_flight:
            start = max(start, self.leaves[-self.timing.in_flight + min(count, self.timing.in_flight) - 1])
        for use in uses:
            waiting = [at for at in self.queued.get(use.any_of, ()) if at > start]
            room = self.timing.issue_queue * sum(self.timing.pools.get(pool, 0) for pool in use.any_of)
            if len(waiting) >= room:
                start = sorted(waiting)[len(waiting) - room]
            self.queued[use.any_of] = waiting
        if start > self.cycle:
            self.cycle, self.dispatched = start, 0
        self.dispatched += count
        while self.dispatched > self.timing.width:  # an op of many micro-ops takes several cycles
            self.dispatched -= self.timing.width
            self.cycle += 1

    def _book(self, use: UnitUse, ready: int) -> int:
        """Occupy a unit from the first cycle, `ready` or later, in which one is free; return that cycle."""
        units = [unit for pool in use.any_of for unit in self.busy.get(pool, ())]
        cycle = ready
        while True:
            for unit in units:
                work = range(cycle, cycle + use.cycles)
                if unit.isdisjoint(work):
                    unit.update(work)
                    self.queued.setdefault(use.any_of, []).append(cycle)
                    return cycle
            cycle += 1

    def _retire(self, complete: int, count: int) -> None:
        """Retire `count` micro-ops that complete in cycle `complete`, after all earlier micro-ops."""
        if complete > self.retire:
            self.retire, self.retired = complete, 0
        self.retired += count
        while self.retired > self.timing.width:
            self.retired -= self.timing.width
            self.retire += 1
        self.leaves += [self.retire] * count
