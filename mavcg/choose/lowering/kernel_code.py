"""Compile kernel specs to object files; each kernel is emitted as LLVM IR and compiled once per core."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from llvmlite import ir

from mavcg.assembly.tuning_options import FAST, Tuning, has_machine_passes
from mavcg.files.scratch import scratch_folder
from mavcg.files.store import NOTHING_KEPT, EntryStore
from mavcg.files.worker_processes import Task
from mavcg.hardware.core import GENERIC, Core
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.builder.module_text import add_core_attributes, release
from mavcg.kernels.gemm.loop_shape import AVX512_BYTES
from mavcg.kernels.registry import emit
from mavcg.objects.elf import function_symbols
from mavcg.passes.ir.protection import protect
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.needs import allowed_extensions, kernel_extensions
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.tile_plan import TilePlan
from mavcg.toolchain.codegen import CodegenJob, assemble, compile_module, open_code
from mavcg.toolchain.target import Target

# Emitters choose vectors and unrolling themselves; LLVM must not change them.
KERNEL_FLAGS = ("-fPIC", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops")
# LLVM's machine scheduler moves more broadcasts of AVX-512 tiles to the beginning of a loop's iteration than there are
# free registers: 3x3 filters over 3 channels spill and take 1.5 times as long on a Zen 4. Cores with AVX-512 reorder
# instructions themselves. With 16 registers the scheduler's order is faster, but for specs with `keeps_order`.
UNSCHEDULED_FLAGS = ("-mllvm", "-enable-misched=false")
# Of sums of 16 bits LLVM's machine combiner makes trees, whose products wait in registers.
UNCOMBINED_FLAGS = ("-mllvm", "-x86-machine-combiner=false")
# Time limit of a loop's schedule: a network has a hundred loops, most of which reach their best schedule in this time.
HEURISTIC_SECONDS = 0.4
AVX2_BYTES = 32  # of a vector
UNPLANNED = TilePlan()  # no macro-tiles: each emitter uses its default, which suits all machines
# Approximate time to emit and compile a kernel on one core of a server: with machine passes, with wide tiles, others.
TUNED_KERNEL_MS, KERNEL_MS, GENERIC_KERNEL_MS = 250, 65, 40
# Average number of kernels of a module; the maximum is twice as many. Large modules start the compiler less often,
# small modules keep all CPUs busy until the end.
KERNELS_PER_MODULE = 8
OBJECT_NAME = "kernels.o"  # file name under which every module is compiled, as the object contains it


def kernel_flags(machine: Machine, specs: Sequence[KernelSpec] = ()) -> tuple[str, ...]:
    """Return the compiler's flags for a core's kernels. specs: those of the module, of which all keep their order, or
    none."""
    ordered = machine.arch == "x86_64" and any(spec.keeps_order for spec in specs)
    unscheduled = machine.vector_bytes == AVX512_BYTES or (ordered and machine.vector_bytes == AVX2_BYTES)
    uncombined = ordered and not machine.dot_product
    return (*KERNEL_FLAGS, *UNSCHEDULED_FLAGS * unscheduled, *UNCOMBINED_FLAGS * uncombined)


def version_symbol(kernel: str, label: str) -> str:
    """Return the linkage name of a kernel's version. label: "generic" or a core's name."""
    return f"{kernel}.{label}"


def version_symbols(specs: Sequence[KernelSpec], labels: Sequence[str]) -> frozenset[str]:
    """Return the linkage names of all versions of these kernels."""
    return frozenset(version_symbol(kernel_name(spec), label) for spec in specs for label in labels)


def kernel_module(
    specs: Sequence[KernelSpec], machine: Machine, label: str, target: Target, plan: TilePlan = UNPLANNED
) -> str:
    """Return the IR text of these kernels' versions for one core, with the plan's macro-tiles."""
    module = ir.Module("kernels")
    module.triple = target.llvm_triple
    for spec in specs:
        emit(module, spec, machine, plan.of(kernel_name(spec), label))
    text = protect(add_core_attributes(module, machine), target.arch)
    release(module)
    for spec in specs:
        name = kernel_name(spec)
        text = text.replace(f'@"{name}"', f'@"{version_symbol(name, label)}"')
    return text


_TILE = re.compile(r'^!\d+ = !\{ !"([\w.]+)", !"(\d+x\d+)" \}$', re.MULTILINE)


def tiles_of(module: str) -> dict[str, tuple[str, ...]]:
    """Return each kernel's register tiles, "pixels x vectors of channels", largest first. module: its IR text."""
    by_kernel: dict[str, list[str]] = {}
    for kernel, tile in _TILE.findall(module):
        by_kernel.setdefault(kernel, []).append(tile)
    sizes = {
        kernel: sorted(tiles, key=lambda t: [-int(n) for n in t.split("x")]) for kernel, tiles in by_kernel.items()
    }
    return {kernel: tuple(tiles) for kernel, tiles in sizes.items()}


@dataclass(frozen=True)
class KernelCode:
    """The compiled kernels of a build.

    objects: object files. tiles: version -> kernel -> register tiles (as tiles_of). plan: the kernels' macro-tiles.
    allowed: version -> extensions that the compiler may use; x86-64 only. cores: those that have versions, each before
    its feature levels.
    """

    objects: tuple[Path, ...]
    tiles: Mapping[str, Mapping[str, tuple[str, ...]]]
    plan: TilePlan = UNPLANNED
    allowed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    cores: tuple[Core, ...] = ()

    @property
    def core_set(self) -> CoreSet:
        """The versions of the library, as its selector and its engine number them."""
        return CoreSet(self.cores)

    def code_bytes(self) -> dict[str, int]:
        """Return the bytes of machine code by linkage name, <kernel>.<version>."""
        return {name: size for path in self.objects for name, size in function_symbols(path)}

    @property
    def levels(self) -> tuple[Core, ...]:
        """The feature levels among the versions."""
        return tuple(core for core in self.cores if core.level_of)

    @cached_property
    def needs(self) -> dict[str, frozenset[str]]:
        """The extensions that each kernel's version needs beyond generic's, by linkage name."""
        return kernel_extensions(self.objects, self.allowed)

    def __str__(self) -> str:
        """Return a line for each version of each kernel: symbol, bytes of code, register tiles (pixels x vectors)."""
        lines = []
        for symbol, size in self.code_bytes().items():
            kernel, _, version = symbol.rpartition(".")
            lines.append(" ".join([symbol, str(size), *self.tiles.get(version, {}).get(kernel, ())]) + "\n")
        return "".join(lines)


@dataclass(frozen=True)
class KernelObject:
    """An object file with some kernels' versions for one core.

    label: version. rescheduled: True if the machine passes ran. tiles: register tiles by kernel, as tiles_of.
    """

    label: str
    path: Path
    rescheduled: bool
    tiles: Mapping[str, tuple[str, ...]]


def kernel_tasks(
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    cores: Sequence[Core],
    target: Target,
    folder: Path,
    tuning: Tuning = FAST,
    plan: TilePlan = UNPLANNED,
) -> list[Task[KernelObject]]:
    """Return the tasks that compile every spec for every machine into objects in `folder`, by the plan's macro-tiles.

    Their cost is their estimated time. cores: cores whose profiles may enable machine passes. A task raises ToolError
    with the compiler's message; kernel_code puts the results of all together.
    """
    modules = kernel_modules(specs, machines, cores, target, tuning, plan)
    if any(module.settings.tuned for module in modules):
        import mavcg.assembly.tuning  # noqa: F401 - once, before workers are copies of this process
    return [Task(module.settings.what, partial(_kernel_object, module, folder), module.cost_ms) for module in modules]


def kernel_modules(
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    cores: Sequence[Core],
    target: Target,
    tuning: Tuning = FAST,
    plan: TilePlan = UNPLANNED,
) -> "list[KernelModule]":
    """Return the modules that kernels are compiled in, those with machine passes first."""
    tuned = {core.name: core for core in cores if tuning.on and has_machine_passes(core)}
    orders = ([spec for spec in specs if spec.keeps_order is ordered] for ordered in (False, True))
    parts = [part for some in orders for part in module_parts(some)]
    modules = []
    for label in sorted(machines, key=lambda label: label not in tuned):
        action = f"compiling {'and rescheduling ' if label in tuned else ''}kernels for {label}"
        for number, part in enumerate(parts):
            flags = kernel_flags(machines[label], part)
            settings = CodeSettings(target, tuned.get(label), tuning, action, flags)
            modules.append(KernelModule(f"kernels-{label}-{number}", part, machines[label], label, plan, settings))
    return modules


def module_parts(specs: Sequence[KernelSpec]) -> list[tuple[KernelSpec, ...]]:
    """Cut a network's kernels into modules, after each kernel whose name's digest is a multiple of KERNELS_PER_MODULE.

    So networks with the same sequence of kernels have modules in common, wherever the sequence begins.
    """
    parts: list[tuple[KernelSpec, ...]] = []
    part: list[KernelSpec] = []
    for spec in specs:
        part.append(spec)
        digest = hashlib.sha256(kernel_name(spec).encode()).digest()
        if digest[0] % KERNELS_PER_MODULE == 0 or len(part) == 2 * KERNELS_PER_MODULE:
            parts.append(tuple(part))
            part = []
    return [*parts, tuple(part)] if part else parts


def kernel_code(
    objects: Sequence[KernelObject], machines: Mapping[str, Machine], plan: TilePlan, cores: Sequence[Core] = ()
) -> KernelCode:
    """Return the results of kernel_tasks as KernelCode, in the order of the link, rescheduled objects last.

    cores: of a library.
    """
    tiles: dict[str, dict[str, tuple[str, ...]]] = {label: {} for label in machines}
    for object_file in objects:
        tiles[object_file.label].update(object_file.tiles)
    ordered = sorted(objects, key=lambda object_file: object_file.rescheduled)
    paths = tuple(object_file.path for object_file in ordered)
    return KernelCode(paths, tiles, plan, allowed_extensions(machines.values()), tuple(cores))


@dataclass(frozen=True)
class CodeSettings:
    """The settings that an object of kernels depends on, apart from its IR.

    tuned: the core whose profile enables machine passes, or None. what: description for messages. flags: compiler
    flags.
    """

    target: Target
    tuned: Core | None
    tuning: Tuning
    what: str = field(compare=False)
    flags: tuple[str, ...] = KERNEL_FLAGS


@dataclass(frozen=True)
class KernelModule:
    """A module: some kernels' versions for one core, compiled together.

    name: name of its object file, without suffix. label: version.
    """

    name: str
    specs: tuple[KernelSpec, ...]
    machine: Machine
    label: str
    plan: TilePlan
    settings: CodeSettings

    @property
    def cost_ms(self) -> float:
        """Estimated time to emit and compile the module, in milliseconds."""
        kernel_ms = (
            TUNED_KERNEL_MS if self.settings.tuned else GENERIC_KERNEL_MS if self.label == GENERIC else KERNEL_MS
        )
        return len(self.specs) * kernel_ms

    def text(self) -> str:
        """Return the module's IR text."""
        return kernel_module(self.specs, self.machine, self.label, self.settings.target, self.plan)

    def kernel_object(self, path: Path, text: str) -> KernelObject:
        """Return the description of the object at this path, compiled from this text."""
        return KernelObject(self.label, path, self.settings.tuned is not None, tiles_of(text))


def _kernel_object(module: KernelModule, folder: Path) -> KernelObject:
    text, out = module.text(), folder / f"{module.name}.o"
    with scratch_folder(".mavcg-kernels-", folder) as own:
        made = own / OBJECT_NAME
        compile_kernels(
            text, version_symbol(kernel_name(module.specs[0]), module.label), module.settings, made, open_code()
        )
        made.replace(out)
    return module.kernel_object(out, text)


def compile_kernels(
    text: str, symbol: str, settings: CodeSettings, out: Path, store: EntryStore = NOTHING_KEPT
) -> None:
    """Compile a module's text to an object; schedules of the machine passes are stored for the next build.

    symbol: linkage name of its first kernel's version. store: where code is kept, and found again. Raises: ToolError
    with the compiler's message.
    """
    made = out.with_suffix(".s") if settings.tuned else out
    emit_as = "asm" if settings.tuned else "obj"
    job = CodegenJob(text, settings.target, settings.what, opt_level="2", emit=emit_as, flags=settings.flags)
    compile_module(job, made, store)
    if settings.tuned:
        from mavcg.assembly.tuning import tune_version
        from mavcg.assembly.version_tuning import TuningJob

        question = TuningJob(
            settings.tuned, made.read_text(), symbol, "", symbol, "", True, HEURISTIC_SECONDS, account=False
        )
        tuned_text = tune_version(question, settings.tuning.solver_seconds)[0]
        assemble(tuned_text, out, settings.target, f"assembling {made.name}", store=store)
