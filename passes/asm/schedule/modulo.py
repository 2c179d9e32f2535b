"""Modulo scheduling: overlaps the iterations of a loop, so that one starts every `interval` cycles.

A seeded heuristic (iterative_modulo.py) searches for the smallest interval; a solver (exact_modulo.py) may search below
it. software_pipeline.py emits the schedule as code.
Source: Rau, "Iterative Modulo Scheduling" (1994).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Edge, Op, Schedule
from mavcg.passes.asm.schedule.list_schedule import list_schedule
from mavcg.passes.asm.schedule.reservation_table import edges_hold, slots_hold
from mavcg.passes.asm.schedule.resource_table import resource_min_interval, resource_table

HEURISTIC_SHARE = 0.6  # fraction of exact_seconds for the heuristic, which finds most of the optimal schedules
STAGES = 4  # maximum of iterations in flight: each more adds code before and after the loop


def min_initiation_interval(ops: Sequence[Op], edges: Sequence[Edge], timing: Timing) -> int:
    """Return the minimum initiation interval, in cycles: the larger of ResMII and RecMII.

    ResMII: the issue slots and units that all ops need (resource_table.resource_min_interval). RecMII: the latencies
    along each recurrence must add up to at most interval * distance cycles.
    Raises: ValueError when a cycle of edges has no distance; MissingFact when the core knows nothing of a class.
    Source: Rau (1994), section 2.
    """
    from mavcg.passes.asm.schedule.slack import recurrences_fit  # brings NumPy, which few files need

    low = resource_min_interval(ops, timing)
    if ops and recurrences_fit(len(ops), edges, low):
        return low  # as in most loops, whose recurrences are short
    high = max(low, 1 + sum(max(0, edge.latency) for edge in edges))
    if not ops or not recurrences_fit(len(ops), edges, high):
        raise ValueError("min_initiation_interval: no ops, or a cycle of edges within one iteration")
    while low < high:
        middle = (low + high) // 2
        if recurrences_fit(len(ops), edges, middle):
            high = middle
        else:
            low = middle + 1
    return low


def with_emission_order(edges: Sequence[Edge], last: int) -> list[Edge]:
    """Return the edges with latency 1 instead of 0 where the order of emission within a cycle would violate them.

    Within a cycle the kernel emits older stages first, then program order, the branch last. If source and target of an
    edge of latency 0 share a cycle, an edge across iterations has its source in an older stage: the order is right. An
    edge within an iteration has both in the same stage: if the target comes first in program order, or the source is
    the branch, the target must issue in a later cycle.
    """

    def against(edge: Edge) -> bool:
        if edge.distance or edge.target == last:
            return False
        return edge.source == last or edge.source > edge.target

    return [edge._replace(latency=max(1, edge.latency)) if against(edge) else edge for edge in edges]


def edges_in_rhythm(ops: Sequence[Op], edges: Sequence[Edge], timing: Timing) -> list[Edge]:
    """Return the edges with the latency from a general load to an `ins` raised to the shortest forbidden distance.

    On a core that issues no vector load four cycles after a multiply-add, loads fit best four cycles apart, and the
    `ins` of a loaded value in the same cycle as a load: so an `ins` goes four cycles after its load, not three. A
    schedule for the returned edges satisfies the original edges too.
    """
    periods = [rule.cycles for rule in timing.forbidden_distances if rule.cycles > 1]
    if not periods:
        return list(edges)

    def latency(edge: Edge) -> int:
        is_half = ops[edge.source].op_class == "ldr_x" and ops[edge.target].op_class == "ins"
        return max(edge.latency, min(periods)) if is_half and edge.latency > 1 else edge.latency

    return [edge._replace(latency=latency(edge)) for edge in edges]


def branch_edges(count: int, last: int) -> list[Edge]:
    """Return edges that make every op of the next iteration issue after this iteration's branch, at index `last`."""
    return [Edge(last, op, 1, 1) for op in range(count)]


def kernel_order(schedule: Schedule, last: int) -> tuple[int, ...]:
    """Return the ops in the kernel's order: by slot, then older iterations first, then program order; branch last."""

    def position(op: int) -> tuple[int, int, int, int]:
        stage, slot = divmod(schedule.cycles[op], schedule.interval)
        return slot, op == last, -stage, op

    return tuple(sorted(range(len(schedule.cycles)), key=position))


def schedule_loop(
    ops: Sequence[Op],
    edges: Sequence[Edge],
    timing: Timing,
    last: int,
    exact_seconds: float = 0.0,
    effort: float = 1.0,
    below: float | None = None,
    cautious: Sequence[Edge] = (),
) -> Schedule | None:
    """Return a modulo schedule of a loop with the body `ops`; None if none is faster than iterations without overlap.

    Args:
        ops: one iteration of a do-while loop, in program order.
        edges: all dependences, within and between iterations.
        last: the index of the closing branch; its cycle in the result is interval - 1.
        exact_seconds: approximate time for heuristic and solver together, if the heuristic does not reach the minimum
            interval; counted in deterministic work, not by a clock. 0: the heuristic alone.
        effort: approximate seconds for the heuristic if it runs alone, counted in the same manner.
        below: exclusive upper bound on the interval; by default the interval of the list schedule.
        cautious: the edges with disputed latencies at their largest (Timing.disputed_forwards), or (). The schedule
            satisfies these too if the heuristic finds one that is no longer.
    Returns: cycles within at most STAGES intervals; None where no interval below `below` was found.
        The same input gives the same schedule.
    Raises: ValueError for edges that no order satisfies; MissingFact when the core knows nothing of a class.
    """
    from mavcg.passes.asm.schedule.iterative_modulo import iterative_modulo_schedule

    bound = math.ceil(sequential_interval(ops, edges, timing, last) if below is None else below)
    emission_edges = with_emission_order(edges, last)
    least = min_initiation_interval(ops, [*emission_edges, *branch_edges(len(ops), last)], timing)
    if least >= bound:
        return None
    resources = resource_table(ops, timing)
    effort = max(effort, HEURISTIC_SHARE * exact_seconds)
    satisfies_both = with_emission_order(cautious, last)

    def cautiously(intervals: range) -> Schedule | None:
        if not cautious or satisfies_both == emission_edges:
            return None
        return iterative_modulo_schedule(resources, satisfies_both, last, intervals, STAGES, effort)

    if (schedule := cautiously(range(least, least + 1))) is not None:
        return replace(schedule, optimal=True)
    heuristic = iterative_modulo_schedule(resources, emission_edges, last, range(least, bound), STAGES, effort)
    in_rhythm = edges_in_rhythm(ops, emission_edges, timing)
    if in_rhythm != emission_edges and (heuristic is None or heuristic.interval > least):
        shorter = range(least, bound if heuristic is None else heuristic.interval)
        in_time = iterative_modulo_schedule(resources, in_rhythm, last, shorter, STAGES, effort)
        heuristic = in_time or heuristic
    if heuristic is not None and heuristic.interval == least:
        return replace(heuristic, optimal=True)
    if exact_seconds > 0:
        from mavcg.passes.asm.schedule.exact_modulo import improve_schedule

        solver_seconds = max(0.0, exact_seconds - effort) or exact_seconds
        intervals = range(least, bound)
        heuristic = improve_schedule(heuristic, resources, emission_edges, last, intervals, STAGES, solver_seconds)
    if heuristic is not None and heuristic.interval > least:
        longer = cautiously(range(heuristic.interval, heuristic.interval + 1))
        return replace(longer, optimal=heuristic.optimal) if longer is not None else heuristic
    return heuristic


def sequential_interval(ops: Sequence[Op], edges: Sequence[Edge], timing: Timing, last: int) -> int:
    """Return the cycles per iteration of the list-scheduled body, when iterations do not overlap."""
    inner = [edge for edge in edges if not edge.distance]
    before_branch = [Edge(op, last, 0) for op in range(len(ops)) if op != last]
    cycles = dict(list_schedule(ops, [*inner, *before_branch], timing))
    resources = resource_table(ops, timing)
    interval = cycles[last] + 1
    while not (edges_hold(cycles, edges, interval) and slots_hold(cycles, resources, interval)):
        interval += 1
    return interval
