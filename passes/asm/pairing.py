"""Who goes first in a cycle: some cores issue some classes in the first slot of a cycle only.

Schedulers give ops cycles; here the ops of one cycle get their order. An op that must be first goes in front of the
others of its cycle unless one of them has to read a register before it is written anew.
"""

from collections.abc import Iterable, Sequence

from mavcg.passes.asm.op import Edge, Op, Schedule
from mavcg.timing import Timing


def kernel_with_firsts(
    order: Sequence[int], ops: Sequence[Op], edges: Iterable[Edge], timing: Timing, schedule: Schedule
) -> tuple[int, ...]:
    """A kernel's order (modulo.kernel_order) with those in front of their slots that must be."""
    tied = {
        (edge.source, edge.target)
        for edge in edges
        if not edge.latency
        and schedule.cycles[edge.source] == schedule.cycles[edge.target] + schedule.interval * edge.distance
    }
    return _in_front(order, [cycle % schedule.interval for cycle in schedule.cycles], ops, tied, timing)


def line_with_firsts(
    placed: Sequence[tuple[int, int]], ops: Sequence[Op], edges: Iterable[Edge], timing: Timing
) -> tuple[int, ...]:
    """The same for straight-line code: (op, cycle) in the order of issue (listing.list_cycles)."""
    cycles = [0] * len(ops)
    for op, cycle in placed:
        cycles[op] = cycle
    tied = {(e.source, e.target) for e in edges if not e.latency and cycles[e.source] == cycles[e.target]}
    return _in_front([op for op, _ in placed], cycles, ops, tied, timing)


def _in_front(
    order: Sequence[int], slots: Sequence[int], ops: Sequence[Op], tied: set[tuple[int, int]], timing: Timing
) -> tuple[int, ...]:
    groups: dict[int, list[int]] = {}
    for op in order:
        group = groups.setdefault(slots[op], [])
        if timing.of(ops[op].op_class).first and not any((other, op) in tied for other in group):
            group.insert(0, op)
        else:
            group.append(op)
    return tuple(op for group in groups.values() for op in group)
