"""Finds the critical recurrence of a loop: the cycle of dependences with the largest latency per iteration (RecMII)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mavcg.hardware.timing import Timing
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.models.issue_constraints import Dependence, op_dependences


@dataclass(frozen=True)
class CycleBound:
    """A lower bound on the cycles per iteration.

    kind: "dispatch", "units" or "recurrence". ops: indices into the body of the ops that cause it. why: the cause, as
    text for a message.
    """

    kind: str
    cycles: Fraction
    ops: tuple[int, ...]
    why: str


def critical_recurrence(ops: Sequence[Op], timing: Timing) -> CycleBound:
    """Return the exact bound by the recurrence with the largest ratio of latency to iterations spanned.

    Algorithm: raise a guess to the ratio of any recurrence that exceeds it, until none does.
    Source: Lawler, "Combinatorial Optimization" (1976), minimum ratio cycles.
    """
    edges = _result_edges(ops, timing)
    best = Fraction(0)
    around: list[tuple[int, int, Dependence]] = []
    while (larger := _larger_recurrence(2 * len(ops), edges, best)) is not None:
        around = larger
        best = Fraction(sum(edge[2].cycles for edge in around), sum(edge[2].distance for edge in around))
    if not around:
        return CycleBound("recurrence", best, (), "no result feeds the next iteration")
    start = min(range(len(around)), key=lambda number: around[number][0])
    around = around[start:] + around[:start]
    steps = [f"{after.register} from `{ops[source % len(ops)].text}` ({after.cycles})" for source, _, after in around]
    shown = steps if len(steps) <= 4 else [*steps[:3], f"{len(steps) - 3} more"]
    rounds = sum(after.distance for *_, after in around)
    why = f"{', '.join(shown)}: around once in {rounds} iteration{'s' if rounds > 1 else ''}"
    return CycleBound("recurrence", best, tuple(source % len(ops) for source, *_ in around), why)


def _result_edges(ops: Sequence[Op], timing: Timing) -> list[tuple[int, int, Dependence]]:
    """Return (source, target, dependence) from results to their readers; node len(ops) + i is op i's address update.

    The update is a separate node because an out-of-order core computes the new address as soon as the old one is ready,
    without waiting for the data of a store.
    """
    count = len(ops)
    edges = []
    for index, waits in enumerate(op_dependences(ops, timing)):
        for after in waits:
            if after.kind != "register":
                continue
            source = after.source + (count if after.register == ops[after.source].writeback else 0)
            edges.append((source, index, after))
            if after.register == ops[index].writeback:
                edges.append((source, count + index, after))
    return edges


def _larger_recurrence(
    count: int, edges: Sequence[tuple[int, int, Dependence]], ratio: Fraction
) -> list[tuple[int, int, Dependence]] | None:
    """Return a recurrence with more latency per iteration than `ratio`, or None.

    Longest paths with edge weights latency - ratio * distance converge unless there is such a recurrence.
    """
    weights = [edge[2].cycles * ratio.denominator - edge[2].distance * ratio.numerator for edge in edges]
    longest = [0] * count
    longest_by: list[int | None] = [None] * count  # index of the edge that set the longest path
    for _ in range(count + 1):
        changed = False
        for number, (source, target, _after) in enumerate(edges):
            if longest[source] + weights[number] > longest[target]:
                longest[target] = longest[source] + weights[number]
                longest_by[target] = number
                changed = True
        if not changed:
            return None
        if (around := _recurrence_in(longest_by, edges)) is not None:
            return around
    raise AssertionError("longest paths neither converged nor formed a cycle")


def _recurrence_in(
    longest_by: list[int | None], edges: Sequence[tuple[int, int, Dependence]]
) -> list[tuple[int, int, Dependence]] | None:
    """Return a cycle among the edges that set the longest paths, or None; such a cycle has positive weight."""
    seen = [0] * len(longest_by)  # number of the walk that visited each node
    for start in range(len(longest_by)):
        node = start
        while seen[node] == 0 and (edge := longest_by[node]) is not None:
            seen[node] = start + 1
            node = edges[edge][0]
        if seen[node] == start + 1 and longest_by[node] is not None:
            around: list[tuple[int, int, Dependence]] = []
            first = node
            while not around or node != first:
                edge = longest_by[node]
                assert edge is not None
                around.append(edges[edge])
                node = edges[edge][0]
            return around[::-1]
    return None
