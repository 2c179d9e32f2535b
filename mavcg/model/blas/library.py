"""The pipeline of `mavcg blas build`: cores -> register tiles, routines, selector -> one library."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from llvmlite import ir

from mavcg import __version__
from mavcg.choose.lowering.kernel_code import KERNEL_FLAGS, version_symbol
from mavcg.choose.tiles.blas_blocks import blas_core_speeds, plan_blas_blocks
from mavcg.cost.board_model import board_model
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.hardware.board import Board
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.core_model import BoardModel
from mavcg.hardware.feature_levels import MODELLED_LEVELS
from mavcg.kernels.blas.dot_products import DotProducts, emit_dot_products
from mavcg.kernels.blas.product_tile import COLUMNS, FORMS, PACKED, ProductTile
from mavcg.kernels.blas.tile_pass import emit_product_tile
from mavcg.kernels.blas.vector_product import VectorProduct, emit_vector_product
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.model.kernel_levels import next_levels, with_new_levels
from mavcg.objects.elf import exported_symbols
from mavcg.objects.inspection import loaded_bytes, note_assembly
from mavcg.objects.library import link_shared
from mavcg.objects.link_options import LinkOptions
from mavcg.passes.ir.protection import protect
from mavcg.profiles.load import load_cores
from mavcg.runtime.blas_build import BlasSymbols, blas_object, blas_tables_text
from mavcg.runtime.coreset import NEED_WORDS, CoreSet
from mavcg.runtime.kernel_versions import KernelNeeds, needs_of_versions
from mavcg.runtime.model_build import selector_task
from mavcg.runtime.model_text import default_spin_us
from mavcg.runtime.needs import X86_BASE, allowed_extensions, kernel_extensions, llvm_needs
from mavcg.specs.blas_blocks import ITEM_BYTES, PRODUCT_TYPES, TALL_COLUMNS, BlasBlocks
from mavcg.specs.kernel import Machine
from mavcg.toolchain.codegen import CodegenJob, assemble, compile_module, default_workers
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import run_zig

PREFETCHED_TERMS = 8  # prefetch distance of tall tiles in A, in terms

Progress = Callable[[str], None]
Function = ProductTile | VectorProduct | DotProducts


@dataclass(frozen=True)
class BlasRequest:
    """Everything that a BLAS library depends on.

    board: for whose caches the blocks are planned. ilp64: integers are 64-bit in routines whose names have no suffix.
    soname: None for the file's name. next_library: library of the other routines, loaded together with this one.
    levels: of LEVELS, the feature levels of cores that get versions (kernel_levels.py).
    """

    output: Path
    target: Target
    cores: tuple[Core, ...]
    board: Board | None = None
    ilp64: bool = False
    soname: str | None = None
    next_library: Path | None = None
    strip: bool = False
    workers: int = field(default_factory=default_workers)
    levels: str = MODELLED_LEVELS


@dataclass(frozen=True)
class BlasResult:
    """A built library, with its note."""

    output: Path
    note: Mapping[str, Any]
    loaded_bytes: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the document of `mavcg blas build --json`."""
        return {
            "library": str(self.output),
            **self.note,
            "loaded_bytes": self.loaded_bytes,
            "seconds": round(self.seconds, 3),
        }


def build_blas(request: BlasRequest, progress: Progress = lambda message: None) -> BlasResult:
    """Build the library. Raises: MavcgError; nothing is written then."""
    started = time.monotonic()
    with scratch_folder("mavcg-blas-") as folder:
        objects, note = blas_objects(request, folder, progress)
        note_object = folder / "blas-note.o"
        assemble(note_assembly(note, request.target), note_object, request.target, "the library's note")
        progress(f"linking {request.output}")
        linker_options = ["-Wl,-z,nodelete"]  # its threads sleep in its code: it must not be unloaded
        if request.next_library is not None:  # no symbol of it is used, so the linker would drop it
            linker_options += ["-Wl,--no-as-needed", str(next_stub(request.next_library, request.target, folder))]
        options = LinkOptions(options=tuple(linker_options), soname=request.soname, strip=request.strip)
        link_shared([*objects, note_object], request.output, request.target, options=options)
    return BlasResult(request.output, note, loaded_bytes(request.output), time.monotonic() - started)


def blas_objects(
    request: BlasRequest, folder: Path, progress: Progress = lambda message: None
) -> tuple[list[Path], dict[str, Any]]:
    """Compile the library's objects into `folder`, and return them with the note.

    Raises: ToolError with the compiler's message.
    """
    board = board_model(request.cores, request.target, request.board)
    blocks = [plan_blas_blocks(dtype, board.versions, board.counts) for dtype in PRODUCT_TYPES]
    of_dtype = {block.dtype: product_tiles(block) for block in blocks}
    tiles = {dtype: of_dtype[dtype] for dtype in of_dtype if of_dtype[dtype][0].dtype == dtype}  # without the converted
    kernels, needs, core_set = _kernels(tiles, board, request, folder, progress)
    symbols = {dtype: [tile.symbol for tile in of_one] for dtype, of_one in of_dtype.items()}
    vectors = {dtype: [VectorProduct(dtype, sums).symbol for sums in (False, True)] for dtype in ITEM_BYTES}
    dots = {dtype: [DotProducts(dtype).symbol] for dtype in ITEM_BYTES}
    tables = blas_tables_text(
        blocks,
        core_set,
        BlasSymbols(symbols, vectors, dots),
        needs,
        blas_core_speeds(blocks[0], board.versions),
        llvm_needs(X86_BASE, ()) if request.target.arch == "x86_64" else (0,) * NEED_WORDS,
        default_spin_us(request.board),
    )
    routines = folder / "blas.o"
    tasks = [
        Task("compiling the routines", partial(blas_object, tables, request.target, request.ilp64, routines)),
        selector_task(needs, core_set, load_cores(request.target.arch), request.target, folder),
    ]
    objects = [*kernels, *run_tasks(tasks, request.workers, progress)]
    needs_of = {GENERIC: [], **{label: list(names) for label, names in needs_of_versions(needs, core_set).items()}}
    return objects, blas_note(request, blocks, needs_of, _routines(routines))


def _kernels(
    tiles: Mapping[str, tuple[ProductTile, ...]],
    board: BoardModel,
    request: BlasRequest,
    folder: Path,
    progress: Progress,
) -> tuple[list[Path], KernelNeeds, CoreSet]:
    """Compile the kernels for generic, each core and its feature levels.

    tiles: by type. Returns: the objects, what each version needs, and the cores and levels that have versions.
    """

    def compile_jobs(jobs: Iterator[_TileJob]) -> list[Path]:
        tasks = [
            Task(f"compiling kernels for {job.label}", partial(_tile_object, job, request.target, folder))
            for job in jobs
        ]
        return run_tasks(tasks, request.workers, progress)

    machines, cores = board.machines, request.cores
    objects = compile_jobs(job for label in machines for job in _jobs(tiles, machines[label], label))
    needs = kernel_extensions(objects, allowed_extensions(machines.values()))
    while levels := next_levels(needs, cores, machines[GENERIC], request.target, request.levels):
        made = compile_jobs(
            replace(job, functions=own)
            for level in levels
            for job in _jobs(tiles, level.machine, level.core.name)
            if (own := tuple(function for function in job.functions if function.symbol in level.kernels))
        )
        needs |= kernel_extensions(made, allowed_extensions(level.machine for level in levels))
        objects, cores = [*objects, *made], with_new_levels(cores, levels)
    return objects, needs, CoreSet(cores)


def next_stub(library: Path, target: Target, folder: Path) -> Path:
    """Write an empty library whose soname is this path; linking with it makes the loader load that file.

    The loader treats a name with a slash as a path, so it does not confuse the two even if both are called
    libblas.so.3.
    """
    out = folder / "next.so"
    source = folder / "next.c"
    source.write_text("")
    flags = ["-target", target.zig_name, "-shared", "-nostdlib", "-Xlinker", "-soname", "-Xlinker", str(library)]
    run_zig("cc", [*flags, str(source), "-o", str(out)], "naming the next BLAS")
    return out


def _routines(path: Path) -> list[str]:
    """Return the BLAS routines that the object exports, without the functions that set the number of threads."""
    return sorted(name for name in exported_symbols(path) if not name.startswith("mavcg_"))


def product_tiles(blocks: BlasBlocks) -> tuple[ProductTile, ...]:
    """Return the register tiles of a type, in the order of the table in C.

    The order is by form, by narrow or number of units, and by number of columns; tall tiles follow, by columns. A type
    that is converted when it is packed has the tiles of its sums; pairs of bf16 have packed tiles only.
    """
    pairs = blocks.step_terms > 1
    dtype = blocks.dtype if pairs else PRODUCT_TYPES[blocks.dtype].sums
    heights = [(1, True)] if blocks.narrow_rows else []
    heights += [(units, False) for units in range(1, blocks.units + 1)]
    regular = [
        ProductTile(dtype, blocks.lanes, units, columns, form, narrow, step_terms=blocks.step_terms)
        for form in ((PACKED,) if pairs else FORMS)
        for units, narrow in heights
        for columns in range(1, blocks.columns + 1)
    ]
    tall = [
        ProductTile(dtype, blocks.lanes, blocks.tall_units, columns, COLUMNS, prefetched_terms=PREFETCHED_TERMS)
        for columns in range(1, TALL_COLUMNS + 1)
    ]
    return (*regular, *(tall if blocks.tall_units and not pairs else ()))


@dataclass(frozen=True)
class _TileJob:
    """Functions of one version that are compiled together."""

    functions: tuple[Function, ...]
    machine: Machine
    label: str
    number: int


def _jobs(tiles: Mapping[str, tuple[ProductTile, ...]], machine: Machine, label: str) -> list[_TileJob]:
    """Return a version's compile jobs: tiles by type and form, about equal in work, and the other products."""
    parts: list[tuple[Function, ...]] = [
        part for of_dtype in tiles.values() for form in FORMS if (part := tuple(t for t in of_dtype if t.form == form))
    ]
    parts[0] += tuple(VectorProduct(dtype, sums) for dtype in ITEM_BYTES for sums in (False, True))
    parts[0] += tuple(DotProducts(dtype) for dtype in ITEM_BYTES)
    return [_TileJob(part, machine, label, number) for number, part in enumerate(parts)]


def _tile_object(job: _TileJob, target: Target, folder: Path) -> Path:
    out = folder / f"tiles-{job.label}-{job.number}.o"
    message = f"compiling kernels for {job.label}"
    compile_module(
        CodegenJob(
            function_module(job.functions, job.machine, job.label, target),
            target,
            message,
            "2",
            emit="obj",
            flags=KERNEL_FLAGS,
        ),
        out,
    )
    return out


def function_module(functions: Sequence[Function], machine: Machine, label: str, target: Target) -> str:
    """Return the IR text of these functions for one core's version."""
    module = ir.Module("blas")
    module.triple = target.llvm_triple
    for function in functions:
        if isinstance(function, ProductTile):
            emit_product_tile(module, machine, function)
        elif isinstance(function, VectorProduct):
            emit_vector_product(module, machine, function)
        else:
            emit_dot_products(module, machine, function)
    text = protect(add_core_attributes(module, machine), target.arch)
    for function in functions:
        text = text.replace(f'@"{function.symbol}"', f'@"{version_symbol(function.symbol, label)}"')
    return text


def blas_note(
    request: BlasRequest, blocks: list[BlasBlocks], needs: Mapping[str, Sequence[str]], routines: list[str]
) -> dict[str, Any]:
    """Return the note that `mavcg inspect` prints. needs: version -> extensions that its instructions need."""
    return {
        "mavcg": __version__,
        "blas": {
            "routines": routines,
            "next": str(request.next_library) if request.next_library is not None else None,
            "integer_bits": 64 if request.ilp64 else 32,
            "versions": list(needs),
            "extensions": {label: list(own) for label, own in needs.items()},
            "blocks": {
                block.dtype: {
                    "rows": block.rows,
                    "columns": block.columns,
                    "kc": block.kc,
                    "mc": block.mc,
                    "nc": block.nc,
                    "step_terms": block.step_terms,
                }
                for block in blocks
            },
        },
    }


def check_output(path: Path) -> None:
    """Raise MavcgError if the library cannot be written there."""
    if path.is_dir():
        raise MavcgError(f"-o {path}: is a folder; name a file in it")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise MavcgError(f"-o {path}: the folder {path.parent} does not exist or is not writable; name another output")
