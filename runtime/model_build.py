"""Compile a model's engine with its tables, and make an object of its packed constants."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.hardware.core import Core
from mavcg.objects.data_object import write_data_object
from mavcg.runtime.build import runtime_object
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.kernel_versions import KernelNeeds, needs_of_versions, versions_of
from mavcg.runtime.model_header import constants_symbol
from mavcg.runtime.model_text import DEFAULT_OPTIONS, EngineOptions, kernels_of, tables_text
from mavcg.runtime.needs import allowed_extensions, base_needs, kernel_extensions
from mavcg.runtime.unit_object import unit_object
from mavcg.specs.model_program import Program
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import GUARDED_CODE_FLAGS, PLAIN_CODE_FLAGS

Buffer = Any  # bytes, or a NumPy array of them: typing.Buffer is of Python 3.12
TABLES = "mavcg_model_tables.h"
PARTS = "mavcg_parts.h"
SIZES = "mavcg_sizes.h"
APPLICATION_TABLES = "mavcg_application_tables.h"
CONSTANTS_SECTION = ".mavcg_constants"

ENGINE_FLAGS = (
    "-std=c11",
    "-D_GNU_SOURCE",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-Wall",
    "-Wextra",
    "-Werror",
)
# About the time of compiling the engine, the selector, and of packing and writing weights, on one core of a server.
ENGINE_MS, SELECTOR_MS, WEIGHT_BYTES_PER_MS = 220, 240, 200_000
_PAGE_BYTES = 4096  # the smallest page of every target


def build_model_objects(
    program: Program,
    constants: Buffer,
    kernels: Sequence[Path],
    core_set: CoreSet,
    all_cores: Mapping[str, Core],
    target: Target,
    folder: Path,
    options: EngineOptions = DEFAULT_OPTIONS,
) -> tuple[Path, ...]:
    """Build the objects that a model library is linked from, and return their paths.

    They are the kernels, the engine with the model's tables, the constants, and the selector.

    Args:
        constants: program.constants_bytes bytes.
        kernels: objects that define `<kernel>.generic` for each kernel of the program, and `<kernel>.<core>` for a core
            that has a version of its own; another core runs the version of its first stand-in that has one, else
            generic.
        folder: folder for the objects.
    Raises: MavcgError for a target that is not Linux, a kernel without a generic version, and constants of another
    size; ToolError if compilation fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    needs = kernel_extensions(kernels, allowed_extensions(core_set.cores))
    symbol = constants_symbol(program)
    tasks = (
        engine_task(program, needs, core_set, target, folder, options),
        constants_task(lambda: [constants], program.constants_bytes, symbol, target, folder, f"model {program.name}"),
        selector_task(needs, core_set, all_cores, target, folder),
    )
    return (*kernels, *run_tasks(tasks, 1))


def engine_task(
    program: Program,
    needs: KernelNeeds,
    core_set: CoreSet,
    target: Target,
    folder: Path,
    options: EngineOptions = DEFAULT_OPTIONS,
) -> Task[Path]:
    """Return the task that makes the object of a model's engine.

    needs: of the kernels' versions. Raises: MavcgError for a target that is not Linux, and a kernel without a generic
    version.
    """
    if target.system == "macos":
        raise MavcgError(
            f"--target {target.zig_name}: model libraries are built for Linux and Android only; take another target"
        )
    versions = {kernel: versions_of(kernel, needs, core_set) for kernel in kernels_of(program)}
    tables = tables_text(program, core_set, versions, base_needs(target.arch, options.base_extensions), options)
    return Task("compiling the engine", partial(engine_object, tables, target, folder / "mavcg_engine.o"), ENGINE_MS)


def constants_task(
    constants: Callable[[], Iterable[Buffer]], size: int, symbol: str, target: Target, folder: Path, owner: str
) -> Task[Path]:
    """Return the task that makes the object of packed constants.

    constants: packs them, in consecutive pieces. size: their size in bytes. owner: what they belong to, for errors.
    """

    def make_constants() -> Path:
        return constants_object(_pieces_of_size(constants(), size, owner), symbol, target, folder / "mavcg_constants.o")

    return Task("packing weights", make_constants, size / WEIGHT_BYTES_PER_MS)


def selector_task(
    needs: KernelNeeds, core_set: CoreSet, all_cores: Mapping[str, Core], target: Target, folder: Path
) -> Task[Path]:
    """Return the task that compiles the selector of a library; it has one, for any number of models.

    A core's versions are chosen only where the kernel offers every extension that one of them needs: the engine looks a
    thread's core up once, for all kernels. needs: of the kernels' versions.
    """
    private = core_set.with_needs(needs_of_versions(needs, core_set), private=True)
    make_selector = partial(runtime_object, private, all_cores, target, folder)
    return Task("compiling the selector", make_selector, SELECTOR_MS)


def drop_in_task(parts: str, target: Target, folder: Path) -> Task[Path]:
    """Return the task that makes the object of the entries for other runtimes. parts: text of mavcg_parts.h."""
    made = folder / "mavcg_drop_in.o"
    return Task("compiling the entries", partial(engine_object, parts, target, made, "drop_in", PARTS))


def sizes_task(sizes: str, target: Target, folder: Path) -> Task[Path]:
    """Return the task that makes the object by which programs find a model's sizes. sizes: text of mavcg_sizes.h."""
    made = folder / "mavcg_sizes.o"
    return Task("compiling the sizes", partial(engine_object, sizes, target, made, "sizes", SIZES))


def application_task(tables: str, target: Target, folder: Path) -> Task[Path]:
    """Return the task that makes the object that an application's networks share.

    tables: text of mavcg_application_tables.h.
    """
    made = folder / "mavcg_application.o"
    make_object = partial(engine_object, tables, target, made, "application", APPLICATION_TABLES)
    return Task("compiling the application", make_object)


def engine_object(tables: str, target: Target, out: Path, unit: str = "engine", header: str = TABLES) -> Path:
    """Compile the engine (csrc/engine_*.c), or another unit, with its tables, and return out.

    header: name by which the unit includes the tables.
    """
    return unit_object(unit, header, tables, target, [*_code_flags(target), *ENGINE_FLAGS], out)


def _code_flags(target: Target) -> tuple[str, ...]:
    """Return flags that use a stack protector if the C library supports it.

    For Android, the engine is compiled as for musl, whose guard symbol differs from bionic's. zig obeys
    -fno-stack-protector whatever follows it, so the flag must be absent for other systems.
    """
    return PLAIN_CODE_FLAGS if target.system == "linux-android" else (*GUARDED_CODE_FLAGS, "-fstack-protector-strong")


def _pieces_of_size(pieces: Iterable[Buffer], size: int, owner: str) -> Iterator[Buffer]:
    """Yield the pieces. Raises: MavcgError at their end if they do not have this number of bytes."""
    given_bytes = 0
    for piece in pieces:
        given_bytes += memoryview(piece).nbytes
        yield piece
    if given_bytes != size:
        raise MavcgError(f"{owner}: {given_bytes} bytes of constants, not {size}")


def constants_object(constants: Iterable[Buffer], symbol: str, target: Target, out: Path) -> Path:
    """Write an object with these bytes in a read-only section of their own, and return out.

    constants: consecutive pieces. The section starts at a page, under a hidden symbol.
    """
    with scratch_folder(".mavcg-constants-", out.parent) as scratch:
        made = scratch / out.name
        write_data_object(constants, symbol, CONSTANTS_SECTION, _PAGE_BYTES, target.arch, made)
        os.replace(made, out)
    return out
