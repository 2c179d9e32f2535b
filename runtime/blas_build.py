"""Compilation of the routines of a BLAS library, with the tables of its kernels as C text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.hardware.core import GENERIC
from mavcg.runtime.c_arrays import static_array
from mavcg.runtime.core_speeds import MAX_SPEED
from mavcg.runtime.coreset import NEED_WORDS, CoreSet
from mavcg.runtime.kernel_versions import KernelNeeds, versions_of
from mavcg.runtime.model_build import ENGINE_FLAGS
from mavcg.runtime.model_text import DEFAULT_SPIN_US
from mavcg.runtime.unit_object import unit_object
from mavcg.specs.blas_blocks import PRODUCT_TYPES, TALL_COLUMNS, BlasBlocks
from mavcg.text.safe_text import c_string, comment
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import GUARDED_CODE_FLAGS

BLAS_TABLES = "mavcg_blas_tables.h"


@dataclass(frozen=True)
class BlasSymbols:
    """The symbols of a BLAS library's kernels without versions, by element type.

    tiles: register tiles by form, then rows (narrow where there is such a tile, then units, from 1 on), then columns;
    then the tall tiles by columns. Those of bf16 in pairs and of f16 are the packed ones alone; types that are
    converted have those of their sums. vector_products: products with a vector by columns, then sums. dot_products:
    that of columns with columns.
    """

    tiles: Mapping[str, Sequence[str]]
    vector_products: Mapping[str, Sequence[str]]
    dot_products: Mapping[str, Sequence[str]]


def blas_tables_text(
    blocks: Sequence[BlasBlocks],
    core_set: CoreSet,
    symbols: BlasSymbols,
    needs: KernelNeeds,
    speeds: Mapping[str, int],
    base_needs: Sequence[int] = (0,) * NEED_WORDS,
    spin_us: int = DEFAULT_SPIN_US,
) -> str:
    """Return mavcg_blas_tables.h.

    blocks: of the types of PRODUCT_TYPES, in this order. needs: of the kernels' versions (kernel_versions.py). speeds:
    of generic and each core, in one unit, 1 to MAX_SPEED; a feature level has its core's. base_needs: CPUID bits that
    every version needs (csrc/x86_needs.h). spin_us: time that waiting threads poll before they sleep.
    Raises: MavcgError without a generic version.
    """
    assert all(1 <= speed <= MAX_SPEED for speed in speeds.values())
    labels = (GENERIC, *(core.core_type for core in core_set.cores))
    names = (GENERIC, *core_set.names)
    speed_lines = [f"{speeds[label]}, /* {comment(name)} */" for label, name in zip(labels, names, strict=True)]
    rows = ["{" + ", ".join(map(str, _fields(block))) + "}, " + f"/* {block.dtype} */" for block in blocks]
    parts = [
        "/* Register tiles of a BLAS library. Made by mavcg. */\n",
        f"#define MAVCG_SET {core_set.tag}\n#define VERSIONS {core_set.version_count}\n",
        static_array("const uint32_t base_needs[MAVCG_NEED_WORDS]", [", ".join(f"{word:#x}" for word in base_needs)]),
        static_array("const struct blas_blocks blocks_table[]", rows),
        f"#define TALL_COLUMNS {TALL_COLUMNS}\n#define SPIN_US {spin_us}\n",
        f"#define EQUAL_CORES {int(len(set(speeds.values())) == 1)}\n",
        static_array("void *const core_ids[]", [f"(void *){number}," for number in range(core_set.version_count)]),
        f"static uint64_t core_runs[{core_set.version_count}];\n",
        static_array("const uint16_t core_speeds[]", [speed_lines[0], *speed_lines]),
    ]
    for stem, kind, of_types, routine in (
        ("product", "blas_tile", symbols.tiles, "gemm"),
        ("vector", "blas_vector_product", symbols.vector_products, "gemv"),
        ("dot", "blas_dot_products", symbols.dot_products, "gemm"),
    ):
        parts += _versions(stem, kind, of_types, routine, core_set, needs)
    return "".join(parts)


def _fields(b: BlasBlocks) -> tuple[int, ...]:
    """Return the fields of struct blas_blocks (csrc/blas.h)."""
    given = PRODUCT_TYPES[b.dtype].given_bytes
    shape = b.lanes, b.narrow_rows, b.rows, b.columns, b.kc, b.mc, b.nc, b.dot_columns, b.tall_rows, b.wide_columns
    return b.item_bytes, given, b.packed_bytes, b.step_terms, *shape


def _versions(
    stem: str,
    kind: str,
    symbols: Mapping[str, Sequence[str]],
    routine: str,
    core_set: CoreSet,
    needs: KernelNeeds,
) -> list[str]:
    """Return the tables of functions of this kind, one for each type and version, from which the selector chooses.

    Cores that run the same versions of all functions have one table.
    """
    parts, versions = [], []
    for dtype, of_type in symbols.items():
        # For generic and each core, the versions of all functions that it runs.
        run = list(zip(*(versions_of(symbol, needs, core_set) for symbol in of_type), strict=True))
        for number, linkage_names in enumerate(run):
            if run.index(linkage_names) < number:
                continue
            table = f"{stem}_{dtype}_{number}"
            names = [f"{table}_{i}" for i in range(len(of_type))]
            parts += [
                f'extern {kind} {name} __asm__({c_string(theirs)}) __attribute__((visibility("hidden")));\n'
                for name, theirs in zip(names, linkage_names, strict=True)
            ]
            parts.append(static_array(f"{kind} *const {table}[]", [f"{name}," for name in names]))
        tables = ["0", *(f"(void *){stem}_{dtype}_{run.index(linkage_names)}" for linkage_names in run)]
        versions.append("{" + ", ".join(tables) + "},")
    functions = [
        f"{{{c_string(PRODUCT_TYPES[dtype].prefix + routine)}, {stem}_versions[{i}], {stem}_runs[{i}], 0}},"
        for i, dtype in enumerate(symbols)
    ]
    types = len(symbols)
    return [
        *parts,
        static_array(f"void *const {stem}_versions[{types}][{core_set.version_count}]", versions),
        f"static uint64_t {stem}_runs[{types}][{core_set.version_count}];\n",
        static_array(f"struct mavcg_function {stem}_functions[]", functions),
    ]


def blas_object(tables: str, target: Target, ilp64: bool, out: Path) -> Path:
    """Compile the unit to the file out, which appears whole or not at all, and return out. Raises: ToolError.

    ilp64: True if routines without a suffix take 64-bit integers.
    """
    wide = ["-DBLAS_ILP64"] if ilp64 else []
    flags = [*GUARDED_CODE_FLAGS, "-fstack-protector-strong", *ENGINE_FLAGS, "-ffp-contract=off", *wide]
    return unit_object("blas", BLAS_TABLES, tables, target, flags, out)
