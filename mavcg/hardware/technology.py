"""Energy and area of parts of a chip: multiply-accumulates, memories by their size, and DRAM."""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, log

ELEMENT_TYPES = ("f32", "f16", "i8")

# Rows of (size of a memory in bytes, energy or area per byte of it).
SizeTable = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class MacCost:
    """Cost of a multiply-accumulate on one element type.

    pj: energy, in picojoules. um2: area of its unit, in square micrometres.
    """

    pj: float
    um2: float


@dataclass(frozen=True)
class Technology:
    """Published figures of a semiconductor process.

    macs: cost of a multiply-accumulate by element type, in the order of ELEMENT_TYPES. sram_pj, sram_um2: energy per
    accessed byte and area per byte, by the memory's size, ascending. dram_pj_per_byte: energy per byte read from or
    written to DRAM. sources: source of each fact, by its key.
    """

    name: str
    description: str
    macs: tuple[MacCost, ...]
    sram_pj: SizeTable
    sram_um2: SizeTable
    dram_pj_per_byte: float
    sources: tuple[tuple[str, str], ...] = ()

    def mac(self, element_type: str) -> MacCost:
        """Return the cost of a multiply-accumulate on elements of a type."""
        return self.macs[ELEMENT_TYPES.index(element_type)]

    def sram_pj_per_byte(self, size_bytes: int) -> float:
        """Return the energy of an accessed byte in a memory of this size, in picojoules."""
        return interpolate(self.sram_pj, size_bytes)

    def sram_mm2(self, size_bytes: int) -> float:
        """Return the area of a memory of this size, in square millimetres."""
        return size_bytes * interpolate(self.sram_um2, size_bytes) / 1e6


@lru_cache(maxsize=4096)  # the points of a design space repeat the same sizes of memories
def interpolate(rows: SizeTable, size_bytes: int) -> float:
    """Return a table's figure for a size, by linear interpolation of logarithms between the two nearest rows.

    Sizes below the first row have its figure; above the last row, the line through the last two rows is extrapolated.
    """
    if len(rows) == 1 or size_bytes <= rows[0][0]:
        return rows[0][1]
    above = next((i for i, (size, _) in enumerate(rows) if size >= size_bytes), len(rows) - 1)
    (low, low_figure), (high, high_figure) = rows[above - 1], rows[above]
    slope = log(high_figure / low_figure) / log(high / low)
    return low_figure * exp(slope * log(size_bytes / low))
