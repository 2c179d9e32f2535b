"""Modulo scheduling: the iterations of a loop overlap, so that one starts every `interval` cycles.

The heuristic keeps the ops placed so far consistent with the closure of all edges, and lets an op that finds no free
slot push out what is in its way; an op that was hard to place becomes harder to push out.
Sources: Rau, "Iterative Modulo Scheduling" (1994): minimum interval, eviction. Huff, "Lifetime-Sensitive Modulo
Scheduling" (1993): least slack first, from both ends. Nagata and Braysy, "A powerful route minimization heuristic"
(2009): penalties that decide whom to push out.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mavcg.passes.asm.listing import list_cycles
from mavcg.passes.asm.op import Edge, Op, Schedule
from mavcg.passes.asm.slots import Needs, Table, needs_of, resource_interval
from mavcg.timing import Timing

STAGES = 4  # iterations in flight at most: each but one costs a copy of the body's parts before and after the loop
STEPS_PER_OP = 20  # placements, evicted ones too, of one attempt
ATTEMPTS = 3  # per interval and number of stages, on the way up
_NO_PATH = -(10**6)

Cycles = npt.NDArray[np.int32]


def minimum_interval(ops: Sequence[Op], edges: Sequence[Edge], timing: Timing) -> int:
    """The interval that no schedule can go below: the larger of ResMII and RecMII.

    ResMII: each cycle has so many slots and units, and all ops need theirs (slots.resource_interval). RecMII: around
    every circle of edges, the latencies must pass within interval * distance cycles.
    Raises: ValueError when a circle of edges has no distance; MissingFact when the core knows nothing of a class.
    Source: Rau (1994), section 2.
    """
    low = resource_interval(ops, timing)
    high = max(low, 1 + sum(max(0, edge.latency) for edge in edges))
    if not ops or not _circles_close(len(ops), edges, high):
        raise ValueError("minimum_interval: no ops, or a circle of edges within one iteration")
    while low < high:
        middle = (low + high) // 2
        if _circles_close(len(ops), edges, middle):
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
    ops: Sequence[Op], edges: Sequence[Edge], timing: Timing, last: int, exact_seconds: float = 0.0
) -> Schedule | None:
    """A software pipeline for a loop whose body is `ops`, or None where none is found that beats overlapping nothing.

    Args:
        ops: one iteration of a do-while loop, in program order.
        edges: all that the order must keep, between iterations too.
        last: the index of the closing branch; its cycle in the result is interval - 1.
        exact_seconds: about as long as the solver may look for a shorter interval than the heuristic's, counted in
            deterministic work and not by a clock. 0: the heuristic alone.
    Returns: cycles of at most STAGES intervals. None: no interval is shorter than that of the list schedule.
        The same input gives the same schedule.
    Raises: ValueError for edges that no order can keep; MissingFact when the core knows nothing of a class.
    """
    bound = sequential_interval(ops, edges, timing, last)
    held = ordered_edges(edges, last)
    least = minimum_interval(ops, [*held, *branch_edges(len(ops), last)], timing)
    if least >= bound:
        return None
    needs = needs_of(ops, timing)
    found = _search(needs, held, last, least, bound)
    if found is not None and found.interval == least:
        return replace(found, optimal=True)
    if exact_seconds > 0:
        from mavcg.passes.asm.exact import improve

        return improve(found, needs, held, last, least, bound, STAGES, exact_seconds)
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
    return all(
        cycles[edge.target] + interval * edge.distance >= cycles[edge.source] + edge.latency for edge in edges
    )


def _slots_hold(cycles: dict[int, int], needs: Needs, interval: int) -> bool:
    table = Table(needs, interval)
    for op, cycle in cycles.items():
        if not table.fits(op, cycle):
            return False
        table.place(op, cycle)
    return True


def _circles_close(count: int, edges: Sequence[Edge], interval: int) -> bool:
    return bool((np.diagonal(_closure(count, edges, interval)) <= 0).all())


def _closure(count: int, edges: Sequence[Edge], interval: int) -> Cycles:
    """[source, target]: the least cycles from one to the other along any path; a positive diagonal cannot be kept."""
    apart = np.full((count, count), _NO_PATH, dtype=np.int32)
    np.fill_diagonal(apart, 0)
    for edge in edges:
        cycles = edge.latency - interval * edge.distance
        apart[edge.source, edge.target] = max(apart[edge.source, edge.target], cycles)
    for via in range(count):
        np.maximum(apart, apart[:, via, None] + apart[None, via, :], out=apart)
        if apart[via, via] > 0:
            break  # there is no schedule: more rounds would only let the numbers grow
    return apart


def windows(count: int, edges: Sequence[Edge], last: int, interval: int, stages: int) -> Cycles | None:
    """The closure of the edges with the branch at interval - 1 and all else in cycles 0 .. stages * interval - 1.

    None when the edges cannot be kept so.
    """
    pinned = [Edge(last, op, 1 - interval) for op in range(count)]
    within = [Edge(op, last, (1 - stages) * interval) for op in range(count)]
    apart = _closure(count, [*edges, *pinned, *within], interval)
    return apart if (np.diagonal(apart) <= 0).all() else None


def cycle_ranges(apart: Cycles, last: int, interval: int) -> tuple[Cycles, Cycles]:
    """Each op's earliest and latest cycle, of a closure that `windows` gave."""
    return interval - 1 + apart[last], interval - 1 - apart[:, last]


def _search(needs: Needs, edges: Sequence[Edge], last: int, least: int, bound: int) -> Schedule | None:
    """The heuristic at every interval from below, with few stages first."""
    count = len(needs.kind_of)
    for interval in range(least, bound):
        for stages in range(1, STAGES + 1):
            apart = windows(count, edges, last, interval, stages)
            if apart is None:
                continue
            for attempt in range(ATTEMPTS):
                cycles = _attempt(needs, apart, last, interval, attempt, STEPS_PER_OP * count)
                if cycles is not None:
                    return Schedule(interval, cycles, "heuristic")
    return None


def _attempt(
    needs: Needs, apart: Cycles, last: int, interval: int, seed: int, steps: int
) -> tuple[int, ...] | None:
    """Place all ops at this interval, in at most that many placements.

    apart: the closure that `windows` gives; the ops placed keep it at all times.
    """
    count = len(needs.kind_of)
    rng = random.Random(seed)
    table = Table(needs, interval)
    if any(table.impossible(op) for op in range(count)):
        return None
    cycles = np.zeros(count, dtype=np.int32)
    placed = np.zeros(count, dtype=bool)
    penalty = np.ones(count)
    penalty[last] = np.inf
    earliest, latest = cycle_ranges(apart, last, interval)
    # An op that takes much of a cycle has fewer slots to go to: its slack is worth less.
    share = np.array(
        [max(amount / needs.capacities[res] for _, res, amount in needs.kinds[kind].uses) for kind in needs.kind_of]
    )
    early = seed % 2 == 0
    low, high = earliest.copy(), latest.copy()

    def put(op: int, cycle: int) -> None:
        nonlocal low, high
        table.place(op, cycle)
        cycles[op] = cycle
        placed[op] = True
        low = np.maximum(low, cycle + apart[op])
        high = np.minimum(high, cycle - apart[:, op])

    put(last, interval - 1)
    noise = np.array([rng.random() for _ in range(count)]) * (0.5 if seed < 2 else 2.0)
    for _ in range(steps):
        if placed.all():
            return tuple(int(cycle) for cycle in cycles)
        slack = (high - low + 1) * (1.25 - share) + noise
        slack[placed] = np.inf
        op = int(slack.argmin())
        first, final = int(low[op]), int(high[op])
        span = min(final - first, interval - 1)
        tries = range(first, first + span + 1) if early else range(final, final - span - 1, -1)
        cycle = next((at for at in tries if table.fits(op, at)), None)
        if cycle is not None:
            put(op, cycle)
            continue
        penalty[op] += 1
        cycle, out = _least_eviction(op, table, apart, cycles, placed, penalty, earliest, latest, interval, rng)
        if cycle < 0:
            return None
        for other in out:
            table.remove(other)
            placed[other] = False
        kept = np.flatnonzero(placed)
        low = (cycles[kept, None] + apart[kept]).max(axis=0)
        high = (cycles[kept, None] - apart[:, kept].T).min(axis=0)
        put(op, cycle)
    return None


def _least_eviction(
    op: int,
    table: Table,
    apart: Cycles,
    cycles: Cycles,
    placed: npt.NDArray[np.bool_],
    penalty: npt.NDArray[np.float64],
    earliest: Cycles,
    latest: Cycles,
    interval: int,
    rng: random.Random,
) -> tuple[int, list[int]]:
    """The cycle for the op, and the ops to push out for it, of the least sum of penalties; (-1, []): there is none."""
    others = np.flatnonzero(placed)
    lowest = cycles[others] + apart[others, op]
    highest = cycles[others] - apart[op, others]
    at = np.arange(int(earliest[op]), int(latest[op]) + 1)
    broken = (at[:, None] < lowest[None, :]) | (at[:, None] > highest[None, :])
    by_edges = np.where(broken, penalty[others][None, :], 0.0).sum(axis=1)
    best, found = np.inf, (-1, list[int]())
    in_the_way: dict[int, tuple[float, list[int]]] = {}
    order = np.argsort(by_edges, kind="stable")
    for index in order.tolist():
        if by_edges[index] >= best:
            break
        cycle = int(at[index])
        slot = cycle % interval
        if slot not in in_the_way:
            out = table.in_the_way(op, slot, lambda other: float(penalty[other]))
            in_the_way[slot] = float(sum(penalty[other] for other in out)), out
        out = in_the_way[slot][1]
        gone = set(others[broken[index]].tolist())
        cost = float(by_edges[index]) + sum(float(penalty[other]) for other in out if other not in gone)
        cost += 0.5 * rng.random()  # among equals, not always the same one
        if cost < best:
            best, found = cost, (cycle, [*sorted(gone), *(other for other in out if other not in gone)])
    return found
