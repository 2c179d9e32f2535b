"""Choice of the product instructions and the register tiles of 8-bit micro-kernels for a core.

All sums are exact, so each core may use its own instructions. All cores share the packing of weights: groups of four or
eight terms of a sum for one output channel after the other.
"""

from dataclasses import dataclass, replace
from functools import cache
from math import inf

import numpy as np

from mavcg.hardware.cost_fit import X86, TileProductFit
from mavcg.hardware.issue_rates import IssueRates, throughput_cycles
from mavcg.kernels.builder.run_numbers import Number
from mavcg.kernels.builder.x86_tiles import ROW_BYTES, TILE_REGISTERS, TILE_ROWS
from mavcg.kernels.gemm.register_tile import Widths, cut
from mavcg.profiles.cost_fits import all_cores_fit, fit_of_kind
from mavcg.specs.kernel import Array, Machine

SIGNED = ("sdot", "mull", "smmla", "tdpbssd")
MATRIX = ("smmla", "usmmla")
TILES = {"i8": "tdpbssd", "u8": "tdpbusd"}  # by the type of inputs
TILE_LANES = ROW_BYTES // 4  # sums of a row of a tile
GROUP = 4  # neighbouring terms of a sum in packed weights, which a dot product adds
MATRIX_GROUP = 8  # the same of weights for products of matrices

LEAST_CHANNELS = 8  # minimum channels of a tile, if there are as many: bytes of one store
MOST_VECTORS = 8
TOGETHER = (4, 2, 1)  # numbers of groups whose products may be added before they are widened
U8_LARGEST, I16_LARGEST = (1 << 8) - 1, (1 << 15) - 1
CHAIN = 8  # accumulators that hide the latency of a multiply-add
SUM_TILES = 4  # tile registers of sums; inputs have two more, and weights


@cache
def _tile_rates() -> IssueRates:
    """Return the issue rates that 8-bit register tiles of all cores are chosen by; only their ratios matter."""
    fit = all_cores_fit().int8_register_tile
    return IssueRates(fit.multiplies_per_cycle, inf, fit.loads_per_cycle, inf, fit.issue_per_cycle, 0.0, 0.0, 0.0)


@cache
def tile_product_fit() -> TileProductFit:
    """Return the constants of products of tiles."""
    fit = fit_of_kind(X86).tile_products
    assert fit is not None
    return fit


@dataclass(frozen=True)
class ProductForm:
    """The form in which a core computes products; kind: the multiplying instruction.

    "sdot": NEON, four products i8 x i8 added to each i32 lane. "vnni": the same on x86, u8 x i8. "maddubs": x86
    without VNNI, products u8 x i8 added in pairs as i16, where i16 holds them. "madd": else, products of i16 added
    in pairs. "mull": NEON without dot products, products i8 x i8 as i16, added in pairs. "smmla", "usmmla": NEON,
    products of two pixels' eight inputs (i8, u8) and two channels' eight weights, of which each i32 lane is one.
    "tdpbssd", "tdpbusd": AMX, products of tiles of 16 pixels' inputs (i8, u8) and 16 channels' weights, row_terms
    terms of each at once; the sums are in tile registers, and their rows in memory are registers. lanes: i32 lanes
    of a register. parts: lanes that add up to a channel's sum; of a product of matrices: pixels of an accumulator.
    flip: True if u8 is multiplied as i8 or i8 as u8, with a difference of 128 that the bias corrects. together:
    groups whose products are added as i16. window_sums: True if each pixel has one more accumulator for the sum of
    its inputs, by products with weights of 1, which are not loaded. packed: neighbouring terms in packed weights,
    GROUP or MATRIX_GROUP.
    """

    kind: str
    lanes: int
    parts: int
    flip: bool
    together: int = 1
    window_sums: bool = False
    packed: int = GROUP
    row_terms: int = 0

    @property
    def in_tiles(self) -> bool:
        """True if sums are in tile registers."""
        return self.row_terms > 0

    @property
    def most_vectors(self) -> int:
        """Maximum number of vectors of channels of a tile."""
        return SUM_TILES if self.in_tiles else MOST_VECTORS

    def available(self, machine: Machine) -> int:
        """Return the number of registers that tiles may use: of vectors, or of tiles."""
        return TILE_REGISTERS if self.in_tiles else machine.vector_registers

    @property
    def matrix(self) -> bool:
        """True if a product is one of matrices."""
        return self.kind in MATRIX

    @property
    def starts_with_bias(self) -> bool:
        """True if a channel's sum is in one lane from the beginning, so that it can begin with its bias."""
        return self.parts == 1 or self.matrix

    @property
    def widens(self) -> bool:
        """True if bytes are widened to i16 before they are multiplied."""
        return self.kind in ("madd", "mull")

    @property
    def terms(self) -> int:
        """Number of terms of a sum that one product adds."""
        return MATRIX_GROUP if self.matrix else GROUP

    @property
    def unpacks(self) -> bool:
        """True if a product takes half of each group of packed weights."""
        return self.terms < self.packed

    def rows(self, pixels: int) -> int:
        """Return the number of rows of accumulators of a tile."""
        return -(-pixels // 2) if self.matrix else pixels

    @property
    def piece(self) -> int:
        """Number of output channels of one accumulator."""
        return self.lanes // self.parts

    @property
    def weight_bytes(self) -> int:
        """Size of the packed weights of one product, in bytes."""
        return self.piece * self.terms

    @property
    def signed(self) -> bool:
        """True if inputs are multiplied as i8, False for u8."""
        return self.kind in SIGNED

    def registers(self, pixels: int, pieces: int) -> int:
        """Return the number of registers that a tile needs: accumulators, inputs or weights of a step, products.

        pieces: number of accumulators of a pixel, that is of vectors of weights.
        """
        pieces += self.window_sums
        if self.in_tiles:
            return -(-pixels // TILE_ROWS) * pieces + TILE_REGISTERS - SUM_TILES
        if self.matrix:
            rows = self.rows(pixels)
            return rows * pieces + rows + 3
        others = {
            "sdot": pixels + 4,
            "vnni": min(pixels, pieces) + 1,
            "madd": min(pixels, pieces) + 2,
            "mull": 2 * pieces + 5,
            "maddubs": 5,
        }
        return pixels * pieces + others[self.kind] + self.flip + 2 * self.unpacks

    def step_cycles(self, pixels: int, pieces: int, rows: int = SUM_TILES) -> float:
        """Return the modelled cycles of a product's terms of the sum: the throughput of all, and of multiplying,
        instructions. rows: of pixels, which blocks of AMX's tiles extend over."""
        stream = pieces * self.weight_bytes / all_cores_fit().int8_register_tile.weight_bytes_per_cycle
        if self.in_tiles:
            fit, tiles = tile_product_fit(), -(-pixels // TILE_ROWS)
            at_once = min(SUM_TILES // pieces, tiles * rows)  # tiles of pixels, which share weights
            cycles = max(fit.least_cycles, -(-pixels // tiles) * fit.row_cycles, fit.latency / (at_once * pieces))
            return tiles * pieces * cycles * GROUP / self.row_terms + stream * tiles / at_once
        if self.matrix:
            # The second pixel of a row is loaded into the upper half of a register, by a load and a vector instruction.
            rows = self.rows(pixels)
            vectors = rows * (pieces + self.window_sums) + rows
            return throughput_cycles(_tile_rates(), vectors, 2 * rows + pieces) + stream
        # "madd" also adds, "mull" takes three instructions for two steps, "maddubs" widens and adds once for all groups
        # that
        # are added as i16; all but "sdot" broadcast each input separately.
        products = pixels * (pieces + self.window_sums)
        multiplies = 1 + 1 / self.together if self.kind == "maddubs" else 1.0
        instructions = {"sdot": 1.0, "vnni": 1.0, "madd": 2.0, "mull": 1.5, "maddubs": multiplies + 1}[self.kind]
        inputs = pixels * (0.25 if self.kind == "sdot" else 1.0)
        extra_instructions = products * (instructions - multiplies) + pieces * self.unpacks
        return throughput_cycles(_tile_rates(), products * multiplies, inputs + pieces, extra_instructions) + stream

    def result_cycles(self, vectors: int) -> float:
        """Return the modelled cycles of a pixel's results in `vectors` vectors of channels, of what tiles have beside
        others: sums are stored and loaded, and a narrow chunk's results are narrowed to 8 bits one by one."""
        if not self.in_tiles:
            return 0.0
        fit, together = tile_product_fit(), 1 << (vectors.bit_length() - 1)
        return vectors * (fit.result_cycles + fit.narrow_cycles * (1 / together - 1 / SUM_TILES))


def form_of(
    machine: Machine, panel: int, dtype: str, together: int = 0, window_sums: bool = False, packed: int = GROUP
) -> ProductForm:
    """Return the machine's product form for inputs of type dtype (i8 or u8), with registers no longer than a panel.

    panel: channels of a panel of packed weights. together: groups whose products i16 can sum (sums_in_i16).
    window_sums: True if sums of inputs are needed too. packed: neighbouring terms in packed weights.
    """
    if machine.arch == "aarch64":
        kind, lanes = "sdot" if machine.dot_product else "mull", 4
        if machine.matrix_product and packed == MATRIX_GROUP:
            kind = "smmla" if dtype == "i8" else "usmmla"
    else:
        # Machines with registers of 64 bytes have 32 of them (AVX-512); on others longer vectors are several registers.
        register_bytes = min(machine.vector_bytes, 64 if machine.vector_registers >= 32 else 32)
        kind = "vnni" if machine.dot_product else "maddubs" if together else "madd"
        lanes = min(register_bytes // 4, panel)
    parts = 2 if kind in ("madd", "mull", *MATRIX) else 1
    flip, added = (kind in SIGNED) != (dtype == "i8"), together if kind == "maddubs" else 1
    return ProductForm(kind, lanes, parts, flip, added, window_sums, packed)


def tile_form(dtype: str, run: "SumRun", machine: Machine) -> ProductForm | None:
    """Return the form of products in AMX's tiles, or None where the machine has none, or inputs do not fill their rows.

    A run of contiguous inputs is cut into equal rows of at most ROW_BYTES, whose bytes are whole groups of terms.
    """
    rows = [n for n in range(-(-run.length // ROW_BYTES), run.length // GROUP + 1) if run.length % (n * GROUP) == 0]
    if not machine.int8_tiles or run.group != GROUP or not rows:
        return None
    return ProductForm(TILES[dtype], TILE_LANES, 1, False, row_terms=run.length // rows[0])


def sums_in_i16(packed: Array) -> int:
    """Return the number of neighbouring groups of a run whose products with u8 inputs i16 can sum: 4, 2, 1, or 0.

    Positions 0 and 1 of these groups form one sum, 2 and 3 another. A sum is largest if inputs are 255 at positive
    weights and 0 elsewhere, and smallest vice versa. Groups are counted from the run's first.
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
    """Cut a row of `width` pixels into tiles of `vectors` vectors of channels; None if no tile fits the registers."""
    fitting = [mr for mr in range(1, width + 1) if form.registers(mr, vectors * form.parts) <= registers]
    if not fitting:
        return None
    return cut_pairs(width, fitting[-1]) if form.matrix else cut(width, fitting[-1])


@dataclass(frozen=True)
class PairWidths(Widths):
    """A row of pixels cut into tiles of pairs: `count` of `mr` pixels, `count_less` of mr - 2. width: of the row; if it
    is odd, the last tile has one pixel less."""

    width: int

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """(pixels, number of tiles) for each width of tiles that occurs, in the order of the row."""
        whole = [(mr, n) for mr, n in ((self.mr, self.count), (self.mr - 2, self.count_less)) if n]
        if self.width % 2:
            mr, n = whole.pop()
            whole += [(mr, n - 1), (mr - 1, 1)]
        return tuple((mr, n) for mr, n in whole if n)


def cut_pairs(width: int, most: int) -> PairWidths:
    """Cut a row of `width` pixels into tiles of at most `most` pixels, all but the last of whole pairs."""
    pairs = cut(-(-width // 2), -(-most // 2))
    return PairWidths(2 * pairs.mr, pairs.count, pairs.count_less, width)


@dataclass(frozen=True)
class Int8Tiling:
    """The register tiles of a convolution. vectors: size of a chunk of output channels. widths: tiles of a row."""

    vectors: int
    widths: Widths

    def row_cycles(self, form: ProductForm, vectors: int, steps: float, rows: int) -> float:
        """Return the modelled cycles of one of `rows` rows of pixels. vectors: of all output channels. steps: groups of
        a sum."""
        chunks, rest = divmod(vectors, self.vectors)
        return sum(
            count * n * (steps * form.step_cycles(mr, nv * form.parts, rows) + mr * form.result_cycles(nv))
            for nv, count in ((self.vectors, chunks), (rest, 1))
            if nv
            for mr, n in self.widths.tiles
        )


@cache
def choose_tiling(
    form: ProductForm, registers: int, width: int, vectors: int, panel: int, steps: int, rows: int
) -> Int8Tiling:
    """Return the tiling of `width` pixels by `vectors` vectors of channels with the fewest modelled cycles.

    panel: vectors of a panel of packed weights; a chunk is whole panels, an even part of a panel, or all vectors.
    steps: groups of terms of a sum. rows: of `width` pixels.
    """
    candidates = []
    least = min(vectors, -(-LEAST_CHANNELS // form.lanes))
    for nv in range(least, min(vectors, form.most_vectors) + 1):
        widths = widths_of(form, registers, width, nv)
        if widths is None or (nv % panel and panel % nv and nv != vectors):
            continue
        tiling = Int8Tiling(nv, widths)
        candidates.append((tiling.row_cycles(form, vectors, steps, rows), -nv, tiling))
    return min(candidates, key=lambda candidate: candidate[:2])[2]


def chains(form: ProductForm, pixels: int, pieces: int, registers: int, most: int) -> int:
    """Return the number of partial sums per output, more than one if a tile has too few outputs to hide latencies.

    most: maximum number. Partial sums are added at the end.
    """
    count = min(most, -(-CHAIN // (form.rows(pixels) * pieces)))
    while count > 1 and form.registers(pixels, pieces * count) > registers:
        count -= 1
    return 1 if form.kind in ("madd", "maddubs", "mull") else count


@dataclass(frozen=True)
class SumRun:
    """The loops of a sum over the inputs: levels of (count, step in bytes), outermost first, around contiguous runs.

    length: bytes of a run, which is read in groups of `group` bytes. The last group ends where the run ends, so that
    some bytes may be in two groups; their weights are zero in one of them. A run of fewer than four bytes is one group
    of four. A run may set a step. unused: the last bytes of a run that are no terms; their weights are zero.
    """

    levels: tuple[tuple[int, Number], ...]
    length: int
    group: int = GROUP
    unused: int = 0

    @property
    def groups(self) -> int:
        """Number of groups of one run."""
        return -(-self.length // self.group)

    @property
    def steps(self) -> int:
        """Number of groups of the whole sum."""
        total = self.groups
        for count, _ in self.levels:
            total *= count
        return total

    @property
    def of_weights(self) -> "SumRun":
        """The same groups without the steps between inputs, on which packed weights do not depend."""
        return replace(self, levels=tuple((count, 0) for count, _ in self.levels))

    @property
    def term_bytes(self) -> int:
        """Number of bytes of a run that are terms."""
        return self.length - self.unused

    def in_whole_groups(self, beyond: int) -> "SumRun":
        """Return the run up to the end of its last group, if that is at most `beyond` bytes after its own."""
        unused = -self.length % self.group
        return replace(self, length=self.length + unused, unused=unused) if unused <= beyond else self

    def terms(self) -> list[tuple[int, ...]]:
        """Return, for each group, the byte of the run that each position multiplies; -1: its weight is zero."""
        groups, size = [], self.group
        for start in range(0, self.length, size):
            first = max(0, min(start, self.length - size))
            groups.append(tuple(i if start <= i < self.term_bytes else -1 for i in range(first, first + size)))
        return groups
