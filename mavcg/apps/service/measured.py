"""Periodic tasks of a loaded application, with times measured on this machine, and what a run of them showed."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mavcg.apps.application_file import ApplicationFile
from mavcg.apps.library import build_application
from mavcg.apps.service.modelled import sections_of, task_of
from mavcg.apps.service.periodic_keys import Periodic
from mavcg.apps.service.periodic_task import PeriodicTask, TaskStage
from mavcg.apps.service.periods_note import library_periods
from mavcg.apps.service.simulator import PeriodicJob, ScheduleSlice, SimulatedSchedule
from mavcg.files.scratch import scratch_folder
from mavcg.model.model_request import ModelRequest
from mavcg.runtime.application import LoadedApplication, load_application
from mavcg.runtime.random_inputs import random_inputs
from mavcg.runtime.service import AcceleratedNetwork, PeriodicNetwork, ServedJob
from mavcg.runtime.timed_runs import time_runs

CPU = "cpu"  # the processor that all networks of a library share
_LEAST_PERIOD_NS, _SECONDS = 500_000, 3.0  # of the runs that are measured


@dataclass(frozen=True)
class MeasuredTimes:
    """Worst times of a network in `runs` runs, in ns: of a run, of a section, and from a release to its notice."""

    runs: int
    run_ns: int
    section_ns: int
    notice_ns: int


def measure_times(
    application: LoadedApplication,
    priorities: Mapping[str, int],
    seconds: float,
    accelerated: Sequence[AcceleratedNetwork] = (),
) -> dict[str, MeasuredTimes]:
    """Run the networks for some seconds, in turns so that each finds the others' data in the caches, and time them.

    Nothing is preempted meanwhile, and half of the time or more is idle. accelerated: programs that run, too; notices
    are then those of as many seconds without them, because the jobs of programs do not tell when the CPU is idle.
    """
    inputs = {name: random_inputs(application[name], 0) for name in priorities}
    alone_ms = sum(min(time_runs(lambda n=n, a=a: application[n].run(*a), 1, 3, 0).ms) for n, a in inputs.items())  # type: ignore[misc]
    period = max(_LEAST_PERIOD_NS, round(2e6 * alone_ms))
    networks = [
        PeriodicNetwork(name, period, 1_000_000 * period, priority, False, inputs[name])
        for name, priority in priorities.items()
    ]
    jobs = application.serve(networks, seconds, accelerated)
    notice = _notice_ns(application.serve(networks, seconds) if accelerated else jobs)
    return {
        name: MeasuredTimes(
            len(own),
            max(job.end_ns - job.begin_ns for job in own),
            max(job.longest_section_ns for job in own),
            notice,
        )
        for name in priorities
        for own in [[job for job in jobs if job.network == name]]
    }


def _notice_ns(jobs: Sequence[ServedJob]) -> int:
    """Return the longest time from a release to the begin of its job while no other job ran, in ns."""
    longest, free = 0, 0
    for job in sorted(jobs, key=lambda each: each.begin_ns):
        if free <= job.release_ns:
            longest = max(longest, job.begin_ns - job.release_ns)
        free = job.end_ns
    return longest


def measured_tasks(
    periods: Mapping[str, Periodic], times: Mapping[str, MeasuredTimes], margin: float
) -> tuple[PeriodicTask, ...]:
    """Return the networks as tasks of one processor. margin: fraction added to all times.

    A run is cut into sections as long as the longest one that was measured, and a last one of the rest.
    """
    tasks = []
    for name, periodic in periods.items():
        own = times[name]
        count, rest = divmod(own.run_ns, max(1, own.section_ns))
        sections = [float(own.section_ns)] * count + [float(rest)] * (rest > 0)
        task = task_of(name, periodic, (TaskStage(CPU, sections_of(sections, periodic, margin)),))
        tasks.append(PeriodicTask(**{**vars(task), "jitter_ns": round(own.notice_ns * (1 + margin))}))
    return tuple(tasks)


def built_tasks(
    file: ApplicationFile, request: ModelRequest, margin: float, progress: Callable[[str], None]
) -> tuple[PeriodicTask, ...]:
    """Build an application for this machine, and return its networks as tasks with times measured in its library.

    request: as of build_application, for this machine; its threads run each network. Raises: MavcgError as
    build_application.
    """
    with scratch_folder("mavcg-service-") as folder:
        library = Path(folder) / "libservice.so"
        build_application(file, replace(request, output=library), progress)
        periods = library_periods(library)
        with load_application(library, threads=max(1, request.threads)) as application:
            progress("timing the networks")
            times = measure_times(application, {name: own.priority for name, own in periods.items()}, _SECONDS)
    return measured_tasks(periods, times, margin)


def served_schedule(periods: Mapping[str, Periodic], jobs: Sequence[ServedJob]) -> SimulatedSchedule:
    """Return the schedule of a run: a job's slices are its time without that of the jobs that preempted it."""
    made = tuple(
        PeriodicJob(
            job.network,
            job.number,
            job.release_ns,
            job.release_ns + periods[job.network].deadline_ns,
            None if job.skipped else job.begin_ns,
            None if job.skipped else job.end_ns,
        )
        for job in sorted(jobs, key=lambda each: each.release_ns)
    )
    return SimulatedSchedule(_slices(jobs), made)


def _slices(jobs: Sequence[ServedJob]) -> tuple[ScheduleSlice, ...]:
    """Return when each job ran: from its begin to its end, without the time of the jobs that preempted it."""
    edges = sorted(
        [(job.begin_ns, 1, job) for job in jobs if not job.skipped]
        + [(job.end_ns, 0, job) for job in jobs if not job.skipped],
        key=lambda edge: edge[:2],
    )
    slices, running, since = [], list[ServedJob](), 0
    for now, begins, job in edges:
        if running and now > since:
            slices.append(ScheduleSlice(CPU, running[-1].network, running[-1].number, 0, since, now))
        if begins:
            running.append(job)
        else:
            running.remove(job)
        since = now
    return tuple(slices)


def own_times_ns(jobs: Sequence[ServedJob]) -> dict[tuple[str, int], int]:
    """Return the time of each job that ran, by network and number, in ns: without that of jobs that preempted it."""
    times = dict[tuple[str, int], int]()
    for part in _slices(jobs):
        key = (part.task, part.job)
        times[key] = times.get(key, 0) + part.end_ns - part.begin_ns
    return times


def counted_jobs(task: PeriodicTask, jobs: Sequence[ServedJob]) -> dict[str, Any]:
    """Return how many of a task's jobs were kept, late and skipped in a run, and their responses in ms."""
    own = [job for job in jobs if job.network == task.name]
    ran = [job.end_ns - job.release_ns for job in own if not job.skipped]
    late = sum(response > task.deadline_ns for response in ran)
    return {
        "name": task.name,
        "jobs": len(own),
        "kept": len(ran) - late,
        "late": late,
        "skipped": len(own) - len(ran),
        "worst_response_ms": max(ran, default=0) / 1e6,
        "median_response_ms": statistics.median(ran) / 1e6 if ran else 0.0,
    }


def served_json(
    tasks: Sequence[PeriodicTask], jobs: Sequence[ServedJob], times: Mapping[str, MeasuredTimes]
) -> list[dict[str, Any]]:
    """Return what a run showed of each network: jobs kept, late and skipped, and responses in ms.

    tasks: by which the networks were admitted; of the library. worst_run_ms: of the jobs, without those that preempted
    them. beyond_times: number of jobs that took longer than the tasks have it, so that the bounds need not hold. Beside
    networks on accelerators, whose parts are not known one by one, both are of jobs that nothing preempted.
    """
    names = {task.name for task in tasks}
    whole = [job for job in jobs if job.network in names]
    beside = len(whole) < len(jobs)
    rows, run_ns = [], own_times_ns(whole)
    for task in tasks:
        runs = [
            run_ns[(job.network, job.number)]
            for job in whole
            if job.network == task.name and not job.skipped and not (beside and job.preemptions)
        ]
        own = [job for job in whole if job.network == task.name]
        measured = times[task.name]
        rows.append(
            {
                **counted_jobs(task, jobs),
                "worst_run_ms": max(runs, default=0) / 1e6,
                "beyond_times": sum(own_ns > task.total_ns for own_ns in runs),
                "preemptions": sum(job.preemptions for job in own),
                "measured": {
                    "runs": measured.runs,
                    "worst_run_ms": measured.run_ns / 1e6,
                    "worst_section_ms": measured.section_ns / 1e6,
                    "worst_notice_ms": measured.notice_ns / 1e6,
                },
            }
        )
    return rows
