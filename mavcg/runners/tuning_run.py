"""What a network needs measured (selection/tuning.py), on one core of any machine that a runner reaches.

Some jobs at a time become a program; while a board works on one, the next is made here.
"""

import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from shutil import rmtree

import numpy as np

from mavcg.core import Core
from mavcg.kernel import Machine
from mavcg.primitive import F32_BYTES, Epilogue, Lowering, Place, image_elements
from mavcg.runners.bench_program import BenchJob, BenchProgram, bench_job, bench_target, build_program
from mavcg.runners.bench_run import BenchOptions, JobFailed, JobTimes, MachineSaid, Rounds, run_bench
from mavcg.runners.shell_runner import ShellRunner
from mavcg.selection.cost_db import Conversion, CostDb, Record
from mavcg.selection.costs import MEASURED, Cost
from mavcg.selection.tuning import Job, Plan
from mavcg.trials.check import block_of

NOTHING = Cost(0.0, MEASURED)
WITH_BIAS = Epilogue(bias=True)  # as nearly every convolution of a network has after fusion
FIRST_BATCH, BATCH = 8, 24  # jobs of a program: few at first, so that figures come soon
USUAL = BenchOptions()
SLOWED = 0.9  # of the clock before: below that the machine got hot, or saves power


@dataclass(frozen=True)
class Spot:
    """Where it is measured.

    core: None for generic code. cpus: a thread runs on each; none: one that is not bound. ahead: whether the next
    program is made while one runs, which another machine does not feel. host: whose figures, for the database.
    """

    runner: ShellRunner
    machine: Machine
    core: Core | None
    cpus: tuple[int, ...]
    ahead: bool
    host: str
    workers: int = 1

    @property
    def threads(self) -> int:
        """That share each kernel's rows."""
        return max(1, len(self.cpus))


@dataclass(frozen=True)
class TunedOn:
    """What came of a plan on a core. already: how many were in the database; left: not measured as time was up, or
    stopped; failed: which could not be, and why. program_bytes: of the largest program that was sent.
    """

    measured: tuple[tuple[Job, Cost], ...]
    already: int
    left: int
    stopped: str
    seconds: float
    failed: tuple[tuple[Job, str], ...] = ()
    program_bytes: int = 0
    notes: tuple[str, ...] = ()
    checksums: dict[Job, str] = field(default_factory=dict)


class _TimeIsUp(Exception):
    """No more is begun."""


def tune_on(
    plan: Plan,
    database: CostDb,
    spot: Spot,
    *,
    resume: bool = False,
    limit_s: float | None = None,
    options: BenchOptions = USUAL,
    progress: Callable[[int, int, Job], None] = lambda done, all_, job: None,
    note: Callable[[str], None] = lambda words: None,
) -> TunedOn:
    """Measure on as many threads as CPUs; every figure is in the database as soon as it is known, warm and cold.

    resume: what was measured already is not measured again. limit_s: no new figure is begun after so many seconds.
    An interrupt (Ctrl-C) ends it as the limit does. progress: called with how many are done, of how many, and the next.
    Raises: RunnerError where the machine fails; what was measured until then is kept.
    """
    started, block = time.monotonic(), block_of(spot.machine)
    records = {
        job: Record(job.what, NOTHING, spot.machine.name, spot.threads, block, host=spot.host) for job in plan.jobs
    }
    todo = [job for job in plan.jobs if not (resume and database.has(records[job]))]
    measured: list[tuple[Job, Cost]] = []
    failed: list[tuple[Job, str]] = []
    checksums: dict[Job, str] = {}
    notes: list[str] = []
    stopped, largest = "", 0

    def over() -> bool:
        return limit_s is not None and time.monotonic() - started >= limit_s

    def tell() -> None:
        done = len(measured) + len(failed)
        if done < len(todo):
            progress(done, len(todo), todo[done])

    def taker(batch: Sequence[Job]) -> Callable[[JobTimes | JobFailed], None]:
        def taken(result: JobTimes | JobFailed) -> None:
            job = batch[result.job]
            if isinstance(result, JobFailed):
                failed.append((job, result.why))
            else:
                cost = _cost(result.warm)
                if result.cold is not None:
                    database.put(_with(records[job], _cost(result.cold), True))
                database.put(_with(records[job], cost, False))
                measured.append((job, cost))
                checksums[job] = result.checksum
            if over():
                raise _TimeIsUp
            tell()

        return taken

    with tempfile.TemporaryDirectory(prefix="mavcg-tune-") as name:
        try:
            if todo and over():
                raise _TimeIsUp
            tell()
            with closing(_programs(todo, spot, Path(name))) as programs:
                for batch, program in programs:
                    largest = max(largest, program.bytes)
                    before, after = run_bench(
                        spot.runner, program, range(len(batch)), spot.cpus, spot.core, options, taker(batch), note
                    )
                    notes += _clock_notes(before, after)
        except _TimeIsUp:
            stopped = "limit"
        except KeyboardInterrupt:
            stopped = "interrupt"
    left = len(todo) - len(measured) - len(failed)
    return TunedOn(
        tuple(measured), len(plan.jobs) - len(todo), left, stopped if left else "", time.monotonic() - started,
        tuple(failed), largest, tuple(dict.fromkeys(notes)), checksums,
    )  # fmt: skip


def _cost(rounds: Rounds) -> Cost:
    return Cost(rounds.ms, MEASURED, rounds.spread_ms, rounds.runs)


def _with(record: Record, cost: Cost, cold: bool) -> Record:
    return Record(record.what, cost, record.core, record.threads, record.block, cold=cold, host=record.host)


def _programs(jobs: Sequence[Job], spot: Spot, folder: Path) -> Generator[tuple[list[Job], BenchProgram], None, None]:
    """Each batch with its program, which is gone when the next one is asked for."""
    batches: list[list[Job]] = []
    rest = iter(jobs)
    while batch := list(islice(rest, BATCH if batches else FIRST_BATCH)):
        batches.append(batch)

    def build(number: int) -> BenchProgram:
        place = folder / f"batch-{number}"
        place.mkdir()
        made = [bench_job_of(job, block_of(spot.machine)) for job in batches[number]]
        return build_program(made, spot.machine, spot.core, bench_target(spot.machine.arch), place, spot.workers)

    if not spot.ahead:
        for number, batch in enumerate(batches):
            program = build(number)
            yield batch, program
            rmtree(folder / f"batch-{number}", ignore_errors=True)
        return
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(build, 0) if batches else None
        for number, batch in enumerate(batches):
            assert coming is not None
            program = coming.result()
            coming = pool.submit(build, number + 1) if number + 1 < len(batches) else None
            yield batch, program
            rmtree(folder / f"batch-{number}", ignore_errors=True)


def bench_job_of(job: Job, block: int) -> BenchJob:
    """A job's kernels and the bytes that they work on; its weights are made where it runs."""
    if isinstance(job.what, Conversion):
        from mavcg.kernels.primitives.convert import find_conversion, lower_conversion

        to = job.what
        stage = lower_conversion(find_conversion(to.layout_from, to.layout_to), to.c, to.h, to.w, block)
        assert stage.operands == (Place("x"), Place("out"))
        images = {"x": to.layout_from, "out": to.layout_to}
        sizes = {base: image_elements(layout, to.c, to.h, to.w, block) * F32_BYTES for base, layout in images.items()}
        return bench_job(Lowering((stage,), np.zeros(0, np.float32)), sizes)
    s, primitive = job.what[0], job.primitive
    assert primitive is not None
    lowering = primitive.lower(s, np.zeros((s.m, s.c // s.groups, s.k, s.k), np.float32), WITH_BIAS, block)
    sizes = {
        "x": image_elements(primitive.layout_in, s.c, s.h, s.w, block) * F32_BYTES,
        "out": image_elements(primitive.layout_out, s.m, s.out_h, s.out_w, block) * F32_BYTES,
        "bias": s.m * F32_BYTES,
    }
    return bench_job(lowering, sizes)


def _clock_notes(before: MachineSaid, after: MachineSaid) -> list[str]:
    if before.khz and after.khz and after.khz < SLOWED * before.khz:
        clocks = f"{before.khz / 1e6:.2f} GHz to {after.khz / 1e6:.2f} GHz"
        return [f"CPU {before.cpu}: its clock fell from {clocks} meanwhile; let it cool, or hold the clock lower"]
    return []
