"""Builds kernels to be timed into a static program for a core, which needs nothing on the board but Linux.

The kernels are compiled as for a library, machine passes included (kernel_code.py). The program generates their
operands itself (csrc/bench.c), so that it is small: some tens of kilobytes and the kernels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from mavcg.assembly.tuning_options import FAST, Tuning
from mavcg.choose.lowering.kernel_code import UNPLANNED, kernel_code, kernel_tasks, version_symbol
from mavcg.files.worker_processes import run_tasks
from mavcg.hardware.core import Core
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.primitives.foreign_gemm import foreign_libraries
from mavcg.lab.runners.foreign_text import foreign_text
from mavcg.lab.trials.jobs import BASES
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.primitive import Lowering, QuantisedWeights, SparseWeights, Stage
from mavcg.toolchain.target import Target, host_target, parse_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

CSRC = Path(__file__).resolve().parent / "csrc"
MOST_OPERANDS = 8  # as in bench.c
LINK_FLAGS = ("-O2", "-std=gnu11", *PLAIN_CODE_FLAGS, "-ffunction-sections", "-Wl,--gc-sections", "-s")


@dataclass(frozen=True)
class BenchJob:
    """Kernels that are timed together.

    sizes: base of operands -> its bytes. sparse, quantised: form of the weights; None for dense f32.
    """

    stages: tuple[Stage, ...]
    sizes: Mapping[str, int]
    sparse: SparseWeights | None = None
    quantised: QuantisedWeights | None = None


@dataclass(frozen=True)
class BenchProgram:
    """A measuring program. jobs: their number; they are numbered from 0."""

    path: Path
    jobs: int

    @property
    def bytes(self) -> int:
        """Size of the program, in bytes."""
        return self.path.stat().st_size


def bench_job(lowering: Lowering, sizes: Mapping[str, int]) -> BenchJob:
    """Return the job that times a lowering. sizes: in bytes, of operands whose size the lowering does not state."""
    own = {"weights": lowering.weights_bytes, "workspace": lowering.workspace_bytes}
    return BenchJob(lowering.stages, {**own, **sizes}, lowering.sparse, lowering.quantised)


def bench_target(arch: str) -> Target:
    """Return the target of measuring programs: static Linux, for Android too; this machine's own without Linux."""
    host = host_target()
    return host if host.system == "macos" and host.arch == arch else parse_target(f"{arch}-linux-musl")


def build_program(
    jobs: Sequence[BenchJob],
    machine: Machine,
    core: Core | None,
    target: Target,
    folder: Path,
    workers: int = 1,
    tuning: Tuning = FAST,
    progress: Callable[[str], None] = lambda words: None,
) -> BenchProgram:
    """Compile and link a measuring program in `folder`, which must exist.

    core: its profile may enable machine passes; None for generic code.
    Raises: ToolError with the compiler's message.
    """
    specs = tuple(dict.fromkeys(stage.spec for job in jobs for stage in job.stages))
    cores = () if core is None else (core,)
    machines = {machine.name: machine}
    tasks = kernel_tasks(specs, machines, cores, target, folder, tuning)
    code = kernel_code(run_tasks(tasks, workers, progress), machines, UNPLANNED)
    (folder / "bench_jobs.h").write_text(_tables(jobs, specs, machine.name, target))
    libraries = foreign_libraries(specs)
    sources = [CSRC / "bench.c"]
    if libraries:
        sources.append(folder / "foreign.c")
        sources[-1].write_text(foreign_text(libraries))
    out = folder / "bench"
    static = [] if libraries or target.system == "macos" else ["-static"]
    run_zig(
        "cc",
        [
            *("-target", target.zig_name, *LINK_FLAGS, *static, f"-I{folder}", f"-I{CSRC}"),
            *map(str, (*sources, *code.objects)),
            *(("-ldl",) if libraries else ()),
            *("-o", str(out)),
        ],
        "linking the program that measures",
        folder,
    )
    return BenchProgram(out, len(jobs))


def _tables(jobs: Sequence[BenchJob], specs: Sequence[KernelSpec], label: str, target: Target) -> str:
    """Return the text of bench_jobs.h: the kernels, the stages of each job, and the jobs."""
    before = "_" if target.system == "macos" else ""
    numbers = {spec: number for number, spec in enumerate(specs)}
    lines = [f"#define BENCH_JOBS {len(jobs)}"]
    for number, spec in enumerate(specs):
        lines.append(f'extern kernel k{number} __asm__("{before}{version_symbol(kernel_name(spec), label)}");')
    for number, job in enumerate(jobs):
        lines.append(f"static const struct stage stages{number}[] = {{")
        for stage in job.stages:
            assert len(stage.operands) <= MOST_OPERANDS
            operands = ", ".join(f"{{{BASES.index(operand.base)}, {operand.offset}}}" for operand in stage.operands)
            lines.append(f"    {{k{numbers[stage.spec]}, {stage.spec.rows}, {len(stage.operands)}, {{{operands}}}}},")
        lines.append("};")
    lines.append("static const struct job bench_jobs[BENCH_JOBS] = {")
    for number, job in enumerate(jobs):
        sizes = ", ".join(str(job.sizes.get(base, 0)) for base in BASES)
        scratch = max((stage.spec.scratch_bytes for stage in job.stages), default=0)
        s = job.sparse
        form = "0" if s is None else f"{s.blocks}, {s.rows}, {s.terms}, {s.term_bytes}, {s.entries}"
        q = job.quantised
        packed = "0" if q is None else ", ".join(map(str, astuple(q)))
        lines.append(f"    {{{{{sizes}}}, {scratch}, stages{number}, {len(job.stages)}, {{{form}}}, {{{packed}}}}},")
    return "\n".join([*lines, "};", ""])
