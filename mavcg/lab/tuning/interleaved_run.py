"""Measures the candidates for the fastest primitive in interleaved runs, on any machine that a runner reaches.

A program has the candidates of several measurements (lab/tuning/interleaved.py). It is run repeatedly, each time
for candidates not yet known to be faster or slower than their base, or whose rank among the faster ones is open. Each
run is a new process, because the addresses of its memory affect the times; at least two processes are run.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.choose.algorithms.costs.provider import Cost
from mavcg.lab.runners.bench_lines import InterleavedTimes, JobFailed
from mavcg.lab.runners.bench_program import BenchProgram
from mavcg.lab.runners.bench_run import BenchOptions, TakenInterleaved, run_interleaved
from mavcg.lab.tuning.interleaved import CandidateGroup, Ratio, costs_of, leaders, ratio_of
from mavcg.lab.tuning.measured_core import ReachedCore, programs
from mavcg.lab.tuning.work_list import Job

LEAST_KEPT = 3  # minimum of undisturbed rounds in a process; with fewer, all rounds count


@dataclass(frozen=True)
class InterleavedOptions:
    """The length of an interleaved measurement.

    rounds: per process. least, most: numbers of processes. jobs: approximate number of jobs in a program.
    """

    rounds: int = 7
    least: int = 2
    most: int = 8
    jobs: int = 32


DEFAULT_INTERLEAVED = InterleavedOptions()


class _Standing:
    """The state of one interleaved measurement: the rounds of all candidates so far."""

    def __init__(self, measurement: CandidateGroup, first: Mapping[Job, Cost]) -> None:
        self.measurement, self.first = measurement, first
        self.base_ms: list[float] = []
        self.ratios: dict[Job, list[float]] = {job: [] for job in measurement.others}
        self.failed: dict[Job, str] = {}
        self.runs: dict[Job, int] = {}
        self.processes = 0

    def open(self, settings: InterleavedOptions) -> list[Job]:
        """Return the candidates that have to be measured again."""
        if self.measurement.base in self.failed or self.processes >= settings.most:
            return []
        left = [job for job in self.ratios if job not in self.failed]
        if self.processes < settings.least:
            return left
        known = {job: ratio_of(self.ratios[job]) for job in left if self.ratios[job]}
        rivals = leaders(known)
        return [job for job in left if job not in known or known[job].open or (len(rivals) > 1 and job in rivals)]

    def take(self, group: Mapping[Job, InterleavedTimes | JobFailed]) -> None:
        """Add the times of a group in a process."""
        self.failed |= {job: result.why for job, result in group.items() if isinstance(result, JobFailed)}
        done = {job: result for job, result in group.items() if isinstance(result, InterleavedTimes)}
        base = done.get(self.measurement.base)
        if base is None:
            return
        for job, times in done.items():
            self.runs[job] = self.runs.get(job, 0) + times.runs
            both = [a or b for a, b in zip(times.lost, base.lost, strict=True)]
            kept = [number for number, lost in enumerate(both) if not lost]
            if len(kept) < LEAST_KEPT:
                kept = list(range(len(both)))
            if job == self.measurement.base:
                self.base_ms += [times.ms[number] for number in kept]
            else:
                self.ratios[job] += [times.ms[number] / base.ms[number] for number in kept]

    def costs(self) -> dict[Job, Cost]:
        """Return the costs of all candidates measured; {} if the base, or all others, could not be measured."""
        measured: dict[Job, Ratio] = {job: ratio_of(ratios) for job, ratios in self.ratios.items() if ratios}
        if not self.base_ms or not measured:
            return {}
        took_part = {self.measurement.base, *measured, *self.measurement.rest}
        measurement = replace(self.measurement, others=tuple(measured))
        first = {job: cost for job, cost in self.first.items() if job in took_part}
        return costs_of(measurement, self.base_ms, measured, first, round(statistics.median(self.runs.values())))


Entry = tuple[CandidateGroup, Mapping[Job, Cost]]
Groups = Sequence[Sequence[int]]
Decided = Callable[[CandidateGroup, dict[Job, Cost], dict[Job, str]], None]


def measure_interleaved(
    measurements: Sequence[Entry],
    reached: ReachedCore,
    folder: Path,
    options: BenchOptions,
    settings: InterleavedOptions,
    decided: Decided,
    at_work: Callable[[CandidateGroup], None] = lambda measurement: None,
    note: Callable[[str], None] = lambda words: None,
) -> int:
    """Run interleaved measurements, each given with the first costs of its jobs; return the largest program's bytes.

    decided: called with each finished measurement, the costs of its scenario's measured jobs, and the failed jobs with
    reasons. at_work: called from time to time with a measurement in progress. An exception from them ends all.
    Raises: RunnerError if the machine fails.
    """
    batches = interleaved_batches(measurements, settings.jobs)
    largest = 0
    with closing(programs(jobs_of(batches), reached, folder)) as made:
        for batch, (order, program) in zip(batches, made, strict=True):
            largest = max(largest, program.bytes)

            def measure(groups: Groups, taker: TakenInterleaved, program: BenchProgram = program) -> None:
                run_interleaved(
                    reached.runner,
                    program,
                    groups,
                    reached.cpus,
                    reached.core,
                    replace(options, rounds=settings.rounds),
                    taker,
                    note,
                )

            settle(batch, order, measure, settings, decided, at_work)
    return largest


def jobs_of(batches: Sequence[Sequence[Entry]]) -> list[list[Job]]:
    """Return the jobs of the program of each batch."""
    return [[job for measurement, _ in batch for job in (measurement.base, *measurement.others)] for batch in batches]


def settle(
    batch: Sequence[Entry],
    order: Sequence[Job],
    measure: Callable[[Groups, TakenInterleaved], None],
    settings: InterleavedOptions,
    decided: Decided,
    at_work: Callable[[CandidateGroup], None],
) -> None:
    """Measure the groups of a program repeatedly until each is decided.

    order: the program's jobs. measure: runs groups in a new process, and passes their results on in order.
    """
    numbers = {job: number for number, job in enumerate(order)}
    standings = [_Standing(measurement, first) for measurement, first in batch]
    at_work(batch[0][0])
    while standings:
        taker = _Taker(standings, numbers, settings, at_work)
        measure(taker.groups, taker)
        for standing in list(standings):
            standing.processes += 1
            if not standing.open(settings):
                decided(standing.measurement, standing.costs(), standing.failed)
                standings.remove(standing)


def interleaved_batches(measurements: Sequence[Entry], most: int) -> list[list[Entry]]:
    """Return the measurements in batches of about `most` jobs."""
    batches: list[list[Entry]] = []
    room = 0
    for entry in measurements:
        size = 1 + len(entry[0].others)
        if size > room:
            batches.append([])
            room = most
        batches[-1].append(entry)
        room -= size
    return batches


class _Taker:
    """Holds the groups of candidates to be measured again; passes each result on to its measurement."""

    def __init__(
        self,
        standings: Sequence[_Standing],
        numbers: Mapping[Job, int],
        settings: InterleavedOptions,
        at_work: Callable[[CandidateGroup], None],
    ) -> None:
        self.order, self.at_work = list(numbers), at_work
        self.recent: list[InterleavedTimes | JobFailed] = []
        self.groups: list[list[int]] = []
        self.of: dict[int, tuple[_Standing, int]] = {}  # by the last job of a group, which is in no other: not the base
        for standing in standings:
            for group in standing.measurement.groups(standing.open(settings)):
                self.groups.append(sorted(numbers[job] for job in group))
                self.of[self.groups[-1][-1]] = standing, len(group)

    def __call__(self, result: InterleavedTimes | JobFailed) -> None:
        self.recent.append(result)
        if result.job in self.of:
            standing, size = self.of[result.job]
            standing.take({self.order[times.job]: times for times in self.recent[-size:]})
            self.at_work(standing.measurement)
