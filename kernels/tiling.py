"""How many pixels and vectors of output channels a micro-kernel takes: a choice for a core that changes no result.

A micro-kernel holds MR x NV accumulators, and for each step of the sum loads NV vectors of weights and MR inputs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from mavcg.kernel import Machine

FMA_PER_CYCLE = 2  # vector instructions; of small cores half, of all loads too: only ratios count here
LOADS_PER_CYCLE = 2
FMA_LATENCY = 4  # cycles: 3 to 5 on the cores that we know
LOAD_BESIDE_FMA = 0.5  # cycles that a load costs an in-order core, which issues it in place of something else
# Where the weights of a tile fill the level-1 cache they come from level 2 at every tile: that is nearly free, but not
# quite. Measured on a Zen 3: with long sums the tile with more pixels is up to 15 percent faster, with short ones the
# tile with more channels is 5, as it writes longer lines.
STREAMED_BYTES = 16384
FAR_STREAMED_BYTES = 98304  # more than that takes level 2 from the inputs, too
WEIGHT_BYTES_PER_CYCLE = 256
# Cycles that a pixel's outputs of one chunk take an out-of-order core beside the arithmetic: each chunk writes lines of
# its own. On a Zen 3 it is 4 with sums of 24 or 32 terms, and next to nothing from 48 on, where tiles of many pixels
# stand neighbours in the caches better: so it decides between tiles that are nearly alike.
PIXEL_CYCLES = 1
# Left to whoever schedules the loop, so that loads of the next step may come before this one's last use.
SPARE_REGISTERS = 4
# Instructions a cycle that an x86 core surely takes of one thread: two threads of a core, which on a rented machine may
# be strangers, share the six of a Zen 3. While another program ran there (it is seen by kernels that keep in level 1
# slowing to two thirds, and a loop of nothing but multiplications not), time went by instructions for each
# multiply-add: 1.83 of two vectors by six pixels, two steps a turn; 1.62 of four by three and eight steps.
ISSUED = 3
LOOP_INSTRUCTIONS = 3  # of a turn
LONG_RUN = 64  # terms: of shorter runs a turn is shorter
SPARE_OF_LLVM = 3  # with fewer it spills accumulators of AVX-512 tiles; where there are 16 registers in all it does not
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


def lanes_f32(machine: Machine) -> int:
    """f32 elements of one of the machine's vectors."""
    return machine.vector_bytes // 4


def by_lane(machine: Machine) -> bool:
    """Whether inputs are loaded in vectors of four steps and multiplied lane by lane, rather than one by one.

    Of AArch64's cores the in-order ones load single elements beside a multiplication at no cost, and 128 bits not
    (an A55 issues `ldr s` with `fmla`, and nothing with the second half of `ldr q`: its TOML).
    """
    return machine.arch == "aarch64" and not machine.in_order


def holds_inputs(machine: Machine, pixels: int, vectors: int) -> bool:
    """Whether a step holds its inputs in registers and reads one vector of weights after the other, not vice versa.

    It takes fewer registers where there are fewer pixels than vectors. Measured on x86 only.
    """
    return machine.arch == "x86_64" and pixels < vectors


def unrolled(machine: Machine, count: int) -> int:
    """Steps of a turn of the innermost loop, over `count` terms.

    A turn's own instructions matter where two threads share a core: see ISSUED.
    """
    if machine.arch != "x86_64":
        return 4 if by_lane(machine) else 2
    return 8 if count >= LONG_RUN else 4


def most_pixels(machine: Machine, vectors: int) -> int:
    """The largest MR whose accumulators, weights and inputs fit the registers."""
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
    """The largest NV for tiles of at most so many pixels."""
    if pixels == 1:
        return ONE_PIXEL_VECTORS
    return max(nv for nv in range(1, machine.vector_registers) if nv == 1 or most_pixels(machine, nv) >= 2)


def step_cycles(machine: Machine, pixels: int, vectors: int, terms: int) -> float:
    """Cycles of one step of a sum of so many terms, by a simple model: multiplies, loads, or waiting for a result."""
    loads = vectors + (pixels / 4 if by_lane(machine) else pixels)
    step_bytes = vectors * machine.vector_bytes
    stream = step_bytes / WEIGHT_BYTES_PER_CYCLE if terms * step_bytes > STREAMED_BYTES else 0.0
    if machine.in_order:
        return max(pixels * vectors + loads * LOAD_BESIDE_FMA, FMA_LATENCY) + stream
    return max(pixels * vectors / FMA_PER_CYCLE, loads / LOADS_PER_CYCLE, FMA_LATENCY) + stream


StepCycles: TypeAlias = Callable[[Machine, int, int, int], float]


def shared_cycles(machine: Machine, pixels: int, vectors: int, terms: int) -> float:
    """The same where another thread has half of what the core issues; of other than x86 cores it is the same."""
    alone = step_cycles(machine, pixels, vectors, terms)
    if machine.arch != "x86_64":
        return alone
    step_bytes = vectors * machine.vector_bytes
    far = step_bytes / WEIGHT_BYTES_PER_CYCLE if terms * step_bytes > FAR_STREAMED_BYTES else 0.0
    near = step_bytes / WEIGHT_BYTES_PER_CYCLE if terms * step_bytes > STREAMED_BYTES else 0.0
    instructions = pixels * vectors + pixels + vectors + LOOP_INSTRUCTIONS / unrolled(machine, terms)
    return max(alone - near, instructions / ISSUED) + near + far


def cut(width: int, most: int) -> Widths:
    """The row in as few tiles as can be, of nearly equal width."""
    tiles = -(-width // most)
    less = -width % tiles
    return Widths(-(-width // tiles), tiles - less, less)


@dataclass(frozen=True)
class Tiling:
    """vectors: NV of a whole chunk of output channels. widths: of a row of pixels; rest: of it where the last chunk
    is shorter, else the same. cycles: of a step of all sums. shared: the same on a core that another thread has, too.
    """

    vectors: int
    widths: Widths
    rest: Widths
    cycles: float
    shared: float


def tiling_of(machine: Machine, width: int, vectors: int, nv: int, terms: int) -> Tiling:
    """The tiling of `width` pixels by `vectors` vectors of channels in chunks of `nv`, the last one shorter.

    terms: of each sum; 0: cycles are those of the sums alone.
    """
    chunks, left = divmod(vectors, nv)
    widths = cut(width, min(width, most_pixels(machine, nv)))
    rest = cut(width, min(width, most_pixels(machine, left))) if left else widths
    begun = PIXEL_CYCLES * width / terms if terms and not machine.in_order else 0.0

    def total(of_step: StepCycles) -> float:
        def of(count: int, each: Widths) -> float:
            return begun + sum(n * of_step(machine, mr, count, terms) for mr, n in each.tiles)

        return chunks * of(nv, widths) + (of(left, rest) if left else 0.0)

    return Tiling(nv, widths, rest, total(step_cycles), total(shared_cycles))


@cache
def choose(machine: Machine, width: int, vectors: int, terms: int, panel: int = 1) -> Tiling:
    """The tiling of `width` pixels by `vectors` vectors of channels that the model finds fastest.

    terms: of each sum. panel: vectors of a panel of packed weights; a chunk is whole panels, or all there is.
    """
    most = min(vectors, max(panel, most_vectors(machine, width)))
    found = [
        tiling_of(machine, width, vectors, nv, terms) for nv in range(1, most + 1) if nv % panel == 0 or nv == vectors
    ]
    return min(found, key=lambda tiling: (tiling.shared, -tiling.vectors))


# Of the input, used for all output channels before the next: it stays in any level-2 cache, with weights beside it.
PLAIN_BLOCK_BYTES = 1 << 16


def plain_rows(row_bytes: int) -> int:
    """Rows of a block where nothing is known of the caches. row_bytes: of the input, new in each row of output."""
    return max(1, PLAIN_BLOCK_BYTES // row_bytes)
