"""The planner's model of a machine: processing elements, levels of memory, and bandwidths between the levels."""

from dataclasses import dataclass
from math import prod

# Names of a convolution's loops in accelerator files.
DIMENSIONS = ("OC", "IC", "OH", "OW", "KH", "KW")


@dataclass(frozen=True)
class MemoryLevel:
    """A level of memory that holds tiles.

    bandwidth_gb_per_s: bandwidth to the next level, in 10^9 bytes per second. Either each operand has a memory of its
    own, with input_bytes, weight_bytes and output_bytes, or all share one of shared_bytes; the other sizes are 0.
    """

    name: str
    bandwidth_gb_per_s: float
    input_bytes: int = 0
    weight_bytes: int = 0
    output_bytes: int = 0
    shared_bytes: int = 0

    def holds(self, input_bytes: int, weight_bytes: int, output_bytes: int) -> bool:
        """Return True if tiles of these sizes fit at the same time."""
        if self.shared_bytes:
            return input_bytes + weight_bytes + output_bytes <= self.shared_bytes
        return (
            input_bytes <= self.input_bytes and weight_bytes <= self.weight_bytes and output_bytes <= self.output_bytes
        )


@dataclass(frozen=True)
class Accelerator:
    """A machine as e-PlaNNer's configuration file describes it (figure 6.1), or a cluster of cores in these terms.

    frequency_ghz: clock of the processing elements, each of which does one multiply-accumulate per cycle. levels:
    levels of memory, the nearest to the processing elements first; the bandwidth of the last one is off-chip. pe_len:
    columns and rows of the array. pe_mapping: loops, of DIMENSIONS, that run in parallel along each; none if its length
    is 1. any_outputs: True for cores and GPUs: elements along OC take output channels of several groups, as the lanes
    of a vector do, and those of the other side any independent outputs, as pipes do. An array whose elements share
    operands computes one group at a time.
    """

    name: str
    frequency_ghz: float
    levels: tuple[MemoryLevel, ...]
    pe_len: tuple[int, int]
    pe_mapping: tuple[tuple[str, ...], tuple[str, ...]]
    any_outputs: bool = False

    @property
    def pes(self) -> int:
        """Return the number of processing elements."""
        return prod(self.pe_len)

    @property
    def peak_gmac_per_s(self) -> float:
        """Return the peak rate in 10^9 multiply-accumulates per second, which is also MACs per ns."""
        return self.frequency_ghz * self.pes

    @property
    def memory(self) -> MemoryLevel:
        """Return the level of memory that tiles are made for."""
        return self.levels[0]

    def parallel(self, dimension: str) -> int:
        """Return the number of iterations of a loop that run at once.

        It is the array's length if the loop is mapped onto it, else 1.
        """
        for length, mapped in zip(self.pe_len, self.pe_mapping, strict=True):
            if mapped and mapped[0] == dimension:
                return length
        return 1
