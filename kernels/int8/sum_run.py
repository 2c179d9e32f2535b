"""The loops of an 8-bit sum over its inputs, and the order of its terms in packed weights."""

from dataclasses import dataclass

from mavcg.kernels.int8.register_tile import GROUP
from mavcg.specs.kernel import F32_BYTES as F32_BYTES


@dataclass(frozen=True)
class SumRun:
    """The loops of a sum over the inputs: levels of (count, step in bytes), outermost first, around a run of
    neighbours.

    length: bytes of a run, which is taken in groups of four; the last group ends where the run ends, so that some bytes
    may be in two groups, in one of them with weights of zero. A run of less than four bytes is one group.
    """

    levels: tuple[tuple[int, int], ...]
    length: int

    @property
    def groups(self) -> int:
        """Groups of one run."""
        return -(-self.length // GROUP)

    @property
    def steps(self) -> int:
        """Groups of the whole sum."""
        total = self.groups
        for count, _ in self.levels:
            total *= count
        return total

    def terms(self) -> list[tuple[int, ...]]:
        """Return the byte of a run that each position of each group multiplies; -1: the weight there is zero."""
        groups = []
        for start in range(0, self.length, GROUP):
            first = max(0, min(start, self.length - GROUP))
            groups.append(tuple(i if start <= i < self.length else -1 for i in range(first, first + GROUP)))
        return groups
