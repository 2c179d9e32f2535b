"""The kernels of a BLAS library: register tiles and other products for each core and its feature levels, compiled."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from llvmlite import ir

from mavcg.assembly.tuning_options import has_machine_passes
from mavcg.choose.lowering.kernel_code import KERNEL_FLAGS, CodeSettings, version_symbol
from mavcg.choose.lowering.kernel_code import compile_kernels as compile_text
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.core_model import BoardModel
from mavcg.kernels.blas.dot_products import DotProducts, emit_dot_products
from mavcg.kernels.blas.half_tile import emit_half_tile
from mavcg.kernels.blas.product_tile import COLUMNS, FORMS, PACKED, TERMS, ProductTile
from mavcg.kernels.blas.tile_pass import emit_product_tile
from mavcg.kernels.blas.vector_product import VectorProduct, emit_vector_product
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.model.blas.request import BlasRequest
from mavcg.model.kernel_levels import next_levels, with_new_levels
from mavcg.model.model_request import Progress
from mavcg.passes.ir.protection import protect
from mavcg.runtime.coreset import CoreSet
from mavcg.runtime.kernel_versions import KernelNeeds
from mavcg.runtime.needs import allowed_extensions, kernel_extensions
from mavcg.specs.blas_blocks import ALL_F16, ITEM_BYTES, PRODUCT_TYPES, TALL_COLUMNS, BlasBlocks
from mavcg.specs.kernel import Machine
from mavcg.toolchain.target import Target

PREFETCHED_TERMS = 8  # prefetch distance of tall tiles in A, in terms

Function = ProductTile | VectorProduct | DotProducts


def product_tiles(blocks: BlasBlocks) -> tuple[ProductTile, ...]:
    """Return the register tiles of a type, in the order of the table in C.

    The order is by form, by narrow or number of units, and by number of columns; tall tiles follow, by columns, then
    wide ones, by form, narrow or not, and columns. A type that is converted when it is packed has the tiles of its
    sums; what is multiplied in 16 bits has packed tiles only.
    """
    packed = blocks.step_terms > 1 or blocks.in_f16
    dtype = blocks.dtype if packed else PRODUCT_TYPES[blocks.dtype].sums
    heights = [(1, True)] if blocks.narrow_rows else []
    heights += [(units, False) for units in range(1, blocks.units + 1)]
    regular = [
        ProductTile(dtype, blocks.lanes, units, columns, form, narrow, step_terms=blocks.step_terms)
        for form in ((PACKED,) if packed else FORMS)
        for units, narrow in heights
        for columns in range(1, blocks.columns + 1)
    ]
    tall = [
        ProductTile(dtype, blocks.lanes, blocks.tall_units, columns, COLUMNS, prefetched_terms=PREFETCHED_TERMS)
        for columns in range(1, TALL_COLUMNS + 1)
    ]
    wide = [
        ProductTile(dtype, blocks.lanes, 1, columns, form, narrow)
        for form in (TERMS, COLUMNS)
        for narrow in ((True, False) if blocks.narrow_rows else (False,))
        for columns in range(blocks.columns + 1, blocks.wide_columns + 1)
    ]
    return (*regular, *(tall if blocks.tall_units and not packed else ()), *(() if packed else wide))


def compile_kernels(
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
        tasks = [Task(job.action, partial(_tile_object, job, request, folder)) for job in jobs]
        return run_tasks(tasks, request.workers, progress)

    machines, cores = board.machines, request.cores
    tuned = {core.name: core for core in cores if request.tuning.on and has_machine_passes(core)}
    objects = compile_jobs(job for label in machines for job in _jobs(tiles, machines[label], label, tuned.get(label)))
    needs = kernel_extensions(objects, allowed_extensions(machines.values()))
    while levels := next_levels(needs, cores, machines[GENERIC], request.target, request.levels):
        made = compile_jobs(
            replace(job, functions=own)
            for level in levels
            for job in _jobs(tiles, level.machine, level.core.name, tuned.get(level.core.level_of))
            if (own := tuple(function for function in job.functions if function.symbol in level.kernels))
        )
        needs |= kernel_extensions(made, allowed_extensions(level.machine for level in levels))
        objects, cores = [*objects, *made], with_new_levels(cores, levels)
    return objects, needs, CoreSet(cores)


@dataclass(frozen=True)
class _TileJob:
    """Functions of one version that are compiled together. tuned: the core that they are rescheduled for, or None."""

    functions: tuple[Function, ...]
    machine: Machine
    label: str
    number: int
    tuned: Core | None

    @property
    def action(self) -> str:
        """The words of its task."""
        return f"compiling {'and rescheduling ' if self.tuned else ''}kernels for {self.label}"


def _jobs(
    tiles: Mapping[str, tuple[ProductTile, ...]], machine: Machine, label: str, tuned: Core | None
) -> list[_TileJob]:
    """Return a version's compile jobs: tiles by type and form, and the other products.

    tuned: the core that packed tiles of all rows are rescheduled for, where large products spend their time; other
    tiles compute edges and small products, and would take four times as long to build.
    """
    whole, parts = list[tuple[Function, ...]](), list[tuple[Function, ...]]()
    for of_dtype in tiles.values():
        most = max(tile.rows for tile in of_dtype if tile.form == PACKED)
        whole.append(tuple(tile for tile in of_dtype if tile.form == PACKED and tile.rows == most))
        parts += [tuple(t for t in of_dtype if t.form == form and t not in whole[-1]) for form in FORMS]
    parts[0] += tuple(VectorProduct(dtype, sums) for dtype in ITEM_BYTES for sums in (False, True))
    parts[0] += tuple(DotProducts(dtype) for dtype in ITEM_BYTES)
    jobs = [(part, tuned) for part in whole] + [(part, None) for part in parts if part]
    return [_TileJob(part, machine, label, number, core) for number, (part, core) in enumerate(jobs)]


def _tile_object(job: _TileJob, request: BlasRequest, folder: Path) -> Path:
    text = function_module(job.functions, job.machine, job.label, request.target)
    out = folder / f"tiles-{job.label}-{job.number}.o"
    settings = CodeSettings(request.target, job.tuned, request.tuning, job.action, KERNEL_FLAGS)
    compile_text(text, version_symbol(job.functions[0].symbol, job.label), settings, out)
    return out


def function_module(functions: Sequence[Function], machine: Machine, label: str, target: Target) -> str:
    """Return the IR text of these functions for one core's version."""
    module = ir.Module("blas")
    module.triple = target.llvm_triple
    for function in functions:
        match function:
            case ProductTile() if function.dtype == ALL_F16:
                emit_half_tile(module, machine, function)
            case ProductTile():
                emit_product_tile(module, machine, function)
            case VectorProduct():
                emit_vector_product(module, machine, function)
            case DotProducts():
                emit_dot_products(module, machine, function)
    text = protect(add_core_attributes(module, machine), target.arch)
    for function in functions:
        text = text.replace(f'@"{function.symbol}"', f'@"{version_symbol(function.symbol, label)}"')
    return text
