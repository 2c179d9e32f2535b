"""Periodic tasks: a network that is released once in each period, as stages of sections that are not preempted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskStage:
    """The part of a task that runs on one processor.

    processor: its name. sections: worst-case times in ns, each at least 1, in order; a section runs to its end, and
    between two of them the stage may be preempted.
    """

    processor: str
    sections: tuple[int, ...]

    @property
    def total_ns(self) -> int:
        """Return the worst-case time of the whole stage, in ns."""
        return sum(self.sections)


@dataclass(frozen=True)
class PeriodicTask:
    """A network that is released once in each period, and runs its stages one after the other.

    deadline_ns: after the release. priority: of all stages; a larger number is more urgent, and no two tasks have the
    same. jitter_ns: longest time from a release to its notice by the scheduler.
    """

    name: str
    period_ns: int
    deadline_ns: int
    priority: int
    stages: tuple[TaskStage, ...]
    jitter_ns: int = 0

    @property
    def total_ns(self) -> int:
        """Return the worst-case time of all stages without any other task, in ns."""
        return sum(stage.total_ns for stage in self.stages)


def utilisation(tasks: tuple[PeriodicTask, ...]) -> dict[str, float]:
    """Return the fraction of each processor's time that all tasks take together in the worst case."""
    fractions = dict.fromkeys((stage.processor for task in tasks for stage in task.stages), 0.0)
    for task in tasks:
        for stage in task.stages:
            fractions[stage.processor] += stage.total_ns / task.period_ns
    return fractions
