"""Simulator of schedules: periodic tasks under fixed priorities, which are preempted only between sections.

At each boundary the most urgent job that is released runs on; jobs of a task run in order; a job that has not begun at
its deadline is skipped, as its result would be late.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mavcg.apps.service.periodic_task import PeriodicTask

Durations = Callable[[str, int, int], Sequence[int]]  # of a task's job and stage: ns of its sections


@dataclass(frozen=True)
class ScheduleSlice:
    """Sections of a job that ran one after the other on a processor, from begin_ns to end_ns."""

    processor: str
    task: str
    job: int
    stage: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class PeriodicJob:
    """A release of a task. begin_ns, end_ns: None for a job that was skipped. deadline_ns: on the same axis."""

    task: str
    number: int
    release_ns: int
    deadline_ns: int
    begin_ns: int | None
    end_ns: int | None

    @property
    def kept(self) -> bool:
        """True if the job ended by its deadline."""
        return self.end_ns is not None and self.end_ns <= self.deadline_ns

    @property
    def response_ns(self) -> int | None:
        """Return the time from release to end, in ns."""
        return None if self.end_ns is None else self.end_ns - self.release_ns


@dataclass(frozen=True)
class SimulatedSchedule:
    """A simulated schedule: slices by their begin, and jobs by their release, then priority."""

    slices: tuple[ScheduleSlice, ...]
    jobs: tuple[PeriodicJob, ...]

    def worst_ns(self, task: str) -> int:
        """Return the longest response of a task's jobs, in ns; 0 if none ended."""
        return max((job.response_ns or 0 for job in self.jobs if job.task == task), default=0)


class _StartedJob:
    """A job in the simulation: the stage and section that are next."""

    def __init__(self, task: PeriodicTask, number: int, release_ns: int) -> None:
        self.task, self.number, self.release_ns = task, number, release_ns
        self.stage = self.section = 0
        self.begin_ns: int | None = None
        self.end_ns: int | None = None
        self.sections: Sequence[int] = ()

    @property
    def deadline_ns(self) -> int:
        return self.release_ns + self.task.deadline_ns

    @property
    def rank(self) -> tuple[int, int, int]:
        """Key of the order in which jobs run: priority, then number, then stage."""
        return -self.task.priority, self.number, self.stage


class _ScheduleState:
    def __init__(self, tasks: Sequence[PeriodicTask], durations: Durations | None) -> None:
        self.durations = durations
        self.processors = list(dict.fromkeys(stage.processor for task in tasks for stage in task.stages))
        self.ready: dict[str, list[tuple[tuple[int, int, int], _StartedJob]]] = {name: [] for name in self.processors}
        self.busy: dict[str, _StartedJob] = {}
        self.slices: list[ScheduleSlice] = []
        self.last: dict[str, int] = {}  # a processor's newest slice
        self.jobs: list[_StartedJob] = []

    def make_ready(self, job: _StartedJob) -> None:
        processor = job.task.stages[job.stage].processor
        heapq.heappush(self.ready[processor], (job.rank, job))

    def dispatch(self, processor: str, now: int) -> int | None:
        """Begin a section of the most urgent job of a free processor; returns its end in ns, or None."""
        ready = self.ready[processor]
        while ready:
            _, job = heapq.heappop(ready)
            if job.begin_ns is None and job.deadline_ns <= now:
                continue  # skipped
            if job.begin_ns is None:
                job.begin_ns = now
            if job.section == 0:
                worst = job.task.stages[job.stage].sections
                job.sections = self.durations(job.task.name, job.number, job.stage) if self.durations else worst
            end = now + job.sections[job.section]
            self._note(processor, job, now, end)
            self.busy[processor] = job
            return end
        return None

    def _note(self, processor: str, job: _StartedJob, begin: int, end: int) -> None:
        number = self.last.get(processor)
        if number is not None:
            before = self.slices[number]
            if before.end_ns == begin and (before.task, before.job, before.stage) == (
                job.task.name,
                job.number,
                job.stage,
            ):
                self.slices[number] = ScheduleSlice(
                    processor, before.task, before.job, before.stage, before.begin_ns, end
                )
                return
        self.last[processor] = len(self.slices)
        self.slices.append(ScheduleSlice(processor, job.task.name, job.number, job.stage, begin, end))

    def end_section(self, processor: str, now: int) -> None:
        job = self.busy.pop(processor)
        job.section += 1
        if job.section == len(job.sections):
            job.stage, job.section = job.stage + 1, 0
        if job.stage == len(job.task.stages):
            job.end_ns = now
        else:
            self.make_ready(job)


def simulate(
    tasks: Sequence[PeriodicTask],
    until_ns: int,
    offsets: Mapping[str, int] | None = None,
    durations: Durations | None = None,
) -> SimulatedSchedule:
    """Simulate the jobs that are released before until_ns, to their ends.

    offsets: first release of each task in ns; 0 where it is missing. durations: of the sections of each job, at least 1
    ns each; without it, the worst-case ones.
    """
    simulation, offsets = _ScheduleState(tasks, durations), offsets or {}
    ordered = sorted(tasks, key=lambda task: -task.priority)
    events: list[tuple[int, int, int, str]] = []  # time, 0 for an end and 1 for a release, task, processor
    for number, task in enumerate(ordered):
        if offsets.get(task.name, 0) < until_ns:
            heapq.heappush(events, (offsets.get(task.name, 0), 1, number, ""))
    counts = [0] * len(ordered)
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, is_release, number, processor = heapq.heappop(events)
            if not is_release:
                simulation.end_section(processor, now)
                continue
            task = ordered[number]
            job = _StartedJob(task, counts[number], now)
            counts[number] += 1
            simulation.jobs.append(job)
            simulation.make_ready(job)
            if now + task.period_ns < until_ns:
                heapq.heappush(events, (now + task.period_ns, 1, number, ""))
        for processor in simulation.processors:
            if processor not in simulation.busy:
                end = simulation.dispatch(processor, now)
                if end is not None:
                    heapq.heappush(events, (end, 0, 0, processor))
    jobs = tuple(
        PeriodicJob(job.task.name, job.number, job.release_ns, job.deadline_ns, job.begin_ns, job.end_ns)
        for job in simulation.jobs
    )
    return SimulatedSchedule(tuple(sorted(simulation.slices, key=lambda each: each.begin_ns)), jobs)
