"""Products of 8-bit numbers on each core, and the register tiles of its micro-kernel: they change speed, not results.

All sums are exact, so each core may use its own instructions. All share the packing of weights: groups of four terms
of a sum beside each other, for one output channel after the other.
"""

from dataclasses import dataclass
from functools import cache
from math import inf

import numpy as np

from mavcg.cost_model.fits import all_cores_fit
from mavcg.cost_model.instruction_mix import throughput_cycles
from mavcg.hardware.issue_rates import IssueRates
from mavcg.kernels.gemm.register_tile import Widths, cut
from mavcg.specs.kernel import Array, Machine

SIGNED = ("sdot", "mull")
GROUP = 4  # terms of a sum that lie beside each other in packed weights

LEAST_CHANNELS = 8  # minimum channels of a tile, where there are as many: bytes that are stored at once
MOST_VECTORS = 8
TOGETHER = (4, 2, 1)  # groups whose products may be added before they are widened
U8_LARGEST, I16_LARGEST = (1 << 8) - 1, (1 << 15) - 1
CHAIN = 8  # accumulators that hide the latency of an instruction that adds to one


@cache
def _tile_rates() -> IssueRates:
    """Return the rates that 8-bit register tiles are chosen by, of every core: only ratios count."""
    fit = all_cores_fit().int8_register_tile
    return IssueRates(
        fit.multiplies_per_cycle, inf, fit.loads_per_cycle, inf, fit.issue_per_cycle, 0.0, 0.0, 0.0
    )  # fmt: skip


@dataclass(frozen=True)
class ProductForm:
    """The form of a core's products; kind: the instruction that multiplies.

    "sdot": NEON, four products i8 x i8 added to each i32 lane. "vnni": the same on x86, u8 x i8. "maddubs": x86 without
    that, products u8 x i8 added in pairs to i16, where that holds them. "madd": where not, products of i16 added in
    pairs. "mull": NEON without dot products, products i8 x i8 in i16, added in pairs. lanes: i32 lanes of a
    register. parts: lanes that add up to a channel's sum. flip: True if u8 is multiplied as i8 or i8 as u8, with a
    difference of 128 that the bias corrects. together: groups whose products are added in i16. window_sums: True if
    each pixel has an accumulator more, for the sum of its inputs: products with weights of 1, which are not loaded.
    """

    kind: str
    lanes: int
    parts: int
    flip: bool
    together: int = 1
    window_sums: bool = False

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
        """True if inputs are multiplied as i8, False for u8."""
        return self.kind in SIGNED

    def registers(self, pixels: int, pieces: int) -> int:
        """Return the number of registers of a tile: accumulators, inputs or weights of one step, products.

        pieces: of weights.
        """
        pieces += self.window_sums
        others = {
            "sdot": pixels + 4, "vnni": min(pixels, pieces) + 1, "madd": min(pixels, pieces) + 2,
            "mull": 2 * pieces + 5, "maddubs": 5,
        }  # fmt: skip
        return pixels * pieces + others[self.kind] + self.flip

    def step_cycles(self, pixels: int, pieces: int) -> float:
        """Return the cycles of four terms of the sum by a simple model: all instructions, and those that multiply."""
        # "madd" also adds, "mull" takes three instructions for two steps, "maddubs" widens and adds once for all groups
        # together; all but "sdot" bring inputs into lanes one by one.
        products = pixels * (pieces + self.window_sums)
        multiplies = 1 + 1 / self.together if self.kind == "maddubs" else 1.0
        each = {"sdot": 1.0, "vnni": 1.0, "madd": 2.0, "mull": 1.5, "maddubs": multiplies + 1}[self.kind]
        inputs = pixels * (0.25 if self.kind == "sdot" else 1.0)
        stream = pieces * self.weight_bytes / all_cores_fit().int8_register_tile.weight_bytes_per_cycle
        other = products * (each - multiplies)
        return throughput_cycles(_tile_rates(), products * multiplies, inputs + pieces, other) + stream


def form_of(
    machine: Machine, panel: int, dtype: str, together: int = 0, window_sums: bool = False
) -> ProductForm:  # fmt: skip
    """Return the machine's form of products for inputs of i8 or u8; registers are at most as long as a panel of
    channels.

    together: groups of weights the sum of whose products fits in i16, as of sums_in_i16. window_sums: True if sums of
    inputs are needed too.
    """
    if machine.arch == "aarch64":
        kind, lanes = "sdot" if machine.dot_product else "mull", 4
    else:
        # Registers of 64 bytes come in thirty-twos, AVX-512; without it longer vectors are several registers.
        register_bytes = min(machine.vector_bytes, 64 if machine.vector_registers >= 32 else 32)
        kind = "vnni" if machine.dot_product else "maddubs" if together else "madd"
        lanes = min(register_bytes // 4, panel)
    parts = 2 if kind in ("madd", "mull") else 1
    flip, added = (kind in SIGNED) != (dtype == "i8"), together if kind == "maddubs" else 1
    return ProductForm(kind, lanes, parts, flip, added, window_sums)


def sums_in_i16(packed: Array) -> int:
    """Return the number of neighbouring groups of a run whose products with u8 add up within i16: 4, 2, 1, or 0.

    Positions 0 and 1 of all these groups are one sum, 2 and 3 another. A sum is largest where inputs are 255 at the
    weights above zero and 0 elsewhere, and smallest vice versa. Groups are counted from the run's first.
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


def widths_of(form: ProductForm, registers: int, width: int, vectors: int) -> Widths | None:
    """Cut `width` pixels into tiles of `vectors` vectors of form.lanes channels; None where no pixel fits the
    registers."""
    fitting = [mr for mr in range(1, width + 1) if form.registers(mr, vectors * form.parts) <= registers]
    return cut(width, fitting[-1]) if fitting else None


@dataclass(frozen=True)
class Int8Tiling:
    """The register tiles of a convolution; vectors: of a chunk of output channels, widths: cut of a row of pixels."""

    vectors: int
    widths: Widths


@cache
def choose_tiling(form: ProductForm, registers: int, width: int, vectors: int, panel: int) -> Int8Tiling:
    """Return the tiling of `width` pixels by `vectors` vectors of form.lanes channels that the model finds fastest.

    panel: vectors of a panel of packed weights; a chunk is whole panels, an even part of one, or all there is.
    """
    candidates = []
    least = min(vectors, -(-LEAST_CHANNELS // form.lanes))
    for nv in range(least, min(vectors, MOST_VECTORS) + 1):
        widths = widths_of(form, registers, width, nv)
        if widths is None or (nv % panel and panel % nv and nv != vectors):
            continue
        chunks, rest = divmod(vectors, nv)

        def cycles(nv: int, widths: Widths = widths) -> float:
            return sum(n * form.step_cycles(mr, nv * form.parts) for mr, n in widths.tiles)

        candidates.append((chunks * cycles(nv) + (cycles(rest) if rest else 0), -nv, Int8Tiling(nv, widths)))
    return min(candidates, key=lambda candidate: candidate[:2])[2]


def chains(form: ProductForm, pixels: int, pieces: int, registers: int, most: int) -> int:
    """Return the number of sums that each output is split into, where a tile has too few outputs to hide latencies.

    They are added at the end.
    """
    count = min(most, -(-CHAIN // (pixels * pieces)))
    while count > 1 and form.registers(pixels, pieces * count) > registers:
        count -= 1
    return 1 if form.kind in ("madd", "maddubs", "mull") else count
