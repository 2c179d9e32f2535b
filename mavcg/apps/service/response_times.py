"""Bounds of response times under fixed priorities, with preemption only between sections.

Sources: on one processor, Bril, Lukkien, Verhaegh, "Worst-case response time analysis of real-time tasks under
fixed-priority scheduling with deferred preemption" (Real-Time Systems 42, 2009): all jobs of a level-i active period
count, as later ones may respond later than the first. Stages on several processors: Tindell, Clark, "Holistic
schedulability analysis for distributed hard real-time systems" (1994): a stage's releases vary by the response time of
the stage before. An order of priorities: Audsley, "On priority assignment in fixed priority scheduling" (2001).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.apps.service.periodic_task import PeriodicTask, TaskStage

_MOST_JOBS, _MOST_STEPS = 5_000, 100_000  # of an active period, of fixed points in all; beyond them no bound is given
_MOST_TURNS = 500  # in which the stages of pipelines wait for each other's jitters
_HORIZON = 32  # longest active period, in the longest period or deadline of all tasks

_Jitters = Mapping[tuple[str, int], int | None]  # by task and stage, in ns; None is without bound


@dataclass(frozen=True)
class ResponseBound:
    """The worst response of a task: the time from the release to the end of its last stage, in ns.

    blocking_ns: longest section of a task of lower priority that may delay a stage, of all stages. bound_ns: None if
    there is no bound, as on a processor with too much work.
    """

    task: PeriodicTask
    blocking_ns: int
    bound_ns: int | None

    @property
    def holds(self) -> bool:
        """True if every job ends by its deadline."""
        return self.bound_ns is not None and self.bound_ns <= self.task.deadline_ns


@dataclass(frozen=True)
class _OwnStage:
    """A stage of a task, with its number."""

    task: PeriodicTask
    number: int

    @property
    def key(self) -> tuple[str, int]:
        return self.task.name, self.number

    @property
    def stage(self) -> TaskStage:
        return self.task.stages[self.number]


def response_bounds(tasks: Sequence[PeriodicTask], only: str | None = None) -> tuple[ResponseBound, ...]:
    """Return a bound of each task's response time, for any releases that are at least a period apart.

    only: name of a task; of the others none is returned.
    """
    parts = [_OwnStage(task, number) for task in tasks for number in range(len(task.stages))]
    horizon = _HORIZON * max((max(task.period_ns, task.deadline_ns) for task in tasks), default=1)
    jitters: dict[tuple[str, int], int | None] = {p.key: 0 if p.number else p.task.jitter_ns for p in parts}
    ends: dict[tuple[str, int], int | None] = {}
    alone = [part for part in parts if only in (None, part.task.name) or any(len(task.stages) > 1 for task in tasks)]
    steps = iter(range(_MOST_STEPS * len(parts)))
    for turn in range(_MOST_TURNS):
        ends = {part.key: _response(part, parts, jitters, horizon, steps) for part in alone}
        later = {
            part.key: ends[(part.task.name, part.number - 1)] if part.number else part.task.jitter_ns for part in parts
        }  # a stage is released between the task's release and the latest end of the stage before
        if later == jitters:
            break
        if turn == _MOST_TURNS - 1:
            ends = dict.fromkeys(ends, None)
        jitters = later
    return tuple(
        ResponseBound(
            task,
            max(_blocking(_OwnStage(task, number), parts) for number in range(len(task.stages))),
            ends[(task.name, len(task.stages) - 1)],
        )
        for task in tasks
        if only in (None, task.name)
    )


def feasible_priorities(tasks: Sequence[PeriodicTask]) -> tuple[str, ...] | None:
    """Return an order of the tasks' names, most urgent first, in which all deadlines hold, or None if there is none.

    Audsley's algorithm: whether a deadline holds at a level depends on which tasks are above, not on their order. It is
    exact for tasks of one stage; with several, another order may exist.
    """
    open_, order = list(tasks), list[str]()
    while open_:
        for task in sorted(open_, key=lambda each: -each.deadline_ns):
            ranked = [replace(other, priority=2) for other in open_ if other != task]
            below = [replace(each, priority=-level) for level, each in enumerate(tasks) if each not in open_]
            level = [_with_own_priorities(ranked), [replace(task, priority=1)], below]
            (bound,) = response_bounds([each for group in level for each in group], task.name)
            if bound.holds:
                order.insert(0, task.name)
                open_.remove(task)
                break
        else:
            return None
    return tuple(order)


def _with_own_priorities(tasks: Sequence[PeriodicTask]) -> list[PeriodicTask]:
    """Return the tasks with priorities of their own, from 2 on."""
    return [replace(task, priority=2 + number) for number, task in enumerate(tasks)]


def _higher(part: _OwnStage, parts: Sequence[_OwnStage]) -> list[_OwnStage]:
    """Return the parts that a part waits for: of more urgent tasks, and the task's others, on the same processor."""
    return [
        other
        for other in parts
        if other.key != part.key
        and other.stage.processor == part.stage.processor
        and other.task.priority >= part.task.priority
    ]


def _blocking(part: _OwnStage, parts: Sequence[_OwnStage]) -> int:
    """Return the longest section of a less urgent task on the part's processor, in ns; 0 if there is none."""
    return max(
        (
            max(other.stage.sections)
            for other in parts
            if other.stage.processor == part.stage.processor and other.task.priority < part.task.priority
        ),
        default=0,
    )


def _response(
    part: _OwnStage, parts: Sequence[_OwnStage], jitters: _Jitters, horizon: int, steps: Iterator[int]
) -> int | None:
    """Return a bound of the time from the task's release to the end of this part, in ns. steps: left for all parts."""
    higher, blocking = _higher(part, parts), _blocking(part, parts)
    jitter, period, total = jitters[part.key], part.task.period_ns, part.stage.total_ns
    known = [(other.stage.total_ns, other.task.period_ns, jitters[other.key]) for other in higher]
    others = [(work, every, late) for work, every, late in known if late is not None]
    if jitter is None or len(others) < len(known):
        return None
    active = _fixed_point(blocking, [*others, (total, period, jitter)], 0, horizon, steps)
    if active is None or -(-(active + jitter) // period) > _MOST_JOBS:
        return None
    worst, last = 0, part.stage.sections[-1]
    for job in range(-(-(active + jitter) // period)):
        begin = _fixed_point(blocking + (job + 1) * total - last, others, 1, horizon + (job + 1) * total, steps)
        if begin is None:
            return None
        worst = max(worst, begin + last - job * period + jitter)
    return worst


def _fixed_point(
    own: int, others: Sequence[tuple[int, int, int]], closed: int, horizon: int, steps: Iterator[int]
) -> int | None:
    """Return the least time t with t = own + the work that others (work, period, jitter) release in it, or None.

    closed: 1 to count releases at t itself, which delay what begins at t; 0 for those before it.
    """
    time = max(1 - closed, own)
    for _ in steps:
        if closed:
            after = own + sum(work * ((time + late) // every + 1) for work, every, late in others)
        else:
            after = own + sum(work * -(-(time + late) // every) for work, every, late in others)
        if after == time:
            return time
        if after > horizon:
            return None
        time = after
    return None
