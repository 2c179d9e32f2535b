"""Choice of MR (pixels) and NR (vectors of output channels) of micro-kernels of floats for a core.

A micro-kernel has MR x NV accumulators and loads NV vectors of weights and MR inputs for each term. Results do not
depend on the choice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from math import inf
from typing import TypeAlias

from mavcg.hardware.cost_fit import RegisterTileFit
from mavcg.hardware.issue_rates import IssueRates, throughput_cycles
from mavcg.kernels.gemm.loop_shape import (
    AVX512_BYTES,
    F16_BLOCK_TERMS,
    F16_GROUP_TERMS,
    F16_TERMS_IN_ORDER,
    QUAD,
    keeps_inputs,
    most_terms_at_once,
    unroll_factor,
)
from mavcg.kernels.gemm.product_types import BF16_MATRIX, BF16_PAIRS, in_blocks, step_terms
from mavcg.profiles.cost_fits import fit_of
from mavcg.specs.kernel import Machine

# Registers left free for scheduling, so that loads for the next term may precede the last use of this term's.
SPARE_REGISTERS = 4
LOOP_INSTRUCTIONS = 3  # loop overhead of an iteration
SPARE_OF_LLVM = 3  # with fewer free registers LLVM spills accumulators of AVX-512 tiles; with 16 registers it does not
# Maximum vectors of AVX-512 tiles of several pixels: tiles of four by six read least per multiply-add. On 1x1 layers of
# 512 and 1024 channels they are the fastest on a Zen 4, by 1 to 12 percent over three by eight and two by thirteen.
WIDEST_AVX512 = 4
# Where two multiply-adds of 64 bytes start in a cycle, the outputs of short sums are what takes time: all channels of a
# pixel are one stream to memory. 1x1 from 16 to 96 channels at 112x112 takes 0.201 ms by six vectors, 0.241 by four and
# two, 0.264 by three, of which the bytes are 0.189; from 96 to 576 channels three vectors are faster by 1.5 percent.
# Measured on a virtual Xeon with AMX, 2026-12-01, at commit 5b5b916e.
WIDEST_SHORT, SHORT_TERMS = 6, 32
NEARLY = 1.01  # cycles of a tile over the fewest, up to which it counts as equally good
ONE_PIXEL_VECTORS = 12  # of tiles of one pixel: hides the latency; hardware does not prefetch more streams of weights


@dataclass(frozen=True)
class Widths:
    """A row of pixels cut into tiles: `count` tiles of `mr` pixels, then `count_less` tiles of mr - 1."""

    mr: int
    count: int
    count_less: int

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """(pixels, number of tiles) for each width of tiles that occurs."""
        return tuple((mr, n) for mr, n in ((self.mr, self.count), (self.mr - 1, self.count_less)) if n)


@dataclass(frozen=True)
class BlockRegisters:
    """The register tiles of a block, and the modelled cycles of one term of its sums.

    widths: tiles of a row. channels, vectors: size of a chunk of output channels. cycles: of one term for all channels
    of a row. crossing: tiles continue in the next row, so that `widths` and `cycles` are for all rows. shared_cycles:
    of one term for all channels and rows, on a core whose issue slots another thread shares.
    """

    widths: Widths
    channels: int
    vectors: int
    cycles: float
    crossing: bool
    shared_cycles: float


def tile_fit(machine: Machine) -> RegisterTileFit:
    """Return the cost model's constants for register tiles, by the length of the core's vectors and its pipes."""
    fit = fit_of(machine)
    if machine.vector_bytes != AVX512_BYTES:
        return fit.register_tile
    pipes = fit.two_pipe_register_tile if machine.two_wide_pipes else None
    return pipes or fit.wide_register_tile or fit.register_tile


def short_tile(machine: Machine, vectors: int) -> int:
    """Return the pixels up to which a tile of so many vectors takes as long as one of so many, by the latency of its
    multiply-adds."""
    fit = tile_fit(machine)
    return max(1, round(fit.fma_latency * fit.fma_per_cycle / vectors))


# Of AMX's tile registers, of which a register tile has two by two, or one by four. A product of bf16 takes a cycle for
# each row of inputs and no less than nine, whatever its other sizes; the load of a tile takes eight (measured on an
# Emerald Rapids: 16.0, 9.6 and 8.9 cycles with 16, 8 and 4 rows, 8.4 a load; Intel, "64 and IA-32 Architectures
# Optimization Reference Manual", chapter on AMX: 16 and 8).
MOST_TILED_PIXELS, TILED_ROWS = 32, 16
MOST_TILED_VECTORS, TILED_VECTORS = 4, 2
LEAST_PRODUCT_CYCLES, LOAD_TILE_CYCLES = 9, 8


def _uses_tiles(machine: Machine, dtype: str) -> bool:
    return machine.bf16_tiles and in_blocks(dtype)


# Pixels of f16 tiles: `fmla` by an f16 lane reads it from v0 to v15, and the next inputs are loaded beside these.
MOST_F16_PIXELS = 12
# Registers by which an in-order core's f16 loop is scheduled at one multiply-add a cycle, beside accumulators, inputs
# and the weights of all terms of an iteration: by the model of a Cortex-A55, 10x1 and 6x2 (pixels x vectors) take one
# cycle each, 8x2 and 12x1 take 1.25 and 1.06. Fewer are free beside the f16 sums of the blocks before.
F16_SPARE_IN_ORDER, F16_SPARE_BESIDE_SUMS = 6, 6


def most_pixels(machine: Machine, vectors: int, dtype: str = "f32", terms: int = 0) -> int:
    """Return the largest MR whose accumulators, weights and inputs fit the registers; terms: of a sum, if known.

    On in-order cores the sums of a long f16 sum's blocks before fit, too.
    """
    if _uses_tiles(machine, dtype):
        return MOST_TILED_PIXELS if vectors <= TILED_VECTORS else TILED_ROWS
    if in_blocks(dtype):  # sums of even and of odd terms, weights and an input of either
        return max(1, (machine.vector_registers - SPARE_OF_LLVM - 2 * vectors - 2) // (2 * vectors))
    if dtype == BF16_MATRIX:  # of pairs of pixels; of each vector two pairs of channels
        return max(1, 2 * ((machine.vector_registers - SPARE_OF_LLVM - 2 * vectors) // (2 * vectors + 1)))
    free = machine.vector_registers - vectors
    if machine.arch == "aarch64" and machine.in_order and dtype == "f16":
        free = machine.vector_registers - F16_TERMS_IN_ORDER * vectors
        if terms > F16_BLOCK_TERMS:
            per_pixel = (4 if terms > F16_GROUP_TERMS else 2) * vectors + 1
            return max(1, (free - F16_SPARE_BESIDE_SUMS) // per_pixel)
        return max(1, (free - F16_SPARE_IN_ORDER) // (vectors + 1))
    if machine.arch == "aarch64":
        free -= SPARE_REGISTERS
    elif machine.vector_registers > 16:
        free -= SPARE_OF_LLVM
    if dtype == BF16_PAIRS and not machine.bf16_dot:  # both halves of each vector of weights, and of an input
        return max(1, (free - vectors - 2) // vectors)
    if most_terms_at_once(machine, dtype) > 1:
        most = max(1, free // (vectors + 1))
        return min(most, MOST_F16_PIXELS) if dtype == "f16" else most
    most = max(1, (free - 1) // vectors)
    # Or the inputs stay in registers: MR x NV accumulators, MR inputs and one vector of weights.
    fewer = min(vectors - 1, (free + vectors - 1) // (vectors + 1))
    return max(most, fewer) if keeps_inputs(machine, fewer, vectors) else most


def most_vectors(machine: Machine, pixels: int, dtype: str = "f32", terms: int = 0) -> int:
    """Return the largest NV of tiles of at most `pixels` pixels."""
    if _uses_tiles(machine, dtype):
        return MOST_TILED_VECTORS if pixels <= TILED_ROWS else TILED_VECTORS
    if pixels == 1:
        return ONE_PIXEL_VECTORS
    return max(
        nv for nv in range(1, machine.vector_registers) if nv == 1 or most_pixels(machine, nv, dtype, terms) >= 2
    )


@cache
def tile_rates(machine: Machine, shared: bool = False) -> IssueRates:
    """Return the issue rates that register tiles are chosen by; only their ratios matter.

    shared: True for a core half of whose issue slots another thread takes.
    """
    fit = tile_fit(machine)
    return IssueRates(
        fit.fma_per_cycle,
        fit.fma_per_cycle,
        fit.loads_per_cycle,
        inf,
        fit.shared_width if shared else inf,
        fit.fma_latency,
        0.0,
        0.0,
        fit.load_fma_cycles,
    )


def step_cycles(machine: Machine, pixels: int, vectors: int, terms: int, chain: float = 1, dtype: str = "f32") -> float:
    """Return the modelled cycles of one term: throughput of multiply-adds and loads, latency, transfer of weights.

    terms: terms of the sum. chain: latencies of a multiply-add that a term waits for.
    """
    if _uses_tiles(machine, dtype):
        return _tiled_cycles(pixels, vectors)
    products, loads = _instructions(machine, pixels, vectors, terms, dtype)
    near, _ = _stream_cycles(machine, vectors, terms)
    return throughput_cycles(tile_rates(machine), products, loads, chain=chain) + near


def _tiled_cycles(pixels: int, vectors: int) -> float:
    """Return the modelled cycles of a block of terms by tile registers: products, and what else loads take."""
    inputs = -(-pixels // TILED_ROWS)
    products = max(LEAST_PRODUCT_CYCLES * inputs, pixels) * vectors
    loads = LOAD_TILE_CYCLES * (inputs + vectors)
    return max(products, loads) + loads / 8  # of two that are bound by products, the one that loads less


def _instructions(machine: Machine, pixels: int, vectors: int, terms: int, dtype: str) -> tuple[float, float]:
    """Return (vector arithmetic, loads) of one term.

    bf16 are widened to f32 first: on x86 weights by two instructions and inputs, in pairs in all lanes, by one; on
    AArch64 a vector of either by one. i8, the weights of f32 inputs, are widened by two, on AArch64 by three. A term of
    products of pairs is two bf16; without the instruction both halves of weights and inputs are widened, by an
    instruction each. A term of products of matrices is four bf16, whose pairs of pixels take a load each and an
    instruction for both. A block of f16 terms ends with an addition to the sums so far, a group of them with its
    widening to f32 and an addition. Sums so far that find no register during a block are loaded and stored then; a
    store counts as a load.
    """
    if dtype == BF16_MATRIX:
        pairs = -(-pixels // 2)
        return 2.0 * pairs * vectors + pixels // 2, 2 * vectors + pixels
    products = float(pixels * vectors)
    if in_blocks(dtype):
        return step_terms(dtype) * (pixels * vectors + pixels + vectors), step_terms(dtype) // 2 * (pixels + vectors)
    if dtype == BF16_PAIRS and not machine.bf16_dot:
        return 2.0 * (pixels * vectors + pixels + vectors), vectors + pixels
    loads = vectors + pixels / most_terms_at_once(machine, dtype)
    if dtype == "bf16":
        products += 2 * vectors + pixels if machine.arch == "x86_64" else vectors + pixels / QUAD
    if dtype == "i8":
        products += (2 if machine.arch == "x86_64" else 3) * vectors
    if dtype == "f16" and terms > F16_BLOCK_TERMS:
        spare = F16_SPARE_BESIDE_SUMS if machine.in_order else SPARE_REGISTERS
        sums = pixels * vectors
        missing = 2 * sums + vectors + pixels + spare - machine.vector_registers
        loads += 2 * min(sums, max(0, missing)) / F16_BLOCK_TERMS
        products += sums / F16_BLOCK_TERMS
        if terms > F16_GROUP_TERMS:
            loads += 4 * sums / F16_GROUP_TERMS
            products += 4 * sums / F16_GROUP_TERMS
    return products, loads


StepCycles: TypeAlias = Callable[[Machine, int, int, int], float]


def shared_cycles(machine: Machine, pixels: int, vectors: int, terms: int, dtype: str = "f32") -> float:
    """Return step_cycles where another thread takes half of the core's issue slots; the same on cores other than
    x86."""
    if _uses_tiles(machine, dtype):
        return _tiled_cycles(pixels, vectors)
    products, loads = _instructions(machine, pixels, vectors, terms, dtype)
    near, far = _stream_cycles(machine, vectors, terms)
    loop_instructions = LOOP_INSTRUCTIONS / unroll_factor(machine, terms, dtype)
    return throughput_cycles(tile_rates(machine, shared=True), products, loads, loop_instructions, chain=1) + near + far


def _stream_cycles(machine: Machine, vectors: int, terms: int) -> tuple[float, float]:
    """Return (cycles to load a term's weights from level 2, cycles because weights evict the inputs from level 2)."""
    fit, step_bytes = tile_fit(machine), vectors * machine.vector_bytes
    cycles = step_bytes / fit.weight_bytes_per_cycle
    return (
        cycles if terms * step_bytes > fit.streamed_bytes else 0.0,
        cycles if terms * step_bytes > fit.far_streamed_bytes else 0.0,
    )


def cut(width: int, most: int) -> Widths:
    """Cut a row of `width` pixels into as few tiles of at most `most` pixels as possible, of nearly equal width."""
    tiles = -(-width // most)
    less = -width % tiles
    return Widths(-(-width // tiles), tiles - less, less)


@dataclass(frozen=True)
class RegisterTiling:
    """The register tiles of a row of pixels by all output channels.

    vectors: NV of a whole chunk of output channels. widths: tiles of the row; rest: its tiles for a shorter last chunk,
    else equal to widths. cycles: modelled cycles of one term of all sums; shared: the same on a core whose issue slots
    another thread shares. loads: of one term of all sums.
    """

    vectors: int
    widths: Widths
    rest: Widths
    cycles: float
    shared: float
    loads: float


def tiling_of(
    machine: Machine, width: int, vectors: int, nv: int, terms: int, most: int | None = None, dtype: str = "f32"
) -> RegisterTiling:
    """Return the tiling of `width` pixels by `vectors` vectors of channels in chunks of `nv`; the last may be shorter.

    terms: terms of each sum; 0: only multiply-adds and loads are counted. most: maximum pixels of a tile; None: any.
    """
    chunks, left = divmod(vectors, nv)
    width_most = min(width, most or width)
    widths = cut(width, min(width_most, most_pixels(machine, nv, dtype, terms)))
    rest = cut(width, min(width_most, most_pixels(machine, left, dtype, terms))) if left else widths
    begun = tile_fit(machine).pixel_cycles * width / terms if terms else 0.0

    def total(of_step: StepCycles) -> float:
        def of(count: int, widths_of_block: Widths) -> float:
            return begun + sum(n * of_step(machine, mr, count, terms) for mr, n in widths_of_block.tiles)

        return chunks * of(nv, widths) + (of(left, rest) if left else 0.0)

    def loads(_: Machine, pixels: int, count: int, length: int) -> float:
        return _instructions(machine, pixels, count, length, dtype)[1]

    cycles, shared = (total(partial(of_step, dtype=dtype)) for of_step in (step_cycles, shared_cycles))
    return RegisterTiling(nv, widths, rest, cycles, shared, total(loads))


@cache
def choose(
    machine: Machine,
    width: int,
    vectors: int,
    terms: int,
    panel: int = 1,
    most: int | None = None,
    dtype: str = "f32",
) -> RegisterTiling:
    """Return the tiling of `width` pixels by `vectors` vectors of channels with the fewest modelled cycles.

    terms: terms of each sum. panel: vectors of a panel of packed weights; a chunk is whole panels or all vectors. most:
    maximum pixels of a tile; None: any number.
    """
    widest = min(vectors, max(panel, most_vectors(machine, width, dtype, terms)))
    if machine.vector_bytes == AVX512_BYTES and width > 1:
        short = machine.two_wide_pipes and 0 < terms <= SHORT_TERMS
        widest = min(widest, max(panel, WIDEST_SHORT if short else WIDEST_AVX512))
    tilings = [
        tiling_of(machine, width, vectors, nv, terms, most, dtype)
        for nv in range(1, widest + 1)
        if nv % panel == 0 or nv == vectors
    ]
    if dtype == "f16":
        # f16 multiply-adds use up operands twice as fast: of tiles that are nearly as good, the one that loads least.
        best = min(tiling.shared for tiling in tilings)
        return min((t for t in tilings if t.shared <= NEARLY * best), key=lambda t: (t.loads, t.shared))
    return min(tilings, key=lambda tiling: (tiling.shared, -tiling.vectors))


# Bytes of input of a block of rows: it stays in any level-2 cache, beside weights, for all output channels.
PLAIN_BLOCK_BYTES = 1 << 16


def plain_rows(row_bytes: int) -> int:
    """Return the rows of a block that suits any cache. row_bytes: input that each output row adds, in bytes."""
    return max(1, PLAIN_BLOCK_BYTES // row_bytes)
