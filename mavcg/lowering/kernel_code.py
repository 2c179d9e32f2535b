"""Specs of kernels -> object files: each kernel emitted and compiled once per core."""

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from llvmlite import ir

from mavcg.assembly.tuning import FAST, Tuning, TuningJob, tune_versions, wants_tuning
from mavcg.hardware.core import Core
from mavcg.hardware.target import Target
from mavcg.kernels.builder.emit import kernel_name, prepared
from mavcg.kernels.registry import emit
from mavcg.objects.elf import function_symbols
from mavcg.passes.ir.protection import protect
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.tile_plan import TilePlan
from mavcg.toolchain.codegen import CodegenJob, assemble, compile_module

# Emitters write the vectors and the unrolling that they want; nothing is to be added to that.
KERNEL_FLAGS = ("-fPIC", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops")
# Of a loop's schedule: a network has a hundred loops, and most of them reach in this time what they reach at all.
HEURISTIC_SECONDS = 0.4
UNPLANNED = TilePlan()  # each emitter does what is right on all machines
KERNELS_PER_MODULE = 8  # more share a compiler's start, fewer keep all CPUs busy to the end


def version_symbol(kernel: str, label: str) -> str:
    """The linkage name of a kernel's version: label is "generic" or a core's name."""
    return f"{kernel}.{label}"


def kernel_module(
    specs: Sequence[KernelSpec], machine: Machine, label: str, target: Target, plan: TilePlan = UNPLANNED
) -> str:
    """The IR text of these kernels' versions for one core, with the plan's macro-tiles."""
    module = ir.Module("kernels")
    module.triple = target.llvm_triple
    for spec in specs:
        emit(module, spec, machine, plan.of(kernel_name(spec), label))
    text = protect(prepared(module, machine), target.arch)
    for spec in specs:
        name = kernel_name(spec)
        text = text.replace(f'@"{name}"', f'@"{version_symbol(name, label)}"')
    return text


_TILE = re.compile(r'^!\d+ = !\{ !"([\w.]+)", !"(\d+x\d+)" \}$', re.MULTILINE)


def tiles_of(module: str) -> dict[str, tuple[str, ...]]:
    """Kernel -> its kinds of tiles, pixels x vectors of channels, the largest first; of a text of kernel_module."""
    found: dict[str, list[str]] = {}
    for kernel, tile in _TILE.findall(module):
        found.setdefault(kernel, []).append(tile)
    sizes = {kernel: sorted(tiles, key=lambda t: [-int(n) for n in t.split("x")]) for kernel, tiles in found.items()}
    return {kernel: tuple(tiles) for kernel, tiles in sizes.items()}


@dataclass(frozen=True)
class KernelCode:
    """Compiled kernels, as `plan` has them. tiles: version -> kernel -> its tiles (tiles_of), for kernels with any."""

    objects: tuple[Path, ...]
    tiles: Mapping[str, Mapping[str, tuple[str, ...]]]
    plan: TilePlan = UNPLANNED

    def code_bytes(self) -> dict[str, int]:
        """Linkage name, <kernel>.<version>, -> bytes of its machine code."""
        return {name: size for path in self.objects for name, size in function_symbols(path)}

    def __str__(self) -> str:
        """A line for each version of a kernel: its symbol, bytes of code, register tiles (pixels x vectors)."""
        lines = []
        for symbol, size in self.code_bytes().items():
            kernel, _, version = symbol.rpartition(".")
            lines.append(" ".join([symbol, str(size), *self.tiles.get(version, {}).get(kernel, ())]) + "\n")
        return "".join(lines)


def kernel_objects(
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    cores: Sequence[Core],
    target: Target,
    folder: Path,
    workers: int,
    progress: Callable[[str], None],
    tuning: Tuning = FAST,
    plan: TilePlan = UNPLANNED,
) -> KernelCode:
    """Compile every spec for every machine into objects in `folder`, with the plan's macro-tiles.

    cores: whose profiles may ask for machine passes. Raises: ToolError with the compiler's words.
    """
    tuned = {core.name: core for core in cores if tuning.on and wants_tuning(core)}
    parts = [specs[i : i + KERNELS_PER_MODULE] for i in range(0, len(specs), KERNELS_PER_MODULE)]
    jobs = [_Job(label, number, tuple(part)) for label in machines for number, part in enumerate(parts)]

    tiles: dict[str, dict[str, tuple[str, ...]]] = {label: {} for label in machines}

    def work(job: _Job) -> Path:
        text = kernel_module(job.specs, machines[job.label], job.label, target, plan)
        tiles[job.label].update(tiles_of(text))
        emit_as = "asm" if job.label in tuned else "obj"
        out = folder / f"kernels-{job.label}-{job.number}.{'s' if emit_as == 'asm' else 'o'}"
        what = f"compiling kernels for {job.label}"
        compile_module(CodegenJob(text, target, what, opt_level="2", emit=emit_as, flags=KERNEL_FLAGS), out)
        progress(what)
        return out

    with ThreadPoolExecutor(max(1, workers)) as pool:
        made = list(pool.map(work, jobs))
        plain = [path for path in made if path.suffix == ".o"]
        assembly = [(job, path) for job, path in zip(jobs, made, strict=True) if path.suffix == ".s"]
        texts = _tuned_texts(assembly, tuned, workers, progress, tuning)

        def finish(path: Path, text: str) -> Path:
            out = path.with_suffix(".o")
            assemble(text, out, target, f"assembling {path.name}")
            return out

        finished = pool.map(finish, (path for _, path in assembly), texts)
        return KernelCode((*plain, *finished), tiles, plan)


@dataclass(frozen=True)
class _Job:
    """Some kernels for one core; number: of the module, from 0."""

    label: str
    number: int
    specs: tuple[KernelSpec, ...]


def _tuned_texts(
    assembly: Sequence[tuple[_Job, Path]],
    cores: Mapping[str, Core],
    workers: int,
    progress: Callable[[str], None],
    tuning: Tuning,
) -> list[str]:
    """The machine passes over each module, several at a time; what they found is kept for the next build."""
    jobs = []
    for job, path in assembly:
        text, symbol = path.read_text(), version_symbol(kernel_name(job.specs[0]), job.label)
        core = cores[job.label]
        jobs.append(TuningJob(core, text, symbol, "", symbol, "", True, HEURISTIC_SECONDS, account=False))
    done = tune_versions(jobs, workers, lambda: progress("rescheduling kernels"), tuning.solver_seconds)
    return [text for text, _ in done]
