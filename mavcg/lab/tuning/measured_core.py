"""A core on which primitives are measured, and the programs that measure the jobs of a plan there."""

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

from mavcg.hardware.core import Core
from mavcg.kernels.primitives.foreign_gemm import foreign_libraries
from mavcg.lab.runners.bench_program import BenchJob, BenchProgram, bench_job, bench_target, build_program
from mavcg.lab.runners.shell_runner import ShellRunner
from mavcg.lab.tuning.lowered_job import lowered_job
from mavcg.lab.tuning.work_list import Job
from mavcg.runtime.machines import block_of
from mavcg.specs.kernel import Machine
from mavcg.toolchain.target import host_target


@dataclass(frozen=True)
class MeasuredCore:
    """A core that primitives are measured on.

    A place where code runs, with nothing modelled of it, unlike CoreModel. core: None for generic code. cpus: a thread
    is bound to each; () for one unbound thread. ahead: True if the next program may be built while one runs, because it
    runs on another machine. host: machine that the costs belong to in the database. workers: compilers that run at a
    time.
    """

    machine: Machine
    core: Core | None
    cpus: tuple[int, ...]
    ahead: bool
    host: str
    workers: int = 1

    @property
    def threads(self) -> int:
        """Number of threads that share the rows of each kernel."""
        return max(1, len(self.cpus))


@dataclass(frozen=True)
class ReachedCore(MeasuredCore):
    """A core to measure on, with the runner of its machine."""

    runner: ShellRunner = field(kw_only=True)


def programs(
    batches: Sequence[Sequence[Job]], core: MeasuredCore, folder: Path
) -> Generator[tuple[Sequence[Job], BenchProgram], None, None]:
    """Yield each batch with its program, which is removed when the next one is requested."""

    def build(number: int) -> BenchProgram:
        batch_folder = folder / f"batch-{number}"
        batch_folder.mkdir(parents=True)
        made = [bench_job_of(job, block_of(core.machine)) for job in batches[number]]
        # A static program cannot load a library: foreign libraries need this machine's own target.
        foreign = foreign_libraries(stage.spec for job in made for stage in job.stages)
        target = host_target() if foreign else bench_target(core.machine.arch)
        return build_program(made, core.machine, core.core, target, batch_folder, core.workers)

    if not core.ahead:
        for number, batch in enumerate(batches):
            yield batch, build(number)
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
    """Return a job's kernels and the sizes of their operands; the measuring program makes the weights."""
    lowered = lowered_job(job, block)
    return bench_job(lowered.lowering, lowered.sizes)
