"""Checks that a modulo schedule is correct for a loop, wherever the schedule comes from."""

from collections.abc import Mapping, Sequence

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Edge, Op, Schedule
from mavcg.passes.asm.schedule.reservation_table import ReservationTable
from mavcg.passes.asm.schedule.resource_table import ResourceTable, resource_table

ALGORITHMS = ("heuristic", "cp-sat")


def is_schedule_of(
    schedule: Schedule, ops: Sequence[Op], edges: Sequence[Edge], timing: Timing, below: float, stages: int
) -> bool:
    """Return True if a schedule that may come from anywhere is one of this loop: well formed, short enough, correct.

    ops: of the body; the last is the closing branch, which ends the first stage. edges: all dependences, as the order
    of emission needs them (modulo.with_emission_order). below: exclusive upper bound on the interval. stages: maximum
    of iterations in flight. Raises: MissingFact when the core knows nothing of a class.
    """
    interval, cycles = schedule.interval, schedule.cycles
    if not ops or type(interval) is not int or not 0 < interval < below or schedule.by not in ALGORITHMS:
        return False
    if type(schedule.optimal) is not bool or len(cycles) != len(ops):
        return False
    if any(type(cycle) is not int or not 0 <= cycle < stages * interval for cycle in cycles):
        return False
    if cycles[-1] != interval - 1:
        return False
    cycle_of = dict(enumerate(cycles))
    return edges_hold(cycle_of, edges, interval) and slots_hold(cycle_of, resource_table(ops, timing), interval)


def edges_hold(cycles: Mapping[int, int], edges: Sequence[Edge], interval: int) -> bool:
    """Return True if each dependence has its latency. cycles: cycle of each op."""
    return all(cycles[edge.target] + interval * edge.distance >= cycles[edge.source] + edge.latency for edge in edges)


def slots_hold(cycles: Mapping[int, int], resources: ResourceTable, interval: int) -> bool:
    """Return True if the core has the resources of all ops, and no ban is broken. cycles: cycle of each op."""
    table = ReservationTable(resources, interval)
    for op, cycle in cycles.items():
        if not table.fits(op, cycle):
            return False
        table.place(op, cycle)
    return True
