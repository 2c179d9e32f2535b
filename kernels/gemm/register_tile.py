"""Chooses MR and NR of micro-kernels for a core: pixels and vectors of output channels. No result depends on it.

A micro-kernel holds MR x NV accumulators, and for each step of the sum loads NV vectors of weights and MR inputs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import TypeAlias

from mavcg.cost_model.fits import fit_of
from mavcg.cost_model.instruction_mix import throughput_cycles
from mavcg.hardware.cost_fit import RegisterTileFit
from mavcg.hardware.issue_rates import IssueRates
from mavcg.specs.kernel import Machine

# Left to whoever schedules the loop, so that loads of the next step may come before this one's last use.
SPARE_REGISTERS = 4
LOOP_INSTRUCTIONS = 3  # of an iteration
LONG_RUN = 64  # terms: of shorter runs an iteration is shorter
SPARE_OF_LLVM = 3  # with fewer it spills accumulators of AVX-512 tiles; where there are 16 registers in all it does not
AVX512_BYTES = 64  # of a vector register
# Of AVX-512 tiles of several pixels: four by six read least for a multiply-add. Of 1x1 layers with 512, 1024 channels
# they are the fastest on a Zen 4, 1 to 12 percent before three by eight and two by thirteen.
WIDEST_AVX512 = 4
ONE_PIXEL_VECTORS = 12  # of a single pixel: covers the latency, and more streams than that are not prefetched


@dataclass(frozen=True)
class Widths:
    """A row of pixels cut into tiles: `count` of `mr` pixels, then `count_less` of mr - 1."""

    mr: int
    count: int
    count_less: int

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """(pixels, how many such tiles), those that there are."""
        return tuple((mr, n) for mr, n in ((self.mr, self.count), (self.mr - 1, self.count_less)) if n)


@dataclass(frozen=True)
class BlockRegisters:
    """Register tiles of a block: widths of a row, channels of a chunk, cycles of a step for all channels and widths.

    crossing: true if tiles go on in the next row, so that `widths` and `cycles` are of all rows. shared_cycles: of a
    step for all channels and rows, on a core whose issue slots another thread shares.
    """

    widths: Widths
    channels: int
    vectors: int
    cycles: float
    crossing: bool
    shared_cycles: float


def tile_fit(machine: Machine) -> RegisterTileFit:
    """Return the constants of the register tiles of a core's vectors."""
    fit = fit_of(machine)
    wide = fit.wide_register_tile if machine.vector_bytes == AVX512_BYTES else None
    return wide or fit.register_tile


def lanes_f32(machine: Machine) -> int:
    """Return f32 elements of one of the machine's vectors."""
    return machine.vector_bytes // 4


def lane_counts(machine: Machine, vectors: int, used: int) -> tuple[int, ...]:
    """Return the lanes that each vector of a tile is computed with, where `used` lanes of the last one are needed.

    With AVX-512 the last vector is half as long where that is enough: such multiply-adds take half of the time on
    cores that have two 256-bit pipes (Zen 4), and no longer than whole ones elsewhere.
    """
    lanes = lanes_f32(machine)
    last = lanes // 2 if machine.vector_bytes == AVX512_BYTES and used <= lanes // 2 else lanes
    return (*[lanes] * (vectors - 1), last)


def by_lane(machine: Machine) -> bool:
    """True if inputs are loaded in vectors of four steps and multiplied lane by lane, rather than one by one.

    Of AArch64's cores the in-order ones load single elements beside a multiplication at no cost, and 128 bits not
    (an A55 issues `ldr s` with `fmla`, and nothing with the second half of `ldr q`: its TOML).
    """
    return machine.arch == "aarch64" and not machine.in_order


def holds_inputs(machine: Machine, pixels: int, vectors: int) -> bool:
    """True if a step holds its inputs in registers and reads one vector of weights after the other, not vice versa.

    It takes fewer registers where there are fewer pixels than vectors. Measured on x86 only.
    """
    return machine.arch == "x86_64" and pixels < vectors


def unroll_factor(machine: Machine, count: int) -> int:
    """Return the number of steps in an iteration of the innermost loop, over `count` terms.

    An iteration's own instructions matter where two threads share a core: shared_width in profiles/fits/x86.toml.
    """
    if machine.arch != "x86_64":
        return 4 if by_lane(machine) else 2
    return 8 if count >= LONG_RUN else 4


def most_pixels(machine: Machine, vectors: int) -> int:
    """Return the largest MR whose accumulators, weights and inputs fit the registers."""
    free = machine.vector_registers - vectors
    if machine.arch == "aarch64":
        free -= SPARE_REGISTERS
    elif machine.vector_registers > 16:
        free -= SPARE_OF_LLVM
    if by_lane(machine):
        return max(1, free // (vectors + 1))
    most = max(1, (free - 1) // vectors)
    # Inputs may be held instead: MR x NV accumulators, MR inputs and one vector of weights.
    fewer = min(vectors - 1, (free + vectors - 1) // (vectors + 1))
    return max(most, fewer) if holds_inputs(machine, fewer, vectors) else most


def most_vectors(machine: Machine, pixels: int) -> int:
    """Return the largest NV for tiles of at most so many pixels."""
    if pixels == 1:
        return ONE_PIXEL_VECTORS
    return max(nv for nv in range(1, machine.vector_registers) if nv == 1 or most_pixels(machine, nv) >= 2)


@cache
def tile_rates(machine: Machine, shared: bool = False) -> IssueRates:
    """Return the rates that register tiles are chosen by; shared: while another thread has half of what a core issues.

    Only their ratios count here.
    """
    fit = tile_fit(machine)
    return IssueRates(
        fit.fma_per_cycle, fit.fma_per_cycle, fit.loads_per_cycle, inf, fit.shared_width if shared else inf,
        fit.fma_latency, 0.0, 0.0, fit.load_fma_cycles,
    )  # fmt: skip


def step_cycles(machine: Machine, pixels: int, vectors: int, terms: int, chain: float = 1) -> float:
    """Return the cycles of one step of a sum of so many terms: multiplies, loads, or waiting for a result, and its
    weights.

    chain: latencies of a multiply-add that a step waits for.
    """
    loads = vectors + (pixels / 4 if by_lane(machine) else pixels)
    near, _ = _stream_cycles(machine, vectors, terms)
    return throughput_cycles(tile_rates(machine), pixels * vectors, loads, chain=chain) + near


StepCycles: TypeAlias = Callable[[Machine, int, int, int], float]


def shared_cycles(machine: Machine, pixels: int, vectors: int, terms: int) -> float:
    """Return the same where another thread has half of what the core issues; of other than x86 cores it is the same."""
    loads = vectors + (pixels / 4 if by_lane(machine) else pixels)
    near, far = _stream_cycles(machine, vectors, terms)
    other = LOOP_INSTRUCTIONS / unroll_factor(machine, terms)
    return throughput_cycles(tile_rates(machine, shared=True), pixels * vectors, loads, other, chain=1) + near + far


def _stream_cycles(machine: Machine, vectors: int, terms: int) -> tuple[float, float]:
    """Return the cycles in which a step's weights come from level 2, and those in which they displace the inputs
    there."""
    fit, step_bytes = tile_fit(machine), vectors * machine.vector_bytes
    cycles = step_bytes / fit.weight_bytes_per_cycle
    return (
        cycles if terms * step_bytes > fit.streamed_bytes else 0.0,
        cycles if terms * step_bytes > fit.far_streamed_bytes else 0.0,
    )


def cut(width: int, most: int) -> Widths:
    """Return the row in as few tiles as can be, of nearly equal width."""
    tiles = -(-width // most)
    less = -width % tiles
    return Widths(-(-width // tiles), tiles - less, less)


@dataclass(frozen=True)
class RegisterTiling:
    """vectors: NV of a whole chunk of output channels. widths: of a row of pixels; rest: of it where the last chunk
    is shorter, else the same. cycles: of a step of all sums. shared: the same on a core that another thread has, too.
    """

    vectors: int
    widths: Widths
    rest: Widths
    cycles: float
    shared: float


def tiling_of(
    machine: Machine, width: int, vectors: int, nv: int, terms: int, most: int | None = None
) -> RegisterTiling:  # fmt: skip
    """Return the tiling of `width` pixels by `vectors` vectors of channels in chunks of `nv`, the last one shorter.

    terms: of each sum; 0: cycles are those of the sums alone. most: pixels of a tile, at most; None: any number.
    """
    chunks, left = divmod(vectors, nv)
    width_most = min(width, most or width)
    widths = cut(width, min(width_most, most_pixels(machine, nv)))
    rest = cut(width, min(width_most, most_pixels(machine, left))) if left else widths
    begun = tile_fit(machine).pixel_cycles * width / terms if terms else 0.0

    def total(of_step: StepCycles) -> float:
        def of(count: int, each: Widths) -> float:
            return begun + sum(n * of_step(machine, mr, count, terms) for mr, n in each.tiles)

        return chunks * of(nv, widths) + (of(left, rest) if left else 0.0)

    return RegisterTiling(nv, widths, rest, total(step_cycles), total(shared_cycles))


@cache
def choose(
    machine: Machine, width: int, vectors: int, terms: int, panel: int = 1, most: int | None = None
) -> RegisterTiling:  # fmt: skip
    """Return the tiling of `width` pixels by `vectors` vectors of channels that the model finds fastest.

    terms: of each sum. panel: vectors of a panel of packed weights; a chunk is whole panels, or all there is. most:
    pixels of a tile, at most; None: any number.
    """
    widest = min(vectors, max(panel, most_vectors(machine, width)))
    if machine.vector_bytes == AVX512_BYTES and width > 1:
        widest = min(widest, max(panel, WIDEST_AVX512))
    found = [
        tiling_of(machine, width, vectors, nv, terms, most)
        for nv in range(1, widest + 1)
        if nv % panel == 0 or nv == vectors
    ]
    return min(found, key=lambda tiling: (tiling.shared, -tiling.vectors))


# Of the input, used for all output channels before the next: it stays in any level-2 cache, with weights beside it.
PLAIN_BLOCK_BYTES = 1 << 16


def plain_rows(row_bytes: int) -> int:
    """Return the number of rows of a block where nothing is known of the caches. row_bytes: of the input, new in each
    row of output."""
    return max(1, PLAIN_BLOCK_BYTES // row_bytes)
