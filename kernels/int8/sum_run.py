"""Loops of an 8-bit sum over its inputs, and the order of its terms in packed weights."""

from dataclasses import dataclass

from mavcg.kernels.int8.register_tile import GROUP
from mavcg.specs.kernel import F32_BYTES as F32_BYTES


@dataclass(frozen=True)
class SumRun:
    """The loops of a sum over the inputs: levels of (count, step in bytes), outermost first, around contiguous runs.

    length: bytes of a run, which is read in groups of four. The last group ends where the run ends, so that some bytes
    may be in two groups; their weights are zero in one of them. A run of fewer than four bytes is one group.
    """

    levels: tuple[tuple[int, int], ...]
    length: int

    @property
    def groups(self) -> int:
        """Number of groups of one run."""
        return -(-self.length // GROUP)

    @property
    def steps(self) -> int:
        """Number of groups of the whole sum."""
        total = self.groups
        for count, _ in self.levels:
            total *= count
        return total

    def terms(self) -> list[tuple[int, ...]]:
        """Return, for each group, the byte of the run that each position multiplies; -1: its weight is zero."""
        groups = []
        for start in range(0, self.length, GROUP):
            first = max(0, min(start, self.length - GROUP))
            groups.append(tuple(i if start <= i < self.length else -1 for i in range(first, first + GROUP)))
        return groups
