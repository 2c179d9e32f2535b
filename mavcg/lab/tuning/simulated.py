"""Simulates the costs of a network's primitives and conversions on the Arm cores of a board, for `mavcg tune`.

The jobs that a board would measure (lab/tuning/work_list.py) are timed on a simulated core, each in about a
second, with the macro-tiles of a library (lab/simulate/simulated_jobs.py). Simulated times have no noise, so that
interleaved measurements are not needed.
"""

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from mavcg.choose.algorithms.costs.database import CostDb, Record
from mavcg.choose.algorithms.costs.provider import SIMULATED, Cost
from mavcg.choose.algorithms.network import Network
from mavcg.cost.board_model import core_models
from mavcg.cost.core_facts import simulated_core
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.hardware.board import Board
from mavcg.hardware.core import GENERIC
from mavcg.lab.simulate.simulated_jobs import SimulatedJob, compile_jobs, simulate_job
from mavcg.lab.tuning.lowered_job import lowered_job
from mavcg.lab.tuning.state import INTERRUPT, LIMIT, NOTHING, RunControl, TunedOn, batches_of
from mavcg.lab.tuning.tune_network import BoardCore, TunedCore, core_plan
from mavcg.lab.tuning.work_list import Job
from mavcg.profiles.load import cores_for
from mavcg.profiles.timing import load_timing
from mavcg.runtime.machines import block_of
from mavcg.specs.primitive import Primitive
from mavcg.toolchain.target import parse_target

RUNNER = "simulate"
FIRST_BATCH, BATCH = 4, 12  # jobs compiled together; the first batch is small so that progress is shown soon


@dataclass
class _SimulatedSoFar:
    """A core's jobs and their results so far."""

    todo: list[Job]
    simulated: dict[Job, Cost] = field(default_factory=dict)
    failed: list[tuple[Job, str]] = field(default_factory=list)
    stopped: str = ""


def simulated_cores(
    board: Board, requested: Sequence[str], option: str = f"--runner {RUNNER}"
) -> tuple[BoardCore, ...]:
    """Return the requested cores, or all cores of the board. option: the user's, for messages.

    Raises: MavcgError for a board that is not AArch64, for cores that it does not have, or without a timing profile.
    """
    target = parse_target(board.target)
    if target.arch != "aarch64":
        raise MavcgError(f"{option}: {board.name} is {target.arch}; only AArch64 cores can be simulated")
    clusters = core_models(board)
    names = list(dict.fromkeys(cluster.cluster.core for cluster in clusters if cluster.cluster.core != GENERIC))
    for name in requested:
        if name not in names:
            raise MavcgError(f"--core {name}: {board.name} has no such core; it has {', '.join(names)}")
    chosen = list(dict.fromkeys(requested)) or names
    for core in cores_for(chosen) if chosen else ():
        load_timing(core)
    return tuple(BoardCore(next(c for c in clusters if c.cluster.core == name), ()) for name in chosen)


def tune_simulated(
    network: Network,
    primitives: Sequence[Primitive],
    board: Board,
    cores: Sequence[BoardCore],
    database: CostDb,
    workers: int,
    control: RunControl,
) -> list[TunedCore]:
    """Simulate the primitives that the model does not rule out, core by core; store the costs after each batch.

    workers: number of processes. control: skips jobs with a simulated or measured cost; its time limit is for all
    cores, in equal parts, and no batch is begun after it. An interrupt ends all.
    Raises: MavcgError if the network has no convolution, or the simulator is not installed.
    """
    done: list[TunedCore] = []
    for number, core in enumerate(cores):
        assert core.core is not None
        plan = core_plan(network, primitives, core, f"{core.machine.name}, simulated", control.note)
        for words in simulated_core(core.core, board).assumed:
            control.note(f"{core.machine.name}: {words}")
        spent_s = sum(tuned_core.tuned.seconds for tuned_core in done)
        tuned = simulate_jobs_on(plan.jobs, core, board, database, workers, control.part(spent_s, len(cores) - number))
        for job, why in tuned.failed:
            control.note(f"{job.name}: {why}")
        done.append(TunedCore(core, plan, tuned))
        if tuned.stopped == INTERRUPT:
            break
    return done


def simulate_jobs_on(
    jobs: Sequence[Job],
    core: BoardCore,
    board: Board,
    database: CostDb,
    workers: int,
    control: RunControl,
) -> TunedOn:
    """Simulate jobs on one core and keep their costs, a batch at a time; arguments as of tune_simulated."""
    started, block = time.monotonic(), block_of(core.machine)
    host = f"{platform.node()}, simulated"
    records = {job: Record(job.what, NOTHING, core.machine.name, 1, block, host=host) for job in jobs}
    known = [job for job in jobs if control.resume and database.measured_or_simulated_cost(records[job]) is not None]
    state = _SimulatedSoFar([job for job in jobs if job not in set(known)])
    try:
        for batch in batches_of(state.todo, FIRST_BATCH, BATCH):
            if control.limit_s is not None and time.monotonic() - started >= control.limit_s:
                state.stopped = LIMIT
                break
            control.progress(len(state.simulated) + len(state.failed), len(state.todo), batch[0].name)
            for job, result in zip(batch, _simulated_batch(batch, core, board, block, workers), strict=True):
                if isinstance(result, str):
                    state.failed.append((job, result))
                    continue
                database.put(replace(records[job], cost=result))
                state.simulated[job] = result
    except KeyboardInterrupt:
        state.stopped = INTERRUPT
    left = len(state.todo) - len(state.simulated) - len(state.failed)
    return TunedOn(
        tuple(state.simulated.items()),
        len(known),
        left,
        state.stopped if left else "",
        time.monotonic() - started,
        tuple(state.failed),
    )


def _simulated_batch(batch: Sequence[Job], core: BoardCore, board: Board, block: int, workers: int) -> list[Cost | str]:
    """Return the cost of each job, or the reason why it cannot be simulated."""
    assert core.core is not None
    with scratch_folder("mavcg-simulate-") as folder:
        made = [simulated_job(job, block) for job in batch]
        kernels = compile_jobs(made, core.core, board, Path(folder), workers)
        ghz = simulated_core(core.core, board).ghz

        def simulate(job: SimulatedJob) -> Cost | str:
            try:
                simulated = simulate_job(kernels, job)
            except MavcgError as error:
                return str(error)
            return Cost(simulated.cycles / ghz / 1e6, SIMULATED, simulated.error / ghz / 1e6, 1)

        return run_tasks([Task(job.name, partial(simulate, of)) for job, of in zip(batch, made, strict=True)], workers)


def simulated_job(job: Job, block: int) -> SimulatedJob:
    """Return a job's lowering with weights, and the sizes of its images. block: channels per block of CHWc."""
    lowered = lowered_job(job, block)
    return SimulatedJob(lowered.lowering, lowered.sizes)
