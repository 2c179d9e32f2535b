"""Specs of kernels -> object files: each kernel emitted and compiled once per core."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from llvmlite import ir

from mavcg.assembly.tuning_options import FAST, Tuning, wants_tuning
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.hardware.core import GENERIC, Core
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
# About the time of emitting and compiling a kernel, on one core of a server: with machine passes, wide tiles, none.
TUNED_KERNEL_MS, KERNEL_MS, GENERIC_KERNEL_MS = 250, 65, 40
KERNELS_PER_MODULE = 8  # more share a compiler's start, fewer keep all CPUs busy to the end


def version_symbol(kernel: str, label: str) -> str:
    """The linkage name of a kernel's version: label is "generic" or a core's name."""
    return f"{kernel}.{label}"


def version_symbols(specs: Sequence[KernelSpec], labels: Sequence[str]) -> frozenset[str]:
    """The linkage names of all versions of these kernels."""
    return frozenset(version_symbol(kernel_name(spec), label) for spec in specs for label in labels)


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


@dataclass(frozen=True)
class KernelObject:
    """An object file of some kernels' versions for one core. rescheduled: by the machine passes; tiles: as tiles_of."""

    label: str
    path: Path
    rescheduled: bool
    tiles: Mapping[str, tuple[str, ...]]


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
    tasks = kernel_tasks(specs, machines, cores, target, folder, tuning, plan)
    return kernel_code(run_tasks(tasks, workers, progress), machines, plan)


def kernel_tasks(
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    cores: Sequence[Core],
    target: Target,
    folder: Path,
    tuning: Tuning = FAST,
    plan: TilePlan = UNPLANNED,
) -> list[Task[KernelObject]]:
    """Return the tasks that kernel_objects consists of, with estimates of their time as costs."""
    tuned = {core.name: core for core in cores if tuning.on and wants_tuning(core)}
    if tuned:
        import mavcg.assembly.tuning  # noqa: F401 - once, before workers are copies of this process
    parts = [tuple(specs[i : i + KERNELS_PER_MODULE]) for i in range(0, len(specs), KERNELS_PER_MODULE)]
    tasks = []
    for label in sorted(machines, key=lambda label: label not in tuned):
        what = f"compiling {'and rescheduling ' if label in tuned else ''}kernels for {label}"
        for number, part in enumerate(parts):
            job = _Job(part, machines[label], label, target, plan, folder / f"kernels-{label}-{number}.o", what)
            kernel_ms = TUNED_KERNEL_MS if label in tuned else GENERIC_KERNEL_MS if label == GENERIC else KERNEL_MS
            tasks.append(Task(what, partial(_kernel_object, job, tuned.get(label), tuning), len(part) * kernel_ms))
    return tasks


def kernel_code(objects: Sequence[KernelObject], machines: Mapping[str, Machine], plan: TilePlan) -> KernelCode:
    """Put together the objects that kernel_tasks make: in the order of the link, rescheduled ones last."""
    tiles: dict[str, dict[str, tuple[str, ...]]] = {label: {} for label in machines}
    for each in objects:
        tiles[each.label].update(each.tiles)
    ordered = sorted(objects, key=lambda each: each.rescheduled)
    return KernelCode(tuple(each.path for each in ordered), tiles, plan)


@dataclass(frozen=True)
class _Job:
    """Some kernels for one core. out: the object's path; what: for messages."""

    specs: tuple[KernelSpec, ...]
    machine: Machine
    label: str
    target: Target
    plan: TilePlan
    out: Path
    what: str


def _kernel_object(job: _Job, tuned: Core | None, tuning: Tuning) -> KernelObject:
    """Emit and compile. tuned: the core whose profile asks for machine passes; what they found is kept for the next
    build."""
    text = kernel_module(job.specs, job.machine, job.label, job.target, job.plan)
    made = job.out.with_suffix(".s") if tuned else job.out
    emit_as = "asm" if tuned else "obj"
    compile_module(CodegenJob(text, job.target, job.what, opt_level="2", emit=emit_as, flags=KERNEL_FLAGS), made)
    if tuned:
        from mavcg.assembly.tuning import TuningJob, tune_version

        assembly, symbol = made.read_text(), version_symbol(kernel_name(job.specs[0]), job.label)
        question = TuningJob(tuned, assembly, symbol, "", symbol, "", True, HEURISTIC_SECONDS, account=False)
        assemble(tune_version(question, tuning.solver_seconds)[0], job.out, job.target, f"assembling {made.name}")
    return KernelObject(job.label, job.out, tuned is not None, tiles_of(text))
