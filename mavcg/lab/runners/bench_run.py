"""Runs a program of jobs on a machine and reports the times of each job as soon as they are known.

A job that ends the program, or prints nothing for too long, is left out and the other jobs are run without it. A lost
connection is opened again, and jobs measured before are not measured again.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mavcg.hardware.core import Core
from mavcg.hardware.cpu_list import cpu_ranges
from mavcg.lab.runners.bench_lines import BenchLineReader, InterleavedTimes, JobFailed, JobTimes, MachineReport
from mavcg.lab.runners.bench_program import BenchProgram
from mavcg.lab.runners.shell_runner import SILENCE_S, ShellRunner
from mavcg.lab.runners.transport import ConnectionLost, Finished, RunnerError, Silent

WAITS_S = (1.0, 5.0, 20.0)  # delays before a lost connection is opened again
MOST_FAILURES = 3  # successive failed jobs after which the machine is at fault


@dataclass(frozen=True)
class BenchOptions:
    """The effort of a measurement.

    rounds: minimum of rounds. least_ms: minimum of the total time. round_ms: approximate time of a round, which has as
    many runs. cold_rounds: rounds of one run each after reading evict_bytes, which evict the caches; 0 for none.
    settle_ms: time of work before all measurements, so that the clock rises. seed: of the operands' values. silence_s:
    time without output after which the program is stopped.
    """

    rounds: int = 5
    least_ms: float = 5.0
    round_ms: float = 1.0
    cold_rounds: int = 5
    evict_bytes: int = 64 << 20
    settle_ms: float = 200.0
    seed: int = 1
    silence_s: float = SILENCE_S


Taken = Callable[[JobTimes | JobFailed], None]
TakenInterleaved = Callable[[InterleavedTimes | JobFailed], None]


def run_bench(
    runner: ShellRunner,
    program: BenchProgram,
    jobs: Sequence[int],
    cpus: Sequence[int],
    core: Core | None,
    options: BenchOptions,
    on_result: Taken,
    note: Callable[[str], None] = lambda words: None,
) -> tuple[MachineReport, MachineReport]:
    """Run jobs of a program on chosen CPUs; return the machine's reports at the beginning and end of the last process.

    cpus: a thread is bound to each; () for one unbound thread. core: expected type of the first CPU, checked if it can
    be identified; None for any. on_result: called with each result; an exception from it ends the program. note: called
    with messages for the user. Raises: RunnerError if the machine or the CPU cannot be used, or is another core;
    ConnectionLost if the connection cannot be opened again.
    """
    units = [(job,) for job in jobs]

    def words(remaining: Sequence[Sequence[int]]) -> list[str]:
        return [*_arguments(cpus, options), "--jobs", cpu_ranges([job for unit in remaining for job in unit])]

    read = partial(BenchLineReader, runner.name, program.jobs, cpus[0] if cpus else None, core, on_result)
    return _run(runner, _ProgramCall(program.path, words, read, options.silence_s), units, note)


def run_interleaved(
    runner: ShellRunner,
    program: BenchProgram,
    groups: Sequence[Sequence[int]],
    cpus: Sequence[int],
    core: Core | None,
    options: BenchOptions,
    on_result: TakenInterleaved,
    note: Callable[[str], None] = lambda words: None,
) -> tuple[MachineReport, MachineReport]:
    """Run jobs as run_bench does, interleaved within groups: each of options.rounds rounds runs all jobs of a group.

    on_result: called with the results of a group one after the other, or with a failure for each of its jobs.
    """
    ordered = [tuple(sorted(group)) for group in groups]

    def words(remaining: Sequence[Sequence[int]]) -> list[str]:
        general = _arguments(cpus, replace(options, cold_rounds=0))
        return [*general, *(word for group in remaining for word in ("--turns", cpu_ranges(group)))]

    read = partial(BenchLineReader, runner.name, program.jobs, cpus[0] if cpus else None, core, on_result)
    return _run(runner, _ProgramCall(program.path, words, read, options.silence_s), ordered, note)


@dataclass(frozen=True)
class _ProgramCall:
    """A program with its arguments.

    arguments_of: arguments for the remaining units of jobs. read: makes a reader of its lines. silence_s: time without
    output after which it is stopped.
    """

    path: Path
    arguments_of: Callable[[Sequence[Sequence[int]]], list[str]]
    read: Callable[[], BenchLineReader]
    silence_s: float


def _run(
    runner: ShellRunner, program: _ProgramCall, units: Sequence[tuple[int, ...]], note: Callable[[str], None]
) -> tuple[MachineReport, MachineReport]:
    """Run units of jobs; results of a unit arrive together."""
    left, waits, failures = list(units), list(WAITS_S), 0
    while True:
        reader = program.read()
        lost: ConnectionLost | None = None
        done: Finished | None = None
        silent = ""
        try:
            done = runner.run(program.path, program.arguments_of(left), on_line=reader, silence_s=program.silence_s)
        except ConnectionLost as error:
            lost = error
        except Silent as error:
            silent = str(error)
        left = [unit for unit in left if unit[-1] not in reader.seen]
        if reader.seen:
            waits, failures = list(WAITS_S), 0
        if reader.fault:
            raise RunnerError(f"{runner.name}: {reader.fault}; name another core, or run it when the machine is free")
        if lost is not None:
            if not waits:
                raise lost
            note(f"{lost}; trying again in {waits[0]:.0f} s")
            time.sleep(waits.pop(0))
        elif done is not None and not left and reader.after is not None and reader.before is not None:
            return reader.before, reader.after
        else:
            how = silent or (_describe_end(done) if done is not None else "")
            if reader.before is None or not left:
                raise RunnerError(f"{runner.name}: {how}; see what `--check` says of the machine")
            if not reader.gave_up:  # else it named the job that failed
                for job in left[0]:
                    reader.on_result(JobFailed(job, how))
                left, failures = left[1:], failures + 1
            if failures == MOST_FAILURES:
                raise RunnerError(
                    f"{runner.name}: {how}, {failures} times in a row; make sure that it can run programs"
                )
            if not left:
                return reader.before, reader.before


def _describe_end(finished: Finished) -> str:
    killed = finished.status > 128  # as shells report a signal
    message = "" if killed else "".join(finished.words.splitlines()[-1:])
    return f"the program {finished.how}" + (f" ({message})" if message else "")


def _arguments(cpus: Sequence[int], options: BenchOptions) -> list[str]:
    figures = {
        "--seed": options.seed,
        "--rounds": options.rounds,
        "--round-ns": options.round_ms * 1e6,
        "--least-ns": options.least_ms * 1e6,
        "--cold": options.cold_rounds,
        "--evict-bytes": options.evict_bytes,
        "--settle-ns": options.settle_ms * 1e6,
    }
    bound = ["--cpu", ",".join(map(str, cpus))] if cpus else []
    return [*bound, *(word for name, value in figures.items() for word in (name, str(round(value))))]
