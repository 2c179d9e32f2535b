"""List scheduling: an order of straight-line code in which a core waits less."""

import random
from bisect import insort
from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations

from mavcg.passes.asm.needs import Needs, needs_of
from mavcg.passes.asm.op import Edge, Op
from mavcg.passes.asm.slots import Table
from mavcg.timing import Timing

RESTARTS = 14  # with disturbed priorities, after the plain ones
SHORT = 5  # ops of which all orders are tried: a greedy one never waits, which is at times the best thing to do


def list_cycles(ops: Sequence[Op], edges: Sequence[Edge], timing: Timing) -> tuple[tuple[int, int], ...]:
    """The ops in an order that takes no more cycles than the given one, and fewer where one is found.

    Takes the best of several greedy orders (by critical path, by successors, by scarcity of units, and seeded mixtures)
    and of the input's own, which a draw keeps. The same input gives the same order.
    Returns: (index of the op, the cycle in which it issues), in the order of issue.
    Raises: ValueError for edges that run in a circle or have a distance; MissingFact when the core knows nothing of a
        class.
    """
    if any(edge.distance for edge in edges):
        raise ValueError("list_cycles: an edge has a distance; straight-line code has none")
    return _placed(needs_of(ops, timing), tuple(edges)) if ops else ()


@lru_cache(maxsize=1024)  # kernels of many shapes have stretches that differ in registers and offsets alone
def _placed(needs: Needs, edges: tuple[Edge, ...]) -> tuple[tuple[int, int], ...]:
    ops = needs.kind_of
    heights = critical_path(len(ops), edges)
    after: list[list[Edge]] = [[] for _ in ops]
    for edge in edges:
        after[edge.source].append(edge)
    scarcity = [_scarcity(needs, op) for op in range(len(ops))]
    latest = max(heights)
    tails = [latest - height for height in critical_path(len(ops), [_turned(edge) for edge in edges])]
    keys: list[list[tuple[float, ...]]] = [
        [(heights[op], len(after[op]), -op) for op in range(len(ops))],
        [(heights[op], scarcity[op], -op) for op in range(len(ops))],
        [(heights[op] + scarcity[op], -op) for op in range(len(ops))],
        [(scarcity[op], heights[op], -op) for op in range(len(ops))],
        [(heights[op] - (latest - tails[op]), heights[op], -op) for op in range(len(ops))],
        [(-op,) for op in range(len(ops))],
    ]
    own = tuple(range(len(ops)))
    orders = permutations(own) if len(ops) <= SHORT else [own]  # its own order is the first of the permutations
    tried = [placed for order in orders if (placed := _in_order(order, edges, needs))]
    if len(ops) > SHORT:
        tried += [_greedy(edges, needs, key) for key in keys]
        least = max(latest, _busiest(needs, len(ops)))
        rng = random.Random(len(ops))
        for _ in range(RESTARTS):
            if min(each[-1][1] for each in tried) <= least:
                break
            key = [(heights[op] + 2 * scarcity[op] * rng.random() + 3 * rng.random(),) for op in range(len(ops))]
            tried.append(_greedy(edges, needs, key))
    return min(tried, key=_cost)


def _busiest(needs: Needs, count: int) -> int:
    """The earliest cycle of the last of so many ops that the resources allow, whatever the edges."""
    work = [0] * len(needs.capacities)
    for op in range(count):
        for after, resource, amount in needs.kinds[needs.kind_of[op]].uses:
            if not after:  # what is taken in later cycles may lie behind the last issue
                work[resource] += amount
    return max((-(-amount // room) for amount, room in zip(work, needs.capacities, strict=True)), default=1) - 1


def critical_path(count: int, edges: Sequence[Edge]) -> list[int]:
    """Per op, the cycles from its issue to the last issue that waits for it along edges of distance 0.

    Raises: ValueError when edges run in a circle.
    """
    after: list[list[Edge]] = [[] for _ in range(count)]
    waiting = [0] * count
    for edge in edges:
        after[edge.source].append(edge)
        waiting[edge.target] += 1
    ready = [op for op in range(count) if not waiting[op]]
    for op in ready:  # grows while it is read: every op comes after all that it waits for
        for edge in after[op]:
            waiting[edge.target] -= 1
            if not waiting[edge.target]:
                ready.append(edge.target)
    if len(ready) < count:
        circle = [op for op in range(count) if waiting[op]]
        raise ValueError(f"list_cycles: edges of distance 0 run in a circle through ops among {circle}")
    heights = [0] * count
    for op in reversed(ready):
        heights[op] = max((edge.latency + heights[edge.target] for edge in after[op]), default=0)
    return heights


def _turned(edge: Edge) -> Edge:
    return Edge(edge.target, edge.source, edge.latency)


def _scarcity(needs: Needs, op: int) -> float:
    """The largest part of a cycle's resources that the op takes: ops hard to place go first."""
    return max(amount / needs.capacities[resource] for _, resource, amount in needs.kinds[needs.kind_of[op]].uses)


def _cost(placed: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return placed[-1][1], sum(cycle for _, cycle in placed)


def _in_order(order: Sequence[int], edges: Sequence[Edge], needs: Needs) -> tuple[tuple[int, int], ...]:
    """An order with the cycles that it takes, or nothing where an edge runs against it."""
    place = {op: at for at, op in enumerate(order)}
    if any(place[edge.source] >= place[edge.target] for edge in edges):
        return ()
    table = Table(needs, None)
    earliest = [0] * len(order)
    placed: list[tuple[int, int]] = []
    before: list[list[Edge]] = [[] for _ in order]
    for edge in edges:
        before[edge.target].append(edge)
    now = 0
    for op in order:
        now = max([now, *(earliest[edge.source] + edge.latency for edge in before[op])])
        while not table.fits(op, now):
            now += 1
        table.place(op, now)
        earliest[op] = now
        placed.append((op, now))
    return tuple(placed)


def _greedy(edges: Sequence[Edge], needs: Needs, key: Sequence[tuple[float, ...]]) -> tuple[tuple[int, int], ...]:
    """Cycle by cycle, of the ops that may issue the one with the largest key that fits."""
    count = len(needs.kind_of)
    after: list[list[Edge]] = [[] for _ in range(count)]
    waiting = [0] * count
    for edge in edges:
        after[edge.source].append(edge)
        waiting[edge.target] += 1
    table = Table(needs, None)
    earliest = [0] * count
    by_rank = sorted(range(count), key=lambda op: key[op], reverse=True)
    rank = {op: number for number, op in enumerate(by_rank)}
    ready = sorted(rank[op] for op in range(count) if not waiting[op])
    placed: list[tuple[int, int]] = []
    now = 0
    refused = set[int]()  # kinds of which none fits in this cycle any more
    while ready:
        found = None
        for at, number in enumerate(ready):
            op = by_rank[number]
            kind = needs.kind_of[op]
            if earliest[op] <= now and kind not in refused:
                if table.fits(op, now):
                    found = op
                    del ready[at]
                    break
                refused.add(kind)
        if found is None:
            now += 1
            refused.clear()
            continue
        table.place(found, now)
        placed.append((found, now))
        for edge in after[found]:
            earliest[edge.target] = max(earliest[edge.target], now + edge.latency)
            waiting[edge.target] -= 1
            if not waiting[edge.target]:
                insort(ready, rank[edge.target])
    return tuple(placed)
