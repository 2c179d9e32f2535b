"""Orders the ops within each cycle, for cores that issue some classes in the first or last slot of a cycle only.

The schedulers decide the cycle of each op. Within a cycle, an op of the first kind goes in front of the other ops, one
of the second kind behind them, unless a register has to be read before it is overwritten. A Cortex-A55 issues a 128-bit
multiply-add in the first slot only; after a 64-bit multiply, a Cortex-A53 issues nothing else in the same cycle:

    cycle 0:  ldr  d0, [x1]                ->    cycle 0:  fmla v16.4s, v1.4s, v2.4s
              fmla v16.4s, v1.4s, v2.4s                    ldr  d0, [x1]
"""

from collections.abc import Iterable, Sequence

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Edge, Op, Schedule


def kernel_issue_order(
    order: Sequence[int], ops: Sequence[Op], edges: Iterable[Edge], timing: Timing, schedule: Schedule
) -> tuple[int, ...]:
    """Return a kernel's order with the ops that need the first or last slot at that end of their cycle.

    order: as modulo.kernel_order returns it.
    """
    tied = {
        (edge.source, edge.target)
        for edge in edges
        if not edge.latency
        and schedule.cycles[edge.source] == schedule.cycles[edge.target] + schedule.interval * edge.distance
    }
    return _order_slots(order, [cycle % schedule.interval for cycle in schedule.cycles], ops, tied, timing)


def block_issue_order(
    placed: Sequence[tuple[int, int]], ops: Sequence[Op], edges: Iterable[Edge], timing: Timing
) -> tuple[int, ...]:
    """Return the order of straight-line code with ops that need the first or last slot at that end of their cycle.

    placed: (op, cycle) in the order of issue, as list_schedule.list_schedule returns them.
    """
    cycles = [0] * len(ops)
    for op, cycle in placed:
        cycles[op] = cycle
    tied = {(e.source, e.target) for e in edges if not e.latency and cycles[e.source] == cycles[e.target]}
    return _order_slots([op for op, _ in placed], cycles, ops, tied, timing)


def _order_slots(
    order: Sequence[int], slots: Sequence[int], ops: Sequence[Op], tied: set[tuple[int, int]], timing: Timing
) -> tuple[int, ...]:
    groups: dict[int, list[int]] = {}
    for op in order:
        group = groups.setdefault(slots[op], [])
        if timing.of(ops[op].op_class).first and not any((earlier, op) in tied for earlier in group):
            group.insert(0, op)
        elif group and timing.of(ops[group[-1]].op_class).last and (group[-1], op) not in tied:
            group.insert(-1, op)
        else:
            group.append(op)
    return tuple(op for group in groups.values() for op in group)
