"""Plan the register tile and the cache blocks of a BLAS library's matrix products.

All versions of a library share them: threads on unequal cores multiply the same packed panels, and the block of terms
decides rounding. So each size is the best for all cores of the board together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mavcg.cost.level_traffic import l1_budget, l2_budget
from mavcg.hardware.core import GENERIC
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.blas.dot_products import GROUPS, dot_group
from mavcg.kernels.blas.product_tile import pass_cycles, pass_shape
from mavcg.kernels.gemm.loop_shape import by_lane
from mavcg.kernels.gemm.register_tile import NEARLY, SPARE_OF_LLVM
from mavcg.specs.blas_blocks import (
    ALL_F16,
    F16_SUM_TERMS,
    ITEM_BYTES,
    MATRIX_TERMS,
    PRODUCT_TYPES,
    TALL_COLUMNS,
    BlasBlocks,
)
from mavcg.specs.kernel import Machine

MOST_COLUMNS, MOST_UNITS = 16, 8
# Free registers of an in-order core's tile: with four, LLVM moves and spills sums. By the model of a Cortex-A55, 2 x 12
# vectors by columns do 7.8 of 8 FLOP a cycle once rescheduled, 2 x 13 and 4 x 6 5.4 and 4.7.
SPARE_IN_ORDER = 5
FEW_REGISTERS = 16
SUMS_IN_FLIGHT = 8  # that hide the latency of a multiply-add: 4 cycles on two pipes
# A panel of B stays in level 1 only if one of A fits beside it: with longer panels, whose ends cost less, products of
# 512 and 1000 were 4 (f32) and 9 percent (f64) slower on a core with 48 KiB and 64-byte vectors. Where level 1 is so
# small that both leave only short panels, B's alone counts and A streams from level 2: on a Zen 4 with 32 KiB, f32 and
# f64 products of 1000 were 2 to 7 percent faster so, and 64 x 4000 x 256 in f64 by a third. A panel of A that is much
# larger than B's streams as well: with tiles of 4 x 6 vectors an Emerald Rapids, of 48 KiB, multiplies 64 x 2000 x 512
# in f64 at 66 GFLOP/s with 256 terms, 55 with the 96 of which both fit; f32 shows no difference up to 256.
FEW_VECTORS = 512  # of level 1
STREAMED_RATIO, STREAMED_TERMS = 4, 256  # rows over columns of such a tile; its terms
A_BLOCK_SHARE, B_BLOCK_SHARE = 0.5, 0.5  # of level 2, which a block of A shares with panels of B; of the last level
MOST_STREAMED_TERMS, MOST_TERMS, MOST_BLOCK_COLUMNS, LEAST_BLOCK_COLUMNS = 384, 512, 4096, 512
TERMS_UNIT = 32
# Columns up to which dot products are not slower than packed panels: on an Emerald Rapids with AVX-512 16 columns are
# 1.1 to 2 times as fast, 32 even, 64 and 96 take up to two thirds longer. Where a load feeds fewer multiply-adds, only
# up to 16. For f64 on a Zen 4, 96 x 96 x 8000 was 1.4 times as fast, but its panels had tiles of 1 x 16 vectors.
MANY_DOT_COLUMNS, FEW_DOT_COLUMNS = 32, 16
# Rows of the tile for few columns, in units: several adjacent cache lines of each column of A, because A is read only
# once, from a distant memory level.
TALL_UNITS = 4
FASTEST = 1024  # of the speeds of cores, which are whole numbers


def plan_blas_blocks(dtype: str, cores: Mapping[str, CoreModel], together: Mapping[str, int]) -> BlasBlocks:
    """Return the register tile and cache blocks of matrix products of a type of PRODUCT_TYPES.

    Half precision has the register tile and the bytes of panels of the type of its sums. bf16 is multiplied in pairs or
    matrices if all named cores have the instruction, so that all versions read the same panels; else it is converted.
    Products whose C is f16, too, are added in f16 if all named cores compute in it, with a register tile of their own.

    cores: one core of each label's cluster (tiles.cores_of). together: number of cores of each label. The generic
    version counts only if there is no other.
    """
    named = [label for label in cores if label != GENERIC] or [GENERIC]
    if dtype == ALL_F16 and all(cores[label].machine.half for label in named):
        return _f16_blocks(named, cores, together)
    if PRODUCT_TYPES[dtype].is_half:
        of_sums = plan_blas_blocks(PRODUCT_TYPES[dtype].sums, cores, together)
        pairs = dtype == "bf16" and all(cores[label].machine.bf16_dot for label in named)
        if not pairs:
            return replace(of_sums, dtype=dtype, dot_columns=0)
        step_terms = MATRIX_TERMS if cores[named[0]].machine.arch == "aarch64" else 2
        kc = of_sums.kc * of_sums.item_bytes // PRODUCT_TYPES[dtype].given_bytes
        return replace(of_sums, dtype=dtype, kc=kc, dot_columns=0, step_terms=step_terms)
    item = ITEM_BYTES[dtype]
    lanes = max(core.machine.vector_bytes for core in cores.values()) // item
    units, columns = _register_tile([(cores[label], max(1, together.get(label, 1))) for label in named], item, lanes)
    rows = units * lanes
    kc = min(_most_terms(cores[label], item, lanes, units, columns) for label in named)
    kc = max(TERMS_UNIT, kc // TERMS_UNIT * TERMS_UNIT)
    mc, nc = _cache_blocks(named, cores, kc * item)
    dots = min(_dot_columns(cores[label].machine, columns) for label in named)
    mc, nc = max(rows, mc // rows * rows), nc // columns * columns
    tall = (
        TALL_UNITS
        if units <= TALL_UNITS and all(_fits_tall(cores[label].machine, item, lanes) for label in named)
        else 0
    )
    wide = min(MOST_COLUMNS, min(_most_columns(cores[label].machine) for label in named))
    return BlasBlocks(dtype, lanes, units, columns, kc, mc, nc, dots, tall, wide if columns < SUMS_IN_FLIGHT else 0)


def _f16_blocks(named: Sequence[str], cores: Mapping[str, CoreModel], together: Mapping[str, int]) -> BlasBlocks:
    """Return the blocks of products that are added in f16: whole F16_SUM_TERMS, which no block of terms divides."""
    item = PRODUCT_TYPES[ALL_F16].given_bytes
    lanes = max(core.machine.vector_bytes for core in cores.values()) // item
    units, columns = _register_tile([(cores[label], max(1, together.get(label, 1))) for label in named], item, lanes)
    rows = units * lanes
    kc = min(_most_terms(cores[label], item, lanes, units, columns) for label in named)
    kc = max(F16_SUM_TERMS, kc // F16_SUM_TERMS * F16_SUM_TERMS)
    mc, nc = _cache_blocks(named, cores, kc * item)
    mc, nc = max(rows, mc // rows * rows), nc // columns * columns
    return BlasBlocks(ALL_F16, lanes, units, columns, kc, mc, nc, dot_columns=0, in_f16=True)


def _cache_blocks(named: Sequence[str], cores: Mapping[str, CoreModel], line_bytes: int) -> tuple[int, int]:
    """Return the (rows, columns) of C whose packed lines, of this many bytes, fit level 2 and the last level."""
    mc = min(int(l2_budget(cores[label]) * A_BLOCK_SHARE) // line_bytes for label in named)
    nc = min(int(_last_level(cores[label]) * B_BLOCK_SHARE) // line_bytes for label in named)
    return mc, min(MOST_BLOCK_COLUMNS, max(LEAST_BLOCK_COLUMNS, nc))


def blas_core_speeds(blocks: BlasBlocks, cores: Mapping[str, CoreModel]) -> dict[str, int]:
    """Return the modelled speed of each version's core, FASTEST for the fastest; the runtime sizes chunks by it."""
    seconds = {
        label: _cycles(core, blocks.item_bytes, blocks.lanes, blocks.units, blocks.columns)
        for label, core in cores.items()
    }
    named = [label for label in cores if label != GENERIC] or [GENERIC]
    seconds[GENERIC] = max(seconds[label] for label in named)  # an unknown core: as the slowest of the others
    return {label: max(1, round(FASTEST * min(seconds.values()) / of_label)) for label, of_label in seconds.items()}


def _dot_columns(machine: Machine, columns: int) -> int:
    """Return the largest number of columns that is computed as dot products.

    It is large if the vector registers hold the largest group of sums.
    """
    return MANY_DOT_COLUMNS if dot_group(machine) == GROUPS[0] else min(columns - 1, FEW_DOT_COLUMNS)


def _last_level(core: CoreModel) -> int:
    return core.levels[-1].shared_bytes


def _register_tile(cores: Sequence[tuple[CoreModel, int]], item: int, lanes: int) -> tuple[int, int]:
    """Return the (units, columns) of the fewest cycles; of those that are nearly as fast, what loads least.

    cores: with the number of each that work together. A tile that loads less leaves room for what the model leaves out:
    on an Emerald Rapids with 32 vectors, products of 384 in f32 reach 137 GFLOP/s with 4 x 6 vectors by columns, 125
    with 2 x 12, 116 with 1 x 16 (OpenBLAS 127). With 16 registers all tiles that fit load about as much.
    """
    cycles = {
        tile: sum(count * _cycles(core, item, lanes, *tile) for core, count in cores)
        for tile in _tiles([core.machine for core, _ in cores])
    }
    fewest = min(cycles.values())
    machines = [core.machine for core, _ in cores if core.machine.vector_registers > FEW_REGISTERS]
    return min(
        (tile for tile in cycles if cycles[tile] <= NEARLY * fewest),
        key=lambda tile: (sum(_loads(machine, item, lanes, *tile) for machine in machines), cycles[tile]),
    )


def _loads(machine: Machine, item: int, lanes: int, units: int, columns: int) -> float:
    """Return the loads of a multiply-add of a core's passes over the tile."""
    high, wide = pass_shape(machine, units * lanes * item // machine.vector_bytes, columns)
    return (high + (wide / 4 if by_lane(machine) else wide)) / (high * wide)


def _most_columns(machine: Machine) -> int:
    """Return the most columns of a tile of one vector of rows whose sums fit the registers."""
    return max(columns for columns in range(1, machine.vector_registers) if _fits(machine, 1, columns))


def _tiles(machines: Iterator[Machine] | Sequence[Machine]) -> list[tuple[int, int]]:
    """Return the (units, columns) whose sums fit the registers of at least one machine."""
    known = list(machines)
    return [
        (units, columns)
        for units in range(1, MOST_UNITS + 1)
        for columns in range(2, MOST_COLUMNS + 1)
        if any(_fits(machine, units, columns) for machine in known)
    ]


def _fits(machine: Machine, units: int, columns: int) -> bool:
    """True if the sums, a vector of A per unit and the elements of B fit the registers; a unit is one vector here."""
    inputs = -(-columns // 4) if by_lane(machine) else 1
    spare = SPARE_IN_ORDER if machine.in_order else SPARE_OF_LLVM if machine.vector_registers > 16 else 0
    return units * columns + units + inputs + spare <= machine.vector_registers


def _fits_tall(machine: Machine, item: int, lanes: int) -> bool:
    """True if the sums of the tall tile fit the registers."""
    vectors = TALL_UNITS * lanes * item // machine.vector_bytes
    return vectors * TALL_COLUMNS + vectors + 1 <= machine.vector_registers


def _most_terms(core: CoreModel, item: int, lanes: int, units: int, columns: int) -> int:
    """Return the number of terms whose panels of A and B fit level 1, or only of B if level 1 has few vectors."""
    budget = int(l1_budget(core))
    if budget < FEW_VECTORS * core.machine.vector_bytes:
        return min(MOST_STREAMED_TERMS, budget // (columns * item))
    if units * lanes > STREAMED_RATIO * columns:
        return min(STREAMED_TERMS, budget // (columns * item))
    return min(MOST_TERMS, budget // ((units * lanes + columns) * item))


def _cycles(core: CoreModel, item: int, lanes: int, units: int, columns: int) -> float:
    """Return the modelled time of a multiply-add of the tile, in ns: arithmetic, loads, and lines of A from level 2.

    What is exposed of the lines is the fraction for level 1, which they fill: packed A is read in order. With that for
    level 2 an AVX2 core took 1 x 14 vectors by columns, whose broadcasts outnumber its load pipes and whose sums
    compilers spill: on a Zen 3 f32 products of 384 reached 70 GFLOP/s, with 2 x 6 they reach 90 (OpenBLAS 94).
    """
    vectors = units * lanes * item // core.machine.vector_bytes
    high, wide = pass_shape(core.machine, vectors, columns)
    passes = -(-vectors // high) * -(-columns // wide)
    fit = core.fit
    streamed = units * lanes * item / fit.typical.l2_bytes_per_cycle
    cycles = passes * pass_cycles(core.machine, high, wide) + fit.macro_tile.l1_fill_exposed * streamed
    return cycles / (units * lanes * columns) / core.ghz
