"""How a core multiplies 8-bit numbers, and how many pixels and channels its micro-kernel takes: speed, never results.

All sums are exact, so each core may use what it has. What they share is how weights are packed: groups of four terms
of a sum beside each other, for one output channel after the other.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from mavcg.kernel import Array, Machine
from mavcg.kernels.tiling import Widths, cut

SIGNED = ("sdot", "mull")
GROUP = 4  # terms of a sum that lie beside each other in packed weights

ISSUE_PER_CYCLE = 4  # vector instructions of all kinds; only ratios count here
MULTIPLIES_PER_CYCLE = 2
LOADS_PER_CYCLE = 2
WEIGHT_BYTES_PER_CYCLE = 128  # they come from a level-2 cache as often as not, mostly beside the arithmetic
LEAST_CHANNELS = 8  # of a tile, where there are as many: so many bytes are stored at once
MOST_VECTORS = 8
TOGETHER = (4, 2, 1)  # groups whose products may be added before they are widened
U8_LARGEST, I16_LARGEST = (1 << 8) - 1, (1 << 15) - 1
CHAIN = 8  # accumulators that hide the latency of an instruction that adds to one


@dataclass(frozen=True)
class Form:
    """kind: the instruction that multiplies.

    "sdot": NEON, four products i8 x i8 added to each i32 lane. "vnni": the same on x86, u8 x i8. "maddubs": x86 without
    that, products u8 x i8 added in pairs to i16, where that holds them. "madd": where not, products of i16 added in
    pairs. "mull": NEON without dot products, products i8 x i8 in i16, added in pairs.
    lanes: of i32 in a register. parts: of them that add up to a channel's sum. flip: whether u8 is multiplied as i8 or
    i8 as u8, by numbers 128 apart, which the bias makes good. together: groups whose products are added in i16.
    """

    kind: str
    lanes: int
    parts: int
    flip: bool
    together: int = 1

    @property
    def piece(self) -> int:
        """Output channels of one accumulator."""
        return self.lanes // self.parts

    @property
    def weight_bytes(self) -> int:
        """Bytes of packed weights that one product takes."""
        return self.piece * GROUP

    @property
    def signed(self) -> bool:
        """Whether inputs are multiplied as i8 rather than as u8."""
        return self.kind in SIGNED

    def registers(self, pixels: int, pieces: int) -> int:
        """Registers that a tile takes: accumulators, inputs or weights of one step, products."""
        held = {
            "sdot": pixels + 4, "vnni": min(pixels, pieces) + 1, "madd": min(pixels, pieces) + 2,
            "mull": 2 * pieces + 5, "maddubs": 5,
        }  # fmt: skip
        return pixels * pieces + held[self.kind] + self.flip

    def step_cycles(self, pixels: int, pieces: int) -> float:
        """Cycles of four terms of the sum by a simple model: instructions, and of them those that multiply."""
        # "madd" also adds, "mull" takes three instructions for two steps, "maddubs" widens and adds once for all groups
        # together; all but "sdot" bring inputs into lanes one by one.
        products = pixels * pieces
        multiplies = 1 + 1 / self.together if self.kind == "maddubs" else 1.0
        each = {"sdot": 1.0, "vnni": 1.0, "madd": 2.0, "mull": 1.5, "maddubs": multiplies + 1}[self.kind]
        inputs = pixels * (0.25 if self.kind == "sdot" else 1.0)
        issue = (products * each + inputs + pieces) / ISSUE_PER_CYCLE
        stream = pieces * self.weight_bytes / WEIGHT_BYTES_PER_CYCLE
        return max(products * multiplies / MULTIPLIES_PER_CYCLE, issue, (inputs + pieces) / LOADS_PER_CYCLE) + stream


def form_of(machine: Machine, panel: int, dtype: str, together: int = 0) -> Form:
    """The machine's way with inputs of i8 or u8; registers are no longer than a panel of `panel` channels fills.

    together: groups of weights whose products i16 surely holds added up, as sums_in_i16 says.
    """
    if machine.arch == "aarch64":
        kind, lanes = "sdot" if machine.dot_product else "mull", 4
    else:
        # Registers of 64 bytes come in thirty-twos, AVX-512; without it longer vectors are several registers.
        register_bytes = min(machine.vector_bytes, 64 if machine.vector_registers >= 32 else 32)
        kind = "vnni" if machine.dot_product else "maddubs" if together else "madd"
        lanes = min(register_bytes // 4, panel)
    parts = 2 if kind in ("madd", "mull") else 1
    return Form(kind, lanes, parts, (kind in SIGNED) != (dtype == "i8"), together if kind == "maddubs" else 1)


def sums_in_i16(packed: Array) -> int:
    """How many neighbouring groups of a run have products with u8 that i16 holds, added up: 4, 2, 1, or 0 for none.

    Places 0 and 1 of all these groups are one sum, 2 and 3 another. A sum is largest where inputs are 255 at the
    weights above zero and 0 elsewhere, and smallest the other way round. Groups are counted from the run's first.
    packed: i8 [.., groups of a run, lanes, 4].
    """
    *outer, steps, lanes, _ = packed.shape
    for together in TOGETHER:
        filled = np.zeros((*outer, -(-steps // together) * together, lanes, GROUP), np.int16)
        filled[..., :steps, :, :] = packed
        sums = filled.reshape(*outer, -1, together, lanes, 2, 2)
        above, below = (part.clip(min=0).sum(axis=(-4, -1)).max(initial=0) for part in (sums, -sums))
        if U8_LARGEST * max(above, below) <= I16_LARGEST:
            return together
    return 0


def widths_of(form: Form, registers: int, width: int, vectors: int) -> Widths | None:
    """`width` pixels in tiles of `vectors` vectors of form.lanes channels; None where no pixel fits the registers."""
    fitting = [mr for mr in range(1, width + 1) if form.registers(mr, vectors * form.parts) <= registers]
    return cut(width, fitting[-1]) if fitting else None


@dataclass(frozen=True)
class Tiling:
    """vectors: of a whole chunk of output channels; widths: of a row of pixels."""

    vectors: int
    widths: Widths


@cache
def choose_tiling(form: Form, registers: int, width: int, vectors: int, panel: int) -> Tiling:
    """The tiling of `width` pixels by `vectors` vectors of form.lanes channels that the model finds fastest.

    panel: vectors of a panel of packed weights; a chunk is whole panels, an even part of one, or all there is.
    """
    found = []
    least = min(vectors, -(-LEAST_CHANNELS // form.lanes))
    for nv in range(least, min(vectors, MOST_VECTORS) + 1):
        widths = widths_of(form, registers, width, nv)
        if widths is None or (nv % panel and panel % nv and nv != vectors):
            continue
        chunks, rest = divmod(vectors, nv)

        def cycles(nv: int, widths: Widths = widths) -> float:
            return sum(n * form.step_cycles(mr, nv * form.parts) for mr, n in widths.tiles)

        found.append((chunks * cycles(nv) + (cycles(rest) if rest else 0), -nv, Tiling(nv, widths)))
    return min(found, key=lambda f: f[:2])[2]


def chains(form: Form, pixels: int, pieces: int, registers: int, most: int) -> int:
    """Sums that each output is split into, to be added at the end: where a tile's outputs alone are too few."""
    wanted = min(most, -(-CHAIN // (pixels * pieces)))
    while wanted > 1 and form.registers(pixels, pieces * wanted) > registers:
        wanted -= 1
    return 1 if form.kind in ("madd", "maddubs", "mull") else wanted
