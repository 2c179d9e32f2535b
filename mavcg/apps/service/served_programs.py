"""Programs of accelerators in a service: opened, timed, and as periodic tasks of parts on the CPU and segments."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from mavcg.apps.service.periodic_task import PeriodicTask, TaskStage
from mavcg.apps.service.program_entry import AcceleratedEntry
from mavcg.errors import MavcgError
from mavcg.graph import Array
from mavcg.runtime.accelerated import AcceleratedProgram
from mavcg.runtime.application import LoadedApplication
from mavcg.runtime.service import AcceleratedNetwork, PeriodicNetwork

_MOST_RUNS, _LEAST_RUNS = 30, 3  # in which a program is timed; simulating a device takes long


@dataclass(frozen=True)
class PartTimes:
    """Worst times of a program's parts on the CPU, in `runs` runs, and of its segments on the accelerator, in ns."""

    runs: int
    parts_ns: tuple[int, ...]
    segments_ns: tuple[int, ...]


@contextmanager
def opened_programs(
    entries: Sequence[AcceleratedEntry], host: Path | None, threads: int
) -> Iterator[tuple[AcceleratedNetwork, ...]]:
    """Yield the programs on simulated devices, with random inputs.

    host: library of `mavcg accel host --library`. threads: of their CPU parts. Raises: MavcgError if it is missing, and
    for programs that cannot be opened.
    """
    if entries and host is None:
        raise MavcgError(
            f"network '{entries[0].name}' has a program for an accelerator: give --accelerator-host LIB.so, which "
            "mavcg accel host --library makes"
        )
    names = list(dict.fromkeys(entry.accelerator for entry in entries))
    with ExitStack() as stack:
        made = list[AcceleratedNetwork]()
        for entry in entries:
            assert host is not None
            program = stack.enter_context(AcceleratedProgram(host, entry.program, entry.slots, max(1, threads)))
            own = entry.periodic
            jobs = PeriodicNetwork(
                entry.name, own.period_ns, own.deadline_ns, own.priority, False, _random_inputs(program)
            )
            made.append(AcceleratedNetwork(program, names.index(entry.accelerator), jobs))
        yield tuple(made)


def _random_inputs(program: AcceleratedProgram) -> list[Array]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(np.float32) for shape in program.inputs]


def timed_programs(
    application: LoadedApplication, accelerated: Sequence[AcceleratedNetwork], seconds: float
) -> tuple[AcceleratedNetwork, ...]:
    """Return the programs with periods that fit 3 to 30 runs into `seconds`, by the duration of a first run."""
    timed = []
    for own in accelerated:
        begin = perf_counter_ns()
        application.serve([], 1e-9, [replace(own, jobs=replace(own.jobs, period_ns=1, deadline_ns=10**15))])
        own.program.take_part_ns()  # the first run's are those of cold memory
        runs = min(_MOST_RUNS, max(_LEAST_RUNS, round(seconds * 1e9 / (perf_counter_ns() - begin))))
        period = max(1, round(seconds * 1e9 / runs))
        timed.append(replace(own, jobs=replace(own.jobs, period_ns=period, deadline_ns=10**15)))
    return tuple(timed)


def part_times(accelerated: Sequence[AcceleratedNetwork], seconds: float) -> dict[str, PartTimes]:
    """Return the times of programs that were served for `seconds`, by name."""
    return {
        own.jobs.name: PartTimes(
            -(-round(seconds * 1e9) // own.jobs.period_ns), own.program.take_part_ns(), own.program.segment_ns
        )
        for own in accelerated
    }


def program_tasks(
    entries: Sequence[AcceleratedEntry], times: Mapping[str, PartTimes], notice_ns: int, margin: float, cpu: str
) -> tuple[PeriodicTask, ...]:
    """Return programs as tasks: parts on the CPU, and segments on the accelerator between them.

    notice_ns: longest time until an idle CPU notices a release or the end of a segment. margin: fraction added to
    measured times. A segment's simulated time has none, because the simulated device takes exactly this time.
    """
    tasks = []
    for entry in entries:
        own, notice = times[entry.name], round(notice_ns * (1 + margin))
        stages = list[TaskStage]()
        for number, part in enumerate(own.parts_ns):
            worst = max(1, round(part * (1 + margin))) + (notice if number else 0)
            stages.append(TaskStage(cpu, (worst,)))
            if number < len(own.segments_ns):
                stages.append(TaskStage(entry.accelerator, (max(1, own.segments_ns[number]),)))
        periodic = entry.periodic
        tasks.append(
            PeriodicTask(entry.name, periodic.period_ns, periodic.deadline_ns, periodic.priority, tuple(stages), notice)
        )
    return tuple(tasks)


def beyond_parts(task: PeriodicTask, parts_ns: Sequence[int]) -> int:
    """Return how many parts of a program took longer on the CPU than its task has it. parts_ns: longest of each."""
    return sum(part > stage.total_ns for part, stage in zip(parts_ns, task.stages[::2], strict=True))


def measured_parts_json(times: PartTimes, notice_ns: int) -> dict[str, Any]:
    """Return `measured` of a program in the document of `app serve`; times in ms."""
    return {
        "runs": times.runs,
        "worst_parts_ms": [ns / 1e6 for ns in times.parts_ns],
        "segments_ms": [ns / 1e6 for ns in times.segments_ns],
        "worst_notice_ms": notice_ns / 1e6,
    }
