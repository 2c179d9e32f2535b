"""The pipeline of `mavcg blas build`: cores -> register tiles, routines, selector -> one library."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mavcg import __version__
from mavcg.choose.tiles.blas_blocks import blas_core_speeds, plan_blas_blocks
from mavcg.cost.board_model import board_model
from mavcg.files.scratch import scratch_folder
from mavcg.files.worker_processes import Task, run_tasks
from mavcg.hardware.core import GENERIC
from mavcg.kernels.blas.dot_products import DotProducts
from mavcg.kernels.blas.vector_product import VectorProduct
from mavcg.model.blas.kernels import compile_kernels, product_tiles
from mavcg.model.blas.request import BlasRequest
from mavcg.model.model_request import Progress
from mavcg.objects.elf import exported_symbols
from mavcg.objects.inspection import loaded_bytes, note_assembly
from mavcg.objects.library import link_shared
from mavcg.objects.link_options import LinkOptions
from mavcg.profiles.load import load_cores
from mavcg.runtime.blas_build import BlasSymbols, blas_object, blas_tables_text
from mavcg.runtime.coreset import NEED_WORDS
from mavcg.runtime.kernel_versions import needs_of_versions
from mavcg.runtime.model_build import selector_task
from mavcg.runtime.model_text import default_spin_us
from mavcg.runtime.needs import X86_BASE, llvm_needs
from mavcg.specs.blas_blocks import ITEM_BYTES, PRODUCT_TYPES, BlasBlocks
from mavcg.toolchain.codegen import assemble
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import run_zig


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
    kernels, needs, core_set = compile_kernels(tiles, board, request, folder, progress)
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
                    "sums": "f16" if block.in_f16 else PRODUCT_TYPES[block.dtype].sums,
                }
                for block in blocks
            },
        },
    }
