"""Simulates straight-line code on an out-of-order core with a reorder buffer and issue queues of limited size.

Ops are dispatched in program order, at most `timing.width` micro-ops a cycle, into the reorder buffer. Each micro-op
goes into the queue of one unit, the shortest of the units that can execute it, and issues there in the first cycle in
which its operands and this unit are ready, even if another unit is idle before. Ops retire in order. The model leaves
out caches (every load hits), branch misses, and values that go from a store to a load through memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from mavcg.hardware.timing import Timing, UnitUse
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.issue_constraints import Dependence, op_dependences, unit_uses
from mavcg.passes.asm.models.ports import micro_ops


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

    cycle, dispatched: current cycle of dispatch, and the micro-ops dispatched in it. units: pool -> its units' numbers.
    busy: for each unit the cycles in which it works. queued: for each unit the issue cycles of the micro-ops sent to
    it, those of earlier cycles left out. leaves: cycles in which micro-ops left the reorder buffer. retire, retired:
    cycle of the last retirement, and the micro-ops retired in it. issued, updated: issue cycles of ops and of their
    address updates.
    """

    timing: Timing
    cycle: int = 0
    dispatched: int = 0
    units: dict[str, range] = field(default_factory=dict)
    busy: list[set[int]] = field(default_factory=list)
    queued: list[list[int]] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)
    retire: int = 0
    retired: int = 0
    issued: list[int] = field(default_factory=list)
    updated: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for pool, count in self.timing.pools.items():
            self.units[pool] = range(len(self.busy), len(self.busy) + count)
            self.busy += [set() for _ in range(count)]
            self.queued += [[] for _ in range(count)]

    def run(self, index: int, op: Op, ops: Sequence[Op], waits: Sequence[Dependence]) -> int:
        """Dispatch, issue and retire the next op; return the cycle in which its last micro-op issues."""
        uses = unit_uses(op, self.timing)
        count = micro_ops(op, self.timing)
        units = self._dispatch(uses, count)
        ready = update = self.cycle
        for after in waits:
            if after.kind == "register" and not after.distance:
                is_update = after.register == ops[after.source].writeback
                there = (self.updated if is_update else self.issued)[after.source] + after.cycles
                if after.register == op.writeback:
                    update = max(update, there)
                ready = max(ready, there)
        own = len(self.timing.of(op.op_class).units)
        cycles = [
            self._book(unit, use.cycles, ready if number < own else update)
            for number, (use, unit) in enumerate(zip(uses, units, strict=True))
        ]
        self.issued.append(max([ready, *cycles[:own]]))
        self.updated.append(max([update, *cycles[own:]]))
        self._retire(self.issued[index] + max(1, self.timing.of(op.op_class).latency), count)
        return max(self.issued[index], self.updated[index])

    def _dispatch(self, uses: Sequence[UnitUse], count: int) -> list[int]:
        """Advance to the cycle in which these micro-ops enter the reorder buffer and queues; return their units."""
        start = self.cycle + (self.dispatched >= self.timing.width)
        if len(self.leaves) >= self.timing.in_flight:
            start = max(start, self.leaves[-self.timing.in_flight + min(count, self.timing.in_flight) - 1])
        chosen: list[int] = []
        for use in uses:
            start, unit = self._shortest_queue(use, start, chosen)
            chosen.append(unit)
        if start > self.cycle:
            self.cycle, self.dispatched = start, 0
            self.queued = [[at for at in queue if at >= start] for queue in self.queued]
        self.dispatched += count
        while self.dispatched > self.timing.width:  # an op of many micro-ops takes several cycles
            self.dispatched -= self.timing.width
            self.cycle += 1
        return chosen

    def _shortest_queue(self, use: UnitUse, start: int, chosen: Sequence[int]) -> tuple[int, int]:
        """Return the first cycle, `start` or later, in which a unit for this micro-op has room in its queue, and the
        one of these units with the fewest micro-ops that issue in this cycle or wait.

        Of equally short queues it is that of the unit that the core's file lists first. chosen: units of the op's
        earlier micro-ops, which enter the queues in the same cycle.
        """
        units = sorted(unit for pool in use.any_of for unit in self.units.get(pool, ()))
        while True:
            room = [unit for unit in units if sum(at > start for at in self.queued[unit]) < self.timing.issue_queue]
            if room:
                counts = {unit: sum(at >= start for at in self.queued[unit]) + chosen.count(unit) for unit in room}
                return start, min(room, key=counts.__getitem__)
            start = min(at for unit in units for at in self.queued[unit] if at > start)

    def _book(self, unit: int, cycles: int, ready: int) -> int:
        """Occupy a unit from the first cycle, `ready` or later, in which it is free; return that cycle."""
        busy, cycle = self.busy[unit], ready
        while not busy.isdisjoint(work := range(cycle, cycle + cycles)):
            cycle += 1
        busy.update(work)
        self.queued[unit].append(cycle)
        return cycle

    def _retire(self, complete: int, count: int) -> None:
        """Retire `count` micro-ops that complete in cycle `complete`, after all earlier micro-ops."""
        if complete > self.retire:
            self.retire, self.retired = complete, 0
        self.retired += count
        while self.retired > self.timing.width:
            self.retired -= self.timing.width
            self.retire += 1
        self.leaves += [self.retire] * count
