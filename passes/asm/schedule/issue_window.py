"""The resources that a list scheduler has taken in the current and later cycles, as two integers used as bit fields.

The first integer has a field for each resource of each cycle; the field's highest bit becomes 1 when an op takes more
than is left. The second has a bit for each pattern and cycle, set if the pattern may not issue then. Time only goes
forward and nothing is removed.
"""

from mavcg.passes.asm.schedule.resource_table import ResourceTable


class IssueWindow:
    """The resources in use in the current cycle and in the later cycles that ops already occupy; it begins idle."""

    def __init__(self, resources: ResourceTable) -> None:
        patterns = resources.patterns
        amounts = [amount for pattern in patterns for _, _, amount in pattern.uses]
        bits = max([*resources.capacities, *amounts]).bit_length() + 1  # of a field
        cycles = range(1 + max((after for pattern in patterns for after, _, _ in pattern.uses), default=0))
        self._cycle_bits = bits * len(resources.capacities)

        def field(after: int, resource: int) -> int:
            return after * self._cycle_bits + resource * bits

        idle = {
            after: sum(
                (1 << bits - 1) - 1 - capacity << field(after, r) for r, capacity in enumerate(resources.capacities)
            )
            for after in cycles
        }
        self._idle = sum(idle.values())
        self._fresh = idle[cycles[-1]]  # fields of the new last cycle that each step adds
        self._full = sum(1 << field(at, r) + bits - 1 for at in cycles for r in range(len(resources.capacities)))
        self._need = [sum(amount << field(at, r) for at, r, amount in pattern.uses) for pattern in patterns]
        self._pattern_count = len(patterns)
        self._bans = [
            sum(banned << after * len(patterns) for after, banned in pattern.bans if after >= 0) for pattern in patterns
        ]
        self.reset()

    def reset(self) -> None:
        """Return to an idle core."""
        self._used, self._banned = self._idle, 0

    def fits(self, pattern: int) -> bool:
        """True if an op of this pattern may issue in the current cycle."""
        return not (self._used + self._need[pattern] & self._full or self._banned >> pattern & 1)

    def place(self, pattern: int) -> None:
        """Issue an op of this pattern in the current cycle; `fits` must be true."""
        self._used += self._need[pattern]
        self._banned |= self._bans[pattern]

    def advance(self) -> None:
        """Go to the next cycle."""
        self._used = self._used >> self._cycle_bits | self._fresh
        self._banned >>= self._pattern_count
