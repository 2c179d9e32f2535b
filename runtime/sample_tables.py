"""Write csrc/sample/: generated headers of a sample, so that editors, clang-tidy and a test compile each C file alone.

`python -m mavcg.runtime.sample_tables` writes them after a change of the generated tables; a test compares them.
"""

from mavcg.graph import TensorType
from mavcg.graph.counts import Dimension, Length
from mavcg.hardware.core import Core, Midr
from mavcg.runtime.amalgamation import SOURCES
from mavcg.runtime.application_text import ApplicationProgram, PlacedNetwork, application_tables
from mavcg.runtime.blas_build import BlasSymbols, blas_tables_text
from mavcg.runtime.coreset import CoreSet, table_text
from mavcg.runtime.drop_in_text import DropInPart, parts_text, sizes_text
from mavcg.runtime.model_text import EngineOptions, tables_text
from mavcg.specs.blas_blocks import ALL_F16, ITEM_BYTES, BlasBlocks
from mavcg.specs.model_program import (
    OperandAddress,
    PagedWeights,
    Program,
    ProgramState,
    ProgramStep,
    ProgramTensor,
    ThreadPlan,
)

SAMPLE = SOURCES / "sample"
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra")

_CORES = CoreSet(
    (
        Core("cortex-a55", "aarch64", "in", "cortex-a55", "", (Midr(0x41, 0xD05),)),
        Core("cortex-a75", "aarch64", "out", "cortex-a75", "", (Midr(0x41, 0xD0A),)),
    )
)
_OPTIONS = EngineOptions(pages=(PagedWeights(0, 0, 64, "release"), PagedWeights(0, 0, 64, "map")))
_ROW = TensorType("f32", (4, 16))
_STEP = ProgramStep(
    "double",
    "Add",
    "add_1",
    (OperandAddress("input", 0), OperandAddress("constants", 0), OperandAddress("output", 0)),
    4,
    1,
    64,
    (("cortex-a55", 100), ("cortex-a75", 256)),
    row_count=Length("rows"),
)
_PROGRAM = Program(
    "sample",
    (ProgramTensor("x", _ROW, (Length("rows"), 16)),),
    (ProgramTensor("y", _ROW, (Length("rows"), 16)),),
    (_STEP,),
    4096,
    128,
    64,
    4096,
    (ThreadPlan(("cortex-a75",), 2, 1.0),),
    states=(ProgramState("h", _ROW, 1, 1, 0, True), ProgramState("c", _ROW, 2, 2, 256, False, 0)),
    state_bytes=768,
    swapped_bytes=256,
    dimensions=(Dimension("rows", 1, 4),),
)
_BLOCKS = (
    BlasBlocks("f32", 4, 1, 1, 256, 64, 512, 16),
    BlasBlocks("f64", 2, 1, 1, 256, 64, 512, 16),
    BlasBlocks("bf16", 4, 1, 1, 512, 64, 512, 0, step_terms=2),
    BlasBlocks("f16", 4, 1, 1, 256, 64, 512, 0),
    BlasBlocks(ALL_F16, 8, 1, 1, 256, 64, 512, 0, in_f16=True),
)
_APPLICATION = ApplicationProgram("sample_app", (PlacedNetwork(_PROGRAM, 0, 0, frozenset([0])),), 4096, 128)


def sample_tables() -> dict[str, str]:
    """Return the sample's generated headers, by name."""
    versions = {"add_1": ("add_1.generic", "add_1.cortex-a55", "add_1.cortex-a75")}
    tiles = {blocks.dtype: [f"{blocks.dtype}_packed", f"{blocks.dtype}_strided"] for blocks in _BLOCKS}
    others = {dtype: tiles[dtype] for dtype in ITEM_BYTES}
    stems = {name for of_type in tiles.values() for name in of_type}
    needs = {f"{stem}.{label}": frozenset[str]() for stem in stems for label in ("generic", *_CORES.names)}
    speeds = {"generic": 100, "cortex-a55": 100, "cortex-a75": 256}
    return {
        "mavcg_blas_tables.h": blas_tables_text(_BLOCKS, _CORES, BlasSymbols(tiles, others, others), needs, speeds),
        "mavcg_core_table.h": table_text(_CORES, {}),
        "mavcg_parts.h": parts_text("libsample.so", (DropInPart(_PROGRAM, "0123456789abcdef"),)),
        "mavcg_sizes.h": sizes_text((DropInPart(_PROGRAM, ""),)),
        "mavcg_model_tables.h": tables_text(_PROGRAM, _CORES, versions, options=_OPTIONS),
        "mavcg_application_tables.h": application_tables(_APPLICATION),
    }


if __name__ == "__main__":
    for name, text in sample_tables().items():
        (SAMPLE / name).write_text(text, encoding="utf-8")
