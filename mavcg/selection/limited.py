"""The cheapest choice that keeps to a limit of memory: branch and bound over PBQP instances.

What a pair of alternatives on an edge needs by itself is an infinite cost where it is too much: of nodes that read one
image that is all there is. Where a node reads several, all of which may be converted, an optimum without regard to
this is looked at: a node that takes too much is branched on, until an optimum keeps to the limit.
"""

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from mavcg.errors import MavcgError
from mavcg.selection.arena_need import ArenaStep, copies_of, need_at, steps_of, workspace_of
from mavcg.selection.choice import Alternative, MemoryLimit, Problem, instance_of
from mavcg.selection.pbqp import Infeasible, Instance, Solution, make_instance, solve
from mavcg.specs.primitive import Layout

Allowed = Mapping[str, tuple[int, ...]]
# Of the time, for a first choice that keeps to the limit; of a bound, at least.
_FIRST_SHARE, _LEAST_S = 0.25, 0.1
_MOST_COPIES = 2  # of an image that are alive at once, of however many conversions


@dataclass(frozen=True)
class Kept:
    """choice: by node, the alternative's number. lower_bound: no choice that keeps to the limit costs less."""

    choice: Mapping[str, int]
    cost: float
    lower_bound: float
    optimal: bool
    seconds: float


@dataclass(frozen=True)
class _Forbidden:
    """Choices that need too much memory. alone: alternatives by node; pairs: [of its source, of its target] by link."""

    alone: Mapping[str, NDArray[np.bool_]]
    pairs: Mapping[int, NDArray[np.bool_]]


@dataclass(frozen=True)
class _Limited:
    """plain: forbidden by themselves: every choice within the limit is left. cautious: forbidden if all other images
    that the node reads were converted: nothing is left that does not keep to the limit."""

    problem: Problem
    memory: MemoryLimit
    steps: tuple[ArenaStep, ...]
    plain: _Forbidden
    cautious: _Forbidden

    def instance(self, allowed: Allowed, cautious: bool) -> Instance:
        """The instance without forbidden alternatives."""
        made, forbidden = instance_of(self.problem, allowed), self.cautious if cautious else self.plain
        nodes = {name: np.where(forbidden.alone[name], np.inf, costs) for name, costs in made.nodes.items()}
        edges = [
            replace(edge, costs=np.where(forbidden.pairs[number], np.inf, edge.costs))
            for number, edge in enumerate(made.edges)
        ]
        return make_instance(nodes, edges)

    def choose(self, choice: Mapping[str, int]) -> dict[str, Alternative]:
        return {name: found[choice[name]] for name, found in self.problem.alternatives.items()}

    def over(self, choice: Mapping[str, int]) -> ArenaStep | None:
        """Return the node that takes most beyond the limit, if any does."""
        chosen = self.choose(choice)
        found = [(need_at(self.problem, step, chosen), step) for step in self.steps]
        most, step = max(found, key=lambda each: each[0])
        return step if most > self.memory.bytes else None

    def branches(self, step: ArenaStep, choice: Mapping[str, int], allowed: Allowed) -> Iterator[Allowed]:
        """Yield all choices but those that read the same layouts at this node, from sources that write the same, and
        take too much: no two of these sets have a choice in common."""
        chosen, links = self.choose(choice), self.problem.network.links
        numbers = [link for read in step.reads for link in read.links]
        mine = chosen[step.node]

        def alike(alternative: Alternative) -> bool:
            read = self.problem.layout_read
            same = all(read(links[n], alternative) is read(links[n], mine) for n in numbers)
            return same and self._needs(step, chosen, alternative) > self.memory.bytes

        too_much = [i for i, alternative in enumerate(self.problem.alternatives[step.node]) if alike(alternative)]
        yield from self._narrow(allowed, step.node, too_much, False)
        now = next(self._narrow(allowed, step.node, too_much, True), None)
        for source in dict.fromkeys(links[number].source for number in numbers):
            if now is None:
                return
            written = chosen[source].layout_out
            same = [
                i
                for i, alternative in enumerate(self.problem.alternatives[source])
                if alternative.layout_out is written
            ]
            yield from self._narrow(now, source, same, False)
            now = next(self._narrow(now, source, same, True), None)

    def _needs(self, step: ArenaStep, chosen: Mapping[str, Alternative], alternative: Alternative) -> int:
        return need_at(self.problem, step, {**chosen, step.node: alternative})

    def _narrow(self, allowed: Allowed, node: str, some: list[int], stay: bool) -> Iterator[Allowed]:
        """Return the problem with only these alternatives of a node, or without them; None if none is left."""
        before = allowed.get(node, tuple(range(len(self.problem.alternatives[node]))))
        left = tuple(number for number in before if (number in some) is stay)
        if left:
            yield {**allowed, node: left}


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
    """Return [alternatives of the link's source, of its target]: what they need where other images are copied so
    often."""
    carries = problem.network.links[link]
    sources = problem.alternatives[carries.source]
    written = {alternative.layout_out: alternative for alternative in sources}
    rows = {layout: number for number, layout in enumerate(written)}
    by_key: dict[tuple[Layout, int], int] = {}
    table: list[list[int]] = []
    columns = []
    for alternative, workspace in zip(problem.alternatives[step.node], workspaces, strict=True):
        key = (problem.layout_read(carries, alternative), workspace)
        if key not in by_key:
            by_key[key] = len(table)
            own = [copies_of(problem, link, source, alternative) for source in written.values()]
            table.append([step.need(_counts(link, count, others), workspace) for count in own])
        columns.append(by_key[key])
    needs = np.array(table).T
    return needs[[rows[alternative.layout_out] for alternative in sources]][:, columns]


def _counts(link: int, own: int, others: int) -> Callable[[int], int]:
    return lambda number: own if number == link else others


def solve_within(problem: Problem, allowed: Allowed | None, time_limit_s: float) -> Kept:
    """Return the cheapest choice of what is allowed within problem.memory, or the best that was found in the time.

    Raises: Infeasible where nothing keeps to the limit; MavcgError where time runs out before anything does.
    """
    assert problem.memory is not None
    begin = time.monotonic()
    limited, everything = _limit(problem, problem.memory), allowed or {}
    _verify(limited, everything)
    best = _attempt(limited, everything, True, time_limit_s * _FIRST_SHARE)
    numbers = count()
    queue: list[tuple[float, int, Allowed, Solution]] = []
    floor = np.inf  # of what was looked at without a proof

    def look(there: Allowed) -> None:
        left = max(_LEAST_S, begin + time_limit_s - time.monotonic())
        found = _attempt(limited, there, False, left)
        if found is not None and (best is None or found.lower_bound < best.cost):
            heapq.heappush(queue, (found.lower_bound, next(numbers), there, found))

    look(everything)
    while queue and (best is None or queue[0][0] < best.cost) and time.monotonic() - begin < time_limit_s:
        _, _, here, solution = heapq.heappop(queue)
        step = limited.over(solution.choice)
        if step is None:
            floor = min(floor, solution.lower_bound)
            best = solution if best is None or solution.cost < best.cost else best
            continue
        for there in limited.branches(step, solution.choice, here):
            look(there)
    if best is None:
        words = f"memory of {problem.memory.bytes} bytes: "
        if not queue:
            raise Infeasible(f"{words}no choice keeps to it; allow more, or more primitives")
        raise MavcgError(f"{words}no choice that keeps to it was found in {time_limit_s:g} s; raise the time limit")
    bound = min(best.cost, floor, queue[0][0] if queue else np.inf)
    return Kept(best.choice, best.cost, bound, bound >= best.cost, time.monotonic() - begin)


def _attempt(limited: _Limited, allowed: Allowed, cautious: bool, time_limit_s: float) -> Solution | None:
    try:
        return solve(limited.instance(allowed, cautious), time_limit_s)
    except Infeasible:
        return None


def _verify(limited: _Limited, allowed: Allowed) -> None:
    """Raise Infeasible naming the node that takes most by itself, however it is done, where that is too much."""
    most, where = 0, ""
    for step in limited.steps:
        found = limited.problem.alternatives[step.node]
        numbers = allowed.get(step.node, tuple(range(len(found))))
        workspace = min(workspace_of(limited.problem, step.node, found[number]) for number in numbers)
        least = step.need(lambda _: 0, workspace)
        if least > most:
            most, where = least, step.node
    if most > limited.memory.bytes:
        raise Infeasible(
            f"node '{where}': takes {most} bytes at the least, with what is alive beside it, and the limit is "
            f"{limited.memory.bytes}; allow more"
        )
