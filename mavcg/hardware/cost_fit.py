"""Constants of the cost model for each kind of core, read from profiles/fits/*.toml.

Each constant's unit is in the metadata of its field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mavcg.hardware.issue_rates import IssueRates

IN_ORDER, OUT_OF_ORDER_AARCH64, X86 = "in-order", "out-of-order-aarch64", "x86"
KINDS = (IN_ORDER, OUT_OF_ORDER_AARCH64, X86)
ALL_CORES = "all-cores"


def core_kind(arch: str, in_order: bool) -> str:
    """Return the kind of a core, which is the name of its file in profiles/fits."""
    if arch == "x86_64":
        return X86
    return IN_ORDER if in_order else OUT_OF_ORDER_AARCH64


def constant(unit: str) -> Any:
    """Return a dataclass field for a constant, with its unit as metadata; "1" is the unit of ratios."""
    return field(metadata={"unit": unit})


@dataclass(frozen=True)
class RegisterTileFit:
    """Constants of the model of f32 register tiles: issue rates of the core, and cost of weights from level 2.

    load_fma_cycles: as in IssueRates. shared_width: instructions per cycle of a thread while another thread runs on the
    same core. streamed_bytes: size of a tile's weights above which they are read from level 2. far_streamed_bytes: size
    above which they also evict the inputs from level 2. weight_bytes_per_cycle: rate of reading weights from level 2.
    pixel_cycles: cycles to write the outputs of one pixel for a chunk of channels.
    """

    fma_per_cycle: float = constant("instr/cycle")
    loads_per_cycle: float = constant("instr/cycle")
    fma_latency: float = constant("cycles")
    load_fma_cycles: float = constant("cycles")
    shared_width: float = constant("instr/cycle")
    streamed_bytes: float = constant("bytes")
    far_streamed_bytes: float = constant("bytes")
    weight_bytes_per_cycle: float = constant("bytes/cycle")
    pixel_cycles: float = constant("cycles")


@dataclass(frozen=True)
class MacroTileFit:
    """Constants of the model of macro-tiles.

    l1_share, l2_share: fraction of a cache that a plan may use. l1_fill_exposed, l2_fill_exposed: exposed fraction of
    the fill time of level 1, and of level 2 without prefetch. l2_fill_exposed_prefetched: the same of level 2 with
    prefetch. memory_fill_exposed: the same for weights from memory that could be prefetched and are not.
    prefetch_cycles: cycles of one prefetch. tile_cycles: cycles of the start and end of a register tile's loops.
    resume_cycles: cycles that a register tile waits for partial sums that were just written. moves_per_cycle:
    accumulators read or written per cycle. prefetch_distance: within a packed panel. min_gain: largest ratio of a
    macro-tile's cycles to those of the plain one at which it replaces the plain one.
    """

    l1_share: float = constant("1")
    l2_share: float = constant("1")
    l1_fill_exposed: float = constant("1")
    l2_fill_exposed: float = constant("1")
    l2_fill_exposed_prefetched: float = constant("1")
    memory_fill_exposed: float = constant("1")
    prefetch_cycles: float = constant("cycles")
    tile_cycles: float = constant("cycles")
    resume_cycles: float = constant("cycles")
    moves_per_cycle: float = constant("instr/cycle")
    prefetch_distance: int = constant("bytes")
    min_gain: float = constant("1")


@dataclass(frozen=True)
class ChunkPrefetchFit:
    """Constants of prefetching the weights of the next chunk of channels.

    prefetch_cycles: cycles of one prefetch. lost_line_cycles: cycles lost per line of a chunk that does not stay
    in level 1 until its use. start_cycles: cycles that the first reads of a chunk wait if its weights are in level 2.
    """

    prefetch_cycles: float = constant("cycles")
    lost_line_cycles: float = constant("cycles")
    start_cycles: float = constant("cycles")


@dataclass(frozen=True)
class TypicalCore:
    """Facts assumed for a core if neither the board's file nor the core's file has them.

    l3_bytes: 0 for no level 3. l2_bytes_per_cycle, l3_bytes_per_cycle: bandwidth of the cache level. memory_gb_per_s:
    memory bandwidth of one core alone. miss_cycles: cost of a mispredicted branch.
    """

    ghz: float = constant("GHz")
    fma_per_cycle: float = constant("instr/cycle")
    l1d_bytes: int = constant("bytes")
    l2_bytes: int = constant("bytes")
    l3_bytes: int = constant("bytes")
    l2_bytes_per_cycle: float = constant("bytes/cycle")
    l3_bytes_per_cycle: float = constant("bytes/cycle")
    memory_gb_per_s: float = constant("GB/s")
    miss_cycles: float = constant("cycles")


@dataclass(frozen=True)
class Int8TileFit:
    """Constants of the model of 8-bit register tiles: vector instructions per cycle, and bytes of weights per cycle."""

    issue_per_cycle: float = constant("instr/cycle")
    multiplies_per_cycle: float = constant("instr/cycle")
    loads_per_cycle: float = constant("instr/cycle")
    weight_bytes_per_cycle: float = constant("bytes/cycle")


@dataclass(frozen=True)
class TileProductFit:
    """Constants of products of tiles (AMX), in cycles of the core.

    row_cycles: of a row of the tile of sums; least_cycles: of a product, however few rows it has; latency: from a
    product to the next one that adds to the same sums. result_cycles: of the store and the load of a row of sums, a
    vector of results. narrow_cycles: of narrowing results to 8 bits, of one vector as of several at once.
    block_cycles: of a row of the sums of a block of weights: stored, loaded, scaled, and added to those of all blocks.
    """

    row_cycles: float = constant("cycles")
    least_cycles: float = constant("cycles")
    latency: float = constant("cycles")
    result_cycles: float = constant("cycles")
    narrow_cycles: float = constant("cycles")
    block_cycles: float = constant("cycles")


@dataclass(frozen=True)
class MemoryFit:
    """Constants of the memory that all cores share.

    cores_that_fill: the memory's total bandwidth, if unknown, is this number times the bandwidth of the fastest core.
    """

    cores_that_fill: int = constant("cores")


@dataclass(frozen=True)
class StepFit:
    """Overheads of the engine, in cycles: per step, per call of a kernel, and per step handed to other threads."""

    step_cycles: float = constant("cycles")
    call_cycles: float = constant("cycles")
    handover_cycles: float = constant("cycles")


@dataclass(frozen=True)
class BranchFit:
    """Constants of branch prediction.

    predicted_iterations: iterations of an inner loop above which its final branch is mispredicted.
    """

    predicted_iterations: int = constant("iterations")


@dataclass(frozen=True)
class PrimitiveFit:
    """Constants of the cost model of primitives.

    tile_cycles: cycles of the start and end of a register tile. least_us: fixed time of every primitive. bytes_exposed:
    exposed fraction of the memory time. kernel_ns: time of each kernel of a primitive after the first.
    planar_pool_cycles: cycles per element of the windows of a pool vectorised along columns. cycles: constants of
    counted work, by the name of the count (specs/work_counts.py).
    """

    tile_cycles: float = constant("cycles")
    least_us: float = constant("us")
    bytes_exposed: float = constant("1")
    kernel_ns: float = constant("ns")
    planar_pool_cycles: float = constant("cycles")
    cycles: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SafetyFit:
    """Cost safety factors of alternatives to the engine's default, by how their cost was obtained.

    modelled: predicted by the model of primitives. measured_alone: measured without alternation. interleaved: measured
    in alternation with the default. bands: divisor of the time that bands of rows are predicted to save.
    """

    modelled: float = constant("1")
    measured_alone: float = constant("1")
    interleaved: float = constant("1")
    bands: float = constant("1")


@dataclass(frozen=True)
class SimulatorFit:
    """Facts assumed for a simulated core if neither the core's file nor the board's has them (cost/core_facts.py).

    l2_latency, l3_latency: cycles of a hit in addition to a hit in level 1. memory_ns: latency of the memory. The
    others are described at SimulatedCore in cost/core_facts.py.
    """

    reorder_buffer: int = constant("micro-ops")
    issue_queue: int = constant("operations")
    load_queue: int = constant("loads")
    store_queue: int = constant("stores")
    history_bits: int = constant("branches")
    split_cycles: int = constant("cycles")
    l1d_associativity: int = constant("ways")
    l2_associativity: int = constant("ways")
    l3_associativity: int = constant("ways")
    l2_latency: int = constant("cycles")
    l3_latency: int = constant("cycles")
    miss_slots: int = constant("lines")
    prefetch_lines: int = constant("lines")
    far_lines: int = constant("lines")
    prefetch_pages: int = constant("1")
    stream_lines: int = constant("lines")
    memory_ns: float = constant("ns")


@dataclass(frozen=True)
class ExposedFit:
    """Exposed fractions: the part of the time of cache lines that does not overlap with arithmetic.

    One set for all kernels of a kind of core, by what waits for a line (choose/predict/exposure.py). near: from caches
    after level 1; far: from memory. unseen: loaded lines that the prefetcher does not foresee; seen: other loaded
    lines; stored: lines that stores bring; streamed: lines that are written whole. Above 1, a line takes longer than
    its latency or the bandwidth alone imply.

    known: fraction of the fitted kernels whose predicted time is within 10 % of the simulated time; 0 if there are too
    few kernels to tell. By access pattern: products: matrix products that stream packed weights. winograd: the same on
    freshly transformed Winograd tiles. unblocked: matrix products of patches, or of images as matrices, not blocked for
    level 1. direct: direct convolutions, vectorised along channels. depthwise: depthwise convolutions, and planar ones
    channel by channel. pools: max and average pools. columns: kernels vectorised along a planar image's columns, whose
    channels are a whole image from one another. moves: copies, transposes, transforms and all other kernels.
    """

    near_unseen: float = constant("1")
    near_seen: float = constant("1")
    near_stored: float = constant("1")
    near_streamed: float = constant("1")
    far_unseen: float = constant("1")
    far_seen: float = constant("1")
    far_stored: float = constant("1")
    far_streamed: float = constant("1")
    products_known: float = constant("1")
    winograd_known: float = constant("1")
    unblocked_known: float = constant("1")
    direct_known: float = constant("1")
    depthwise_known: float = constant("1")
    pools_known: float = constant("1")
    columns_known: float = constant("1")
    moves_known: float = constant("1")


@dataclass(frozen=True)
class CostFit:
    """Constants of one kind of core.

    kind: one of KINDS. typical_rates: issue rates of a core without a timing profile. chunk_prefetch, exposed: None if
    not fitted. wide_register_tile: constants of vectors of 64 bytes; None if register_tile covers them.
    two_pipe_register_tile: the same where two multiply-adds of them start in a cycle; None if wide_register_tile covers
    them.
    tile_products: None if no core of the kind has any.
    """

    kind: str
    register_tile: RegisterTileFit
    macro_tile: MacroTileFit
    typical: TypicalCore
    typical_rates: IssueRates
    steps: StepFit
    primitives: PrimitiveFit
    safety: SafetyFit
    chunk_prefetch: ChunkPrefetchFit | None = None
    simulator: SimulatorFit | None = None
    exposed: ExposedFit | None = None
    wide_register_tile: RegisterTileFit | None = None
    two_pipe_register_tile: RegisterTileFit | None = None
    tile_products: TileProductFit | None = None


@dataclass(frozen=True)
class AllCoresFit:
    """Constants that apply to every kind of core."""

    int8_register_tile: Int8TileFit
    memory: MemoryFit
    branches: BranchFit
