"""The kernels of a BLAS library: register tiles and other products for each core and its feature levels, compiled."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from llvmlite import ir

from mavcg.choose.lowering.kernel_code import KERNEL_FLAGS, version_symbol
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.hardware.core import GENERIC
from mavcg.hardware.core_model import BoardModel
from mavcg.kernels.blas.dot_products import DotProducts, emit_dot_products
from mavcg.kernels.blas.product_tile import COLUMNS, FORMS, PACKED, ProductTile
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
from mavcg.specs.blas_blocks import ITEM_BYTES, PRODUCT_TYPES, TALL_COLUMNS, BlasBlocks
from mavcg.specs.kernel import Machine
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import Target

PREFETCHED_TERMS = 8  # prefetch distance of tall tiles in A, in terms

Function = ProductTile | VectorProduct | DotProducts


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
