"""Modulo scheduling: the iterations of a loop overlap, so that one starts every `interval` cycles.

A seeded heuristic (eviction.py) looks for the smallest interval; a solver (exact.py) may look below it.
Source: Rau, "Iterative Modulo Scheduling" (1994).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from mavcg.passes.asm.eviction import search
from mavcg.passes.asm.listing import list_cycles
from mavcg.passes.asm.needs import Needs, needs_of, resource_interval
from mavcg.passes.asm.op import Edge, Op, Schedule
from mavcg.passes.asm.slots import Table
from mavcg.passes.asm.windows import circles_close
from mavcg.timing import Timing

HEURISTIC_SHARE = 0.6  # of the time given to find an optimum: it finds most of them, the solver proves them
STAGES = 4  # iterations in flight at most: each but one costs a copy of the body's parts before and after the loop


def minimum_interval(ops: Sequence[Op], edges: Sequence[Edge], timing: Timing) -> int:
    """The interval that no schedule can go below: the larger of ResMII and RecMII.

    ResMII: each cycle has so many slots and units, and all ops need theirs (slots.resource_interval). RecMII: around
    every circle of edges, the latencies must pass within interval * distance cycles.
    Raises: ValueError when a circle of edges has no distance; MissingFact when the core knows nothing of a class.
    Source: Rau (1994), section 2.
    """
    low = resource_interval(ops, timing)
    if ops and circles_close(len(ops), edges, low):
        return low  # as in most loops, whose circles are short
    high = max(low, 1 + sum(max(0, edge.latency) for edge in edges))
    if not ops or not circles_close(len(ops), edges, high):
        raise ValueError("minimum_interval: no ops, or a circle of edges within one iteration")
    while low < high:
        middle = (low + high) // 2
        if circles_close(len(ops), edges, middle):
            high = middle
        else:
            low = middle + 1
    return low


def ordered_edges(edges: Sequence[Edge], last: int) -> list[Edge]:
    """The edges with the order of emission in them, so that cycles alone decide.

    Within a cycle the kernel has older stages first, then program order, the branch last. An edge of latency 0 that
    crosses iterations and meets its target in the same cycle comes from an older stage, so it is in order. One within
    an iteration meets it in the same stage: where program order has the target first, or the source is the branch,
    the target must wait for the next cycle.
    """

    def against(edge: Edge) -> bool:
        if edge.distance or edge.target == last:
            return False
        return edge.source == last or edge.source > edge.target

    return [replace(edge, latency=max(1, edge.latency)) if against(edge) else edge for edge in edges]


def branch_edges(count: int, last: int) -> list[Edge]:
    """The next iteration starts after this one's branch: what holds for a branch in the last slot of stage 0."""
    return [Edge(last, op, 1, 1) for op in range(count)]


def kernel_order(schedule: Schedule, last: int) -> tuple[int, ...]:
    """The ops as the kernel has them: by slot, then older iterations first, then program order; the branch last."""

    def place(op: int) -> tuple[int, int, int, int]:
        stage, slot = divmod(schedule.cycles[op], schedule.interval)
        return slot, op == last, -stage, op

    return tuple(sorted(range(len(schedule.cycles)), key=place))


def schedule_loop(
    ops: Sequence[Op],
    edges: Sequence[Edge],
    timing: Timing,
    last: int,
    exact_seconds: float = 0.0,
    effort: float = 1.0,
    below: float | None = None,
) -> Schedule | None:
    """A software pipeline for a loop whose body is `ops`, or None where none is found that beats overlapping nothing.

    Args:
        ops: one iteration of a do-while loop, in program order.
        edges: all that the order must keep, between iterations too.
        last: the index of the closing branch; its cycle in the result is interval - 1.
        exact_seconds: about as long as all may take where the heuristic does not reach the minimum interval, the
            solver included; counted in deterministic work and not by a clock. 0: the heuristic alone.
        effort: about as many seconds as the heuristic may take when it is alone, counted alike.
        below: intervals from this on are of no use; that of the list schedule unless it is given.
    Returns: cycles of at most STAGES intervals. None: no interval below `below` was found.
        The same input gives the same schedule.
    Raises: ValueError for edges that no order can keep; MissingFact when the core knows nothing of a class.
    """
    bound = math.ceil(sequential_interval(ops, edges, timing, last) if below is None else below)
    held = ordered_edges(edges, last)
    least = minimum_interval(ops, [*held, *branch_edges(len(ops), last)], timing)
    if least >= bound:
        return None
    needs = needs_of(ops, timing)
    effort = max(effort, HEURISTIC_SHARE * exact_seconds)
    found = search(needs, held, last, range(least, bound), STAGES, effort)
    if found is not None and found.interval == least:
        return replace(found, optimal=True)
    if exact_seconds > 0:
        from mavcg.passes.asm.exact import improve

        rest = max(0.0, exact_seconds - effort) or exact_seconds
        return improve(found, needs, held, last, range(least, bound), STAGES, rest)
    return found


def sequential_interval(ops: Sequence[Op], edges: Sequence[Edge], timing: Timing, last: int) -> int:
    """Cycles from one iteration to the next when the list-scheduled body runs without overlap."""
    inner = [edge for edge in edges if not edge.distance]
    before_branch = [Edge(op, last, 0) for op in range(len(ops)) if op != last]
    cycles = dict(list_cycles(ops, [*inner, *before_branch], timing))
    needs = needs_of(ops, timing)
    interval = cycles[last] + 1
    while not (_edges_hold(cycles, edges, interval) and _slots_hold(cycles, needs, interval)):
        interval += 1
    return interval


def _edges_hold(cycles: dict[int, int], edges: Sequence[Edge], interval: int) -> bool:
    return all(cycles[edge.target] + interval * edge.distance >= cycles[edge.source] + edge.latency for edge in edges)


def _slots_hold(cycles: dict[int, int], needs: Needs, interval: int) -> bool:
    table = Table(needs, interval)
    for op, cycle in cycles.items():
        if not table.fits(op, cycle):
            return False
        table.place(op, cycle)
    return True
