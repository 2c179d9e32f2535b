"""A machine as the planner sees it: processing elements, memories on chip, the bandwidth between these and the rest."""

from dataclasses import dataclass
from math import prod

# The loops of a convolution by their names in accelerator files.
DIMENSIONS = ("OC", "IC", "OH", "OW", "KH", "KW")


@dataclass(frozen=True)
class MemoryLevel:
    """A level of memory that holds tiles. bandwidth_gb_per_s: of what is behind it (10^9 bytes a second).

    Either each operand has a memory of its own, or all share one: then shared_bytes says how large, and the others
    are 0.
    """

    name: str
    bandwidth_gb_per_s: float
    input_bytes: int = 0
    weight_bytes: int = 0
    output_bytes: int = 0
    shared_bytes: int = 0

    def holds(self, input_bytes: int, weight_bytes: int, output_bytes: int) -> bool:
        """True if tiles of these sizes fit at once."""
        if self.shared_bytes:
            return input_bytes + weight_bytes + output_bytes <= self.shared_bytes
        return (
            input_bytes <= self.input_bytes and weight_bytes <= self.weight_bytes and output_bytes <= self.output_bytes
        )


@dataclass(frozen=True)
class Accelerator:
    """A machine as e-PlaNNer's configuration file describes it (figure 6.1), or a cluster of cores in these terms.

    frequency_ghz: of the processing elements, each of which does one multiply-accumulate a cycle. levels: of memory,
    the one nearest to them first; the last one's bandwidth is the off-chip one. pe_len: columns, rows of the array;
    pe_mapping: the loop that runs along each, of DIMENSIONS; none where its length is 1.
    """

    name: str
    frequency_ghz: float
    levels: tuple[MemoryLevel, ...]
    pe_len: tuple[int, int]
    pe_mapping: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def pes(self) -> int:
        """Number of processing elements."""
        return prod(self.pe_len)

    @property
    def peak_gmac_per_s(self) -> float:
        """Billions of multiply-accumulates a second with every element at work; the same as MACs a ns."""
        return self.frequency_ghz * self.pes

    @property
    def memory(self) -> MemoryLevel:
        """The level that tiles are made for."""
        return self.levels[0]

    def parallel(self, dimension: str) -> int:
        """Return the number of iterations of a loop that the array does at once: its length where the loop is mapped
        onto it, else 1."""
        for length, mapped in zip(self.pe_len, self.pe_mapping, strict=True):
            if mapped and mapped[0] == dimension:
                return length
        return 1
