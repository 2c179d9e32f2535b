"""The cheapest choice within a memory limit: branch and bound over PBQP instances.

A pair of alternatives on an edge that needs too much memory by itself gets an infinite cost; for nodes that read one
image this is all. If nodes read several images, all of which may be converted, the optimum that ignores this is tried:
a node that exceeds the limit is branched on, until an optimum keeps to it.
"""

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from mavcg.choose.algorithms.choice import Alternative, MemoryLimit, Problem, instance_of
from mavcg.choose.limits.arena_need import ArenaStep, copies_of, need_at, steps_of, workspace_of
from mavcg.choose.pbqp import Infeasible, Instance, Solution, make_instance, solve
from mavcg.errors import MavcgError
from mavcg.specs.primitive import Layout

Allowed = Mapping[str, tuple[int, ...]]
# Fraction of the time limit for a first choice within the memory limit; least seconds for a bound.
_FIRST_SHARE, _LEAST_S = 0.25, 0.1
_MOST_COPIES = 2  # copies of an image that are live at once, whatever the number of conversions


@dataclass(frozen=True)
class LimitedChoice:
    """Result of `solve_within`.

    choice: number of the alternative by node. lower_bound: cost that no choice within the limit can undercut.
    """

    choice: Mapping[str, int]
    cost: float
    lower_bound: float
    optimal: bool
    seconds: float


@dataclass(frozen=True)
class _Forbidden:
    """Choices that need too much memory.

    alone: mask of alternatives by node. pairs: mask [alternatives of the source, of the target] by link.
    """

    alone: Mapping[str, NDArray[np.bool_]]
    pairs: Mapping[int, NDArray[np.bool_]]


@dataclass(frozen=True)
class _Limited:
    """A selection problem with the alternatives and pairs that exceed its memory limit.

    plain: those that exceed the limit whatever else is chosen; without them, all choices within the limit remain.
    cautious: those that exceed it if all other images that the node reads are converted; without them, all remaining
    choices are within the limit.
    """

    problem: Problem
    memory: MemoryLimit
    steps: tuple[ArenaStep, ...]
    plain: _Forbidden
    cautious: _Forbidden

    def instance(self, allowed: Allowed, cautious: bool) -> Instance:
        """Return the PBQP instance without the forbidden alternatives."""
        instance, forbidden = instance_of(self.problem, allowed), self.cautious if cautious else self.plain
        nodes = {name: np.where(forbidden.alone[name], np.inf, costs) for name, costs in instance.nodes.items()}
        edges = [
            replace(edge, costs=np.where(forbidden.pairs[number], np.inf, edge.costs))
            for number, edge in enumerate(instance.edges)
        ]
        return make_instance(nodes, edges)

    def choose(self, choice: Mapping[str, int]) -> dict[str, Alternative]:
        return {name: alternatives[choice[name]] for name, alternatives in self.problem.alternatives.items()}

    def over(self, choice: Mapping[str, int]) -> ArenaStep | None:
        """Return the node that exceeds the limit most, None if none does."""
        chosen = self.choose(choice)
        needs = [(need_at(self.problem, step, chosen), step) for step in self.steps]
        most, step = max(needs, key=lambda pair: pair[0])
        return step if most > self.memory.bytes else None

    def branches(self, step: ArenaStep, choice: Mapping[str, int], allowed: Allowed) -> Iterator[Allowed]:
        """Yield disjoint subsets of the allowed choices; together they are all but those that exceed the limit alike.

        Left out are the choices whose node reads the same layouts, from sources that write the same layouts, and needs
        too much: the given choice and those like it at `step`.
        """
        chosen, links = self.choose(choice), self.problem.network.links
        numbers = [link for read in step.reads for link in read.links]
        current = chosen[step.node]

        def alike(alternative: Alternative) -> bool:
            read = self.problem.layout_read
            same = all(read(links[n], alternative) is read(links[n], current) for n in numbers)
            return same and self._needs(step, chosen, alternative) > self.memory.bytes

        too_much = [i for i, alternative in enumerate(self.problem.alternatives[step.node]) if alike(alternative)]
        yield from self._narrow(allowed, step.node, too_much, False)
        remaining = next(self._narrow(allowed, step.node, too_much, True), None)
        for source in dict.fromkeys(links[number].source for number in numbers):
            if remaining is None:
                return
            written = chosen[source].layout_out
            same = [
                i
                for i, alternative in enumerate(self.problem.alternatives[source])
                if alternative.layout_out is written
            ]
            yield from self._narrow(remaining, source, same, False)
            remaining = next(self._narrow(remaining, source, same, True), None)

    def _needs(self, step: ArenaStep, chosen: Mapping[str, Alternative], alternative: Alternative) -> int:
        return need_at(self.problem, step, {**chosen, step.node: alternative})

    def _narrow(self, allowed: Allowed, node: str, some: list[int], stay: bool) -> Iterator[Allowed]:
        """Yield the allowed alternatives restricted to `some` of a node (stay), or without them.

        Nothing if none is left.
        """
        before = allowed.get(node, tuple(range(len(self.problem.alternatives[node]))))
        remaining = tuple(number for number in before if (number in some) is stay)
        if remaining:
            yield {**allowed, node: remaining}


def _limit(problem: Problem, memory: MemoryLimit) -> _Limited:
    steps = steps_of(problem, memory.block)
    workspaces = {
        step.node: [workspace_of(problem, step.node, alternative) for alternative in problem.alternatives[step.node]]
        for step in steps
    }
    forbidden = []
    for others in (0, _MOST_COPIES):
        alone, pairs = {}, {}
        for step in steps:
            needs = [step.need(lambda _: 0, workspace) for workspace in workspaces[step.node]]
            alone[step.node] = np.array(needs) > memory.bytes
            for link in (link for read in step.reads for link in read.links):
                pairs[link] = _pairs(problem, step, link, workspaces[step.node], others) > memory.bytes
        forbidden.append(_Forbidden(alone, pairs))
    return _Limited(problem, memory, steps, *forbidden)


def _pairs(problem: Problem, step: ArenaStep, link: int, workspaces: list[int], others: int) -> NDArray[np.int64]:
    """Return the bytes needed by [alternatives of the link's source, of its target].

    others: number of copies of each other image that the target reads.
    """
    link_of_image = problem.network.links[link]
    sources = problem.alternatives[link_of_image.source]
    written = {alternative.layout_out: alternative for alternative in sources}
    rows = {layout: number for number, layout in enumerate(written)}
    by_key: dict[tuple[Layout, int], int] = {}
    table: list[list[int]] = []
    columns = []
    for alternative, workspace in zip(problem.alternatives[step.node], workspaces, strict=True):
        key = (problem.layout_read(link_of_image, alternative), workspace)
        if key not in by_key:
            by_key[key] = len(table)
            own = [copies_of(problem, link, source, alternative) for source in written.values()]
            table.append([step.need(_counts(link, count, others), workspace) for count in own])
        columns.append(by_key[key])
    needs = np.array(table).T
    return needs[[rows[alternative.layout_out] for alternative in sources]][:, columns]


def _counts(link: int, own: int, others: int) -> Callable[[int], int]:
    return lambda number: own if number == link else others


def solve_within(problem: Problem, allowed: Allowed | None, time_limit_s: float) -> LimitedChoice:
    """Return the cheapest allowed choice within problem.memory, or the best that was found in the time.

    Raises: Infeasible if no choice is within the limit; MavcgError if time runs out before one is found.
    """
    assert problem.memory is not None
    begin = time.monotonic()
    limited, everything = _limit(problem, problem.memory), allowed or {}
    _verify(limited, everything)
    best = _attempt(limited, everything, True, time_limit_s * _FIRST_SHARE)
    numbers = count()
    queue: list[tuple[float, int, Allowed, Solution]] = []
    floor = np.inf  # least lower bound of the solutions that were found within the limit

    def enqueue(subset: Allowed) -> None:
        remaining_s = max(_LEAST_S, begin + time_limit_s - time.monotonic())
        solution = _attempt(limited, subset, False, remaining_s)
        if solution is not None and (best is None or solution.lower_bound < best.cost):
            heapq.heappush(queue, (solution.lower_bound, next(numbers), subset, solution))

    enqueue(everything)
    while queue and (best is None or queue[0][0] < best.cost) and time.monotonic() - begin < time_limit_s:
        _, _, here, solution = heapq.heappop(queue)
        step = limited.over(solution.choice)
        if step is None:
            floor = min(floor, solution.lower_bound)
            best = solution if best is None or solution.cost < best.cost else best
            continue
        for subset in limited.branches(step, solution.choice, here):
            enqueue(subset)
    if best is None:
        limit = f"memory of {problem.memory.bytes} bytes: "
        if not queue:
            raise Infeasible(f"{limit}no choice keeps to it; raise the limit, or allow more primitives")
        raise MavcgError(f"{limit}no choice that keeps to it was found in {time_limit_s:g} s; raise the time limit")
    bound = min(best.cost, floor, queue[0][0] if queue else np.inf)
    return LimitedChoice(best.choice, best.cost, bound, bound >= best.cost, time.monotonic() - begin)


def _attempt(limited: _Limited, allowed: Allowed, cautious: bool, time_limit_s: float) -> Solution | None:
    try:
        return solve(limited.instance(allowed, cautious), time_limit_s)
    except Infeasible:
        return None


def _verify(limited: _Limited, allowed: Allowed) -> None:
    """Raise Infeasible if a node by itself needs more than the limit with any alternative, naming the worst."""
    most, where = 0, ""
    for step in limited.steps:
        alternatives = limited.problem.alternatives[step.node]
        numbers = allowed.get(step.node, tuple(range(len(alternatives))))
        workspace = min(workspace_of(limited.problem, step.node, alternatives[number]) for number in numbers)
        least = step.need(lambda _: 0, workspace)
        if least > most:
            most, where = least, step.node
    if most > limited.memory.bytes:
        raise Infeasible(
            f"node '{where}': needs at least {most} bytes together with the images live beside it, and the limit is "
            f"{limited.memory.bytes}; raise the limit"
        )
