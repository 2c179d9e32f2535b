"""Constants of the cost model by kind of core, as profiles/fits/*.toml has them; the unit of each is its metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mavcg.hardware.issue_rates import IssueRates

IN_ORDER, OUT_OF_ORDER_AARCH64, X86 = "in-order", "out-of-order-aarch64", "x86"
KINDS = (IN_ORDER, OUT_OF_ORDER_AARCH64, X86)
ALL_CORES = "all-cores"


def constant(unit: str) -> Any:
    """Return the field of a constant in this unit; "1" is a ratio."""
    return field(metadata={"unit": unit})


@dataclass(frozen=True)
class RegisterTileFit:
    """Constants of the model of f32 register tiles: what a core issues in a cycle, and what weights from level 2 cost.

    load_fma_cycles: as IssueRates has it. shared_width: instructions per cycle that a thread gets while another thread
    has the same core. streamed_bytes, far_streamed_bytes: weights of a tile above which they come from level 2, and
    above which they displace the inputs there; weight_bytes_per_cycle: the rate at which they come. pixel_cycles: of
    writing a pixel's outputs of a chunk of channels.
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

    l1_share, l2_share: fraction of a cache that a plan counts on. l1_fill_exposed, l2_fill_exposed,
    l2_fill_exposed_prefetched, memory_fill_exposed: fraction of the time of filling a level that does not overlap with
    arithmetic; of level 2 without and with a prefetch; of weights from memory that could be prefetched and are not.
    prefetch_cycles: of one prefetch. tile_cycles: of the beginning and end of a register tile's loops; resume_cycles:
    of going on with sums that were just written. moves_per_cycle: accumulators read or written in a cycle.
    prefetch_distance: within a packed panel. min_gain: cycles over those of the plain macro-tile, above which the plain
    one is kept.
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

    prefetch_cycles: of one prefetch. lost_line_cycles: of a line that leaves level 1 before its use. start_cycles: of
    the first reads of a chunk whose weights lie in level 2.
    """

    prefetch_cycles: float = constant("cycles")
    lost_line_cycles: float = constant("cycles")
    start_cycles: float = constant("cycles")


@dataclass(frozen=True)
class TypicalCore:
    """Facts taken for a core where neither a board nor the core's file has them.

    l3_bytes: 0: none. l2_bytes_per_cycle, l3_bytes_per_cycle: bandwidth of that level; memory_gb_per_s: of the memory,
    for one core alone. miss_cycles: of a mispredicted branch.
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
class MemoryFit:
    """Constants of a memory that cores share. cores_that_fill: the fastest cores whose bandwidth is all that it has."""

    cores_that_fill: int = constant("cores")


@dataclass(frozen=True)
class StepFit:
    """Constants of the engine's steps: cycles of a step, of a call of a kernel, of handing a step to other threads."""

    step_cycles: float = constant("cycles")
    call_cycles: float = constant("cycles")
    handover_cycles: float = constant("cycles")


@dataclass(frozen=True)
class BranchFit:
    """Constants of branches. predicted_iterations: of an inner loop, above which its end is mispredicted."""

    predicted_iterations: int = constant("iterations")


@dataclass(frozen=True)
class PrimitiveFit:
    """Constants of the model of primitives. cycles: by part of a primitive (selection/costs/part_counts.py).

    tile_cycles: of the beginning and end of a register tile. least_us: of any primitive. bytes_exposed: fraction of the
    time of bytes that does not overlap with arithmetic. kernel_ns: of each kernel after the first. planar_pool_cycles:
    of an element of a window of a pool over columns.
    """

    tile_cycles: float = constant("cycles")
    least_us: float = constant("us")
    bytes_exposed: float = constant("1")
    kernel_ns: float = constant("ns")
    planar_pool_cycles: float = constant("cycles")
    cycles: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SafetyFit:
    """Cost safety factors on alternatives to the engine's default, by how the cost was obtained.

    modelled: by the model of primitives alone; measured_alone: measured, one after the other; interleaved: measured in
    alternation with the default. bands: on the time that bands of rows are predicted to save.
    """

    modelled: float = constant("1")
    measured_alone: float = constant("1")
    interleaved: float = constant("1")
    bands: float = constant("1")


@dataclass(frozen=True)
class SimulatorFit:
    """Facts taken for a simulated core where neither the core's file nor a board has them (simulate/core_facts.py).

    reorder_buffer, issue_queue, load_queue, store_queue: of the window; of in-order cores store_queue is the buffer.
    history_bits: of the branch predictor. l2_latency, l3_latency: cycles more than a hit in level 1. miss_slots: line
    fills in flight. prefetch_lines: that the stride prefetcher brings; far_lines: ahead, to the last
    level, of long streams; prefetch_pages: 1 where streams cross pages.
    stream_lines: full lines of stores after which misses of stores bring no line. memory_ns: latency of the memory.
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
    """Fractions of memory time that do not overlap with arithmetic, by how kernels go through memory.

    near: of the time of bytes from the caches behind level 1; far: of those from memory. products: of matrices, whose
    packed weights are read as streams; winograd: such products of tiles that were just transformed; unblocked: of
    patches and of images as matrices, whose tiles are not cut for level 1; direct: direct convolutions, vectors along
    the channels; depthwise: depthwise convolutions, and planar ones channel by channel; pools: maxima and means of
    windows; columns: vectors along a planar image's columns, whose channels are an image's size from one another;
    moves: copies, transposes, transforms and all others. A factor over 1: lines come later than the bandwidth alone
    says. known: fraction of the fitted layers whose predicted time is within 10 % of the simulated; 0 with too few
    layers to tell.
    """

    products_near: float = constant("1")
    products_far: float = constant("1")
    products_known: float = constant("1")
    winograd_near: float = constant("1")
    winograd_far: float = constant("1")
    winograd_known: float = constant("1")
    unblocked_near: float = constant("1")
    unblocked_far: float = constant("1")
    unblocked_known: float = constant("1")
    direct_near: float = constant("1")
    direct_far: float = constant("1")
    direct_known: float = constant("1")
    depthwise_near: float = constant("1")
    depthwise_far: float = constant("1")
    depthwise_known: float = constant("1")
    pools_near: float = constant("1")
    pools_far: float = constant("1")
    pools_known: float = constant("1")
    columns_near: float = constant("1")
    columns_far: float = constant("1")
    columns_known: float = constant("1")
    moves_near: float = constant("1")
    moves_far: float = constant("1")
    moves_known: float = constant("1")


@dataclass(frozen=True)
class CostFit:
    """Constants of one kind of core. chunk_prefetch, exposed: None where they were not fitted. typical_rates: of a core
    without a timing profile. wide_register_tile: of vectors of 64 bytes, where they have constants of their own."""

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


@dataclass(frozen=True)
class AllCoresFit:
    """Constants that are taken for every core."""

    int8_register_tile: Int8TileFit
    memory: MemoryFit
    branches: BranchFit
