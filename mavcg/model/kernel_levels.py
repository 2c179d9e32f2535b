"""Compiles a library's kernels, with versions for the feature levels of cores, for machines that hide extensions.

All kernels that a core runs are one version, chosen where the kernel of the system offers all that they need. A level
runs the code of the one above it for every kernel that needs nothing which the level lacks. Only of the others it has
code of its own, and only where that is known to gain over the generic version: on an in-order core, for which it is
scheduled, and for 8-bit numbers where the level still has dot products, which generic has not.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.choose.lowering.kernel_code import KernelCode, kernel_code, kernel_tasks
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.feature_levels import ALL_LEVELS, NO_LEVELS, lower_levels
from mavcg.kernels.builder.emit import kernel_name
from mavcg.model.model_request import CodeContext
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.kernel_versions import KernelNeeds, level_label, needs_of_versions
from mavcg.runtime.machines import machines_for
from mavcg.runtime.needs import base_extensions, compiler_extensions, kernel_usable_extensions
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.tile_plan import TilePlan
from mavcg.toolchain.target import Target

# Extensions with products of 8-bit numbers: any of them makes a machine's dot_product, matrix_product or int8_tiles.
EIGHT_BIT = frozenset({"amx-int8", "avx512vnni", "avxvnni", "dotprod", "i8mm"})


@dataclass(frozen=True)
class NewLevel:
    """A feature level to be added to a library. kernels: names of those that get code of their own for it."""

    core: Core
    machine: Machine
    kernels: frozenset[str]


def library_kernels(
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    tiles: TilePlan,
    context: CodeContext,
    beside: Sequence[Task[Path]] = (),
) -> tuple[KernelCode, list[Path]]:
    """Compile a library's kernels, and run the tasks beside; return the code, and the tasks' results.

    machines: of generic and the cores, by label. Raises: ToolError with the compiler's message.
    """
    tasks = kernel_tasks(specs, machines, context.cores, context.target, context.folder, context.tuning, tiles)
    results: list[Any] = run_tasks([*beside, *tasks], context.workers, context.progress)
    code = kernel_code(results[len(beside) :], machines, tiles, context.cores)
    return with_levels(code, specs, machines, context), results[: len(beside)]


def with_levels(
    code: KernelCode,
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    context: CodeContext,
) -> KernelCode:
    """Return a library's code with the requested feature levels. Arguments, Raises: as library_kernels."""
    while levels := next_levels(code.needs, code.cores, machines[GENERIC], context.target, context.levels):
        code = _with_next_levels(code, levels, specs, machines, context)
    return code


def next_levels(
    needs: KernelNeeds, cores: Sequence[Core], generic: Machine, target: Target, levels: str
) -> tuple[NewLevel, ...]:
    """Return the next feature level of each core that is worth adding; () if there is none.

    needs: of the versions that there are. cores: those with versions, each before the levels that it has so far.
    levels: of LEVELS; ALL_LEVELS: kernels get code of their own wherever that of the level above cannot run.
    """
    if levels == NO_LEVELS:
        return ()
    needed = needs_of_versions(needs, CoreSet(tuple(cores)))
    kernels = [name.removesuffix(f".{GENERIC}") for name in needs if name.endswith(f".{GENERIC}")]
    added = []
    for core in (core for core in cores if not core.level_of):
        ladder = [level for level in cores if level.core_type == core.name]
        level = _next_level(ladder, needed[ladder[-1].name], generic)
        if level is None:
            continue
        machine = machines_for([level], target)[level.name]
        run = {kernel: level_label(kernel, [*ladder, level], needs) for kernel in kernels}
        own = frozenset(
            kernel
            for kernel, label in run.items()
            if label == GENERIC
            and level_label(kernel, ladder, needs) != GENERIC
            and (levels == ALL_LEVELS or _gains(machine, needs[f"{kernel}.{level_label(kernel, ladder, needs)}"]))
        )
        if own or set(run.values()) != {GENERIC}:
            added.append(NewLevel(level, machine, own))
    return tuple(added)


def with_new_levels(cores: Sequence[Core], levels: Sequence[NewLevel]) -> tuple[Core, ...]:
    """Return the cores with new levels, each after the last one of its core."""
    types = dict.fromkeys(core.core_type for core in cores)
    all_cores = (*cores, *(level.core for level in levels))
    return tuple(core for name in types for core in all_cores if core.core_type == name)


def _next_level(ladder: Sequence[Core], needed: Sequence[str], generic: Machine) -> Core | None:
    """Return the richest level below a ladder that lacks something needed; None if no level of a library does.

    A level of a library has all that its generic version may use.
    """
    core, names = ladder[0], {level.name for level in ladder}
    below = [level for level in lower_levels(core, kernel_usable_extensions(core)) if _has_base(level, generic)]
    start = max((number for number, level in enumerate(below, 1) if level.name in names), default=0)
    return next((level for level in below[start:] if not kernel_usable_extensions(level) >= set(needed)), None)


def _has_base(level: Core, generic: Machine) -> bool:
    if level.arch == "aarch64":
        return kernel_usable_extensions(level) >= set(base_extensions(generic))
    base = compiler_extensions(generic.llvm_cpu, generic.llvm_features)
    return compiler_extensions(level.llvm_cpu, level.llvm_features) >= base


def _gains(machine: Machine, above: Set[str]) -> bool:
    """True if a kernel is known to gain by code for a level. above: what the version needs that cannot run there."""
    return machine.in_order or (machine.dot_product and bool(above & EIGHT_BIT))


def _with_next_levels(
    code: KernelCode,
    levels: Sequence[NewLevel],
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    context: CodeContext,
) -> KernelCode:
    """Return the code with these levels, their kernels compiled."""
    tasks, of_levels, tiles = [], dict[str, Machine](), dict(code.plan.tiles)
    for level in levels:
        label, own = level.core.name, [spec for spec in specs if kernel_name(spec) in level.kernels]
        of_levels[label] = level.machine
        # Macro-tiles suit vectors of one size: those of the core, or else of the generic version.
        of_core = machines[level.core.core_type]
        source = of_core.name if of_core.vector_bytes == level.machine.vector_bytes else GENERIC
        planned = {(kernel_name(spec), label): code.plan.of(kernel_name(spec), source) for spec in own}
        tiles |= {key: macro for key, macro in planned.items() if macro is not None}
        one = {label: level.machine}
        tasks += kernel_tasks(own, one, [level.core], context.target, context.folder, context.tuning, TilePlan(tiles))
    made = kernel_code(run_tasks(tasks, context.workers, context.progress), of_levels, TilePlan(tiles))
    cores = with_new_levels(code.cores, levels)
    all_tiles = {**code.tiles, **made.tiles}
    return KernelCode(
        (*code.objects, *made.objects),
        {label: all_tiles[label] for label in (GENERIC, *(core.name for core in cores))},
        made.plan,
        {**code.allowed, **made.allowed},
        cores,
    )
