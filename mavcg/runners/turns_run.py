"""Contests (selection/contest.py) on any machine that a runner reaches: who may be the fastest takes turns.

A program of some contests is run again and again, each time for those alone of which it is not decided yet whether they
are faster or slower than their base, or which of those that are faster is the fastest. Each run is a process of its
own, since where a process has its memory makes a difference as well, and two at least count.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.runners.bench_lines import JobFailed, Turns
from mavcg.runners.bench_run import BenchOptions, run_turns
from mavcg.runners.spot import Spot, programs
from mavcg.selection.contest import Contest, Ratio, costs_of, leaders, ratio_of
from mavcg.selection.costs import Cost
from mavcg.selection.tuning import Job

LEAST_KEPT = 3  # rounds of a process in which nobody lost the core: else all of them count


@dataclass(frozen=True)
class TurnOptions:
    """How long a contest is. rounds: of a process; least, most: processes; jobs: of a program, about."""

    rounds: int = 7
    least: int = 2
    most: int = 8
    jobs: int = 32


TURNS = TurnOptions()


class _Standing:
    """Of one contest so far: rounds in turns of all that take part."""

    def __init__(self, contest: Contest, first: Mapping[Job, Cost]) -> None:
        self.contest, self.first = contest, first
        self.base_ms: list[float] = []
        self.ratios: dict[Job, list[float]] = {job: [] for job in contest.others}
        self.failed: dict[Job, str] = {}
        self.runs: dict[Job, int] = {}
        self.processes = 0

    def open(self, turns: TurnOptions) -> list[Job]:
        """Who is to be measured once more."""
        if self.contest.base in self.failed or self.processes >= turns.most:
            return []
        left = [job for job in self.ratios if job not in self.failed]
        if self.processes < turns.least:
            return left
        known = {job: ratio_of(self.ratios[job]) for job in left if self.ratios[job]}
        rivals = leaders(known)
        return [job for job in left if job not in known or known[job].open or (len(rivals) > 1 and job in rivals)]

    def take(self, group: Mapping[Job, Turns | JobFailed]) -> None:
        """What a process said of a group."""
        self.failed |= {job: result.why for job, result in group.items() if isinstance(result, JobFailed)}
        done = {job: result for job, result in group.items() if isinstance(result, Turns)}
        base = done.get(self.contest.base)
        if base is None:
            return
        for job, one in done.items():
            self.runs[job] = self.runs.get(job, 0) + one.runs
            both = [a or b for a, b in zip(one.lost, base.lost, strict=True)]
            kept = [number for number, lost in enumerate(both) if not lost]
            if len(kept) < LEAST_KEPT:
                kept = list(range(len(both)))
            if job == self.contest.base:
                self.base_ms += [one.ms[number] for number in kept]
            else:
                self.ratios[job] += [one.ms[number] / base.ms[number] for number in kept]

    def costs(self) -> dict[Job, Cost]:
        """Of all that were measured of the scenario; empty where the base, or all others, could not be."""
        found: dict[Job, Ratio] = {job: ratio_of(ratios) for job, ratios in self.ratios.items() if ratios}
        if not self.base_ms or not found:
            return {}
        took_part = {self.contest.base, *found, *self.contest.rest}
        contest = replace(self.contest, others=tuple(found))
        first = {job: cost for job, cost in self.first.items() if job in took_part}
        return costs_of(contest, self.base_ms, found, first, round(statistics.median(self.runs.values())))


Entry = tuple[Contest, Mapping[Job, Cost]]


def measure_in_turns(
    contests: Sequence[Entry],
    spot: Spot,
    folder: Path,
    options: BenchOptions,
    turns: TurnOptions,
    decided: Callable[[Contest, dict[Job, Cost], dict[Job, str]], None],
    at_work: Callable[[Contest], None] = lambda contest: None,
    note: Callable[[str], None] = lambda words: None,
) -> int:
    """Measure contests, each with the first figures of its jobs; bytes of the largest program.

    decided: gets each contest when it is over, with the costs of everything that was measured of its scenario, and who
    could not be measured. at_work: called now and then with one that is measured. What they raise ends all.
    Raises: RunnerError where the machine fails.
    """
    batches = _batches(contests, turns.jobs)
    jobs = [[job for contest, _ in batch for job in (contest.base, *contest.others)] for batch in batches]
    largest = 0
    with closing(programs(jobs, spot, folder)) as made:
        for batch, (order, program) in zip(batches, made, strict=True):
            largest = max(largest, program.bytes)
            numbers = {job: number for number, job in enumerate(order)}
            standings = [_Standing(contest, first) for contest, first in batch]
            at_work(batch[0][0])
            while standings:
                taker = _Taker(standings, numbers, turns, at_work)
                run_turns(
                    spot.runner, program, taker.groups, spot.cpus, spot.core, replace(options, rounds=turns.rounds),
                    taker, note,
                )  # fmt: skip
                for standing in list(standings):
                    standing.processes += 1
                    if not standing.open(turns):
                        decided(standing.contest, standing.costs(), standing.failed)
                        standings.remove(standing)
    return largest


def _batches(contests: Sequence[Entry], most: int) -> list[list[Entry]]:
    found: list[list[Entry]] = []
    room = 0
    for entry in contests:
        size = 1 + len(entry[0].others)
        if size > room:
            found.append([])
            room = most
        found[-1].append(entry)
        room -= size
    return found


class _Taker:
    """Groups of those that are to be measured once more, and results to whom they are of."""

    def __init__(
        self, standings: Sequence[_Standing], numbers: Mapping[Job, int], turns: TurnOptions,
        at_work: Callable[[Contest], None],
    ) -> None:  # fmt: skip
        self.order, self.at_work = list(numbers), at_work
        self.recent: list[Turns | JobFailed] = []
        self.groups: list[list[int]] = []
        self.of: dict[int, tuple[_Standing, int]] = {}  # by the last job of a group, which is in no other: not the base
        for standing in standings:
            for group in standing.contest.groups(standing.open(turns)):
                self.groups.append(sorted(numbers[job] for job in group))
                self.of[self.groups[-1][-1]] = standing, len(group)

    def __call__(self, result: Turns | JobFailed) -> None:
        self.recent.append(result)
        if result.job in self.of:
            standing, size = self.of[result.job]
            standing.take({self.order[each.job]: each for each in self.recent[-size:]})
            self.at_work(standing.contest)
