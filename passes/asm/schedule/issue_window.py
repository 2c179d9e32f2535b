"""The cycles from the current one on, as a list scheduler fills them: resources in use and classes that may not issue.

Time only goes forward here, and nothing is removed: the state is two integers. One has a field of bits for each
resource in each cycle, whose highest bit is set when an op takes more than is left; the other a bit for each pattern
that may not issue in a cycle.
"""

from mavcg.passes.asm.schedule.resource_table import ResourceTable


class IssueWindow:
    """The current cycle of a core and the later ones that ops already occupy; it begins idle."""

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
        self._fresh = idle[cycles[-1]]  # of the cycle that comes into sight with each step
        self._full = sum(1 << field(at, r) + bits - 1 for at in cycles for r in range(len(resources.capacities)))
        self._need = [sum(amount << field(at, r) for at, r, amount in pattern.uses) for pattern in patterns]
        self._pattern_count = len(patterns)
        self._bans = [
            sum(banned << after * len(patterns) for after, banned in pattern.bans if after >= 0) for pattern in patterns
        ]
        self.reset()

    def reset(self) -> None:
        """Begin anew, with an idle core."""
        self._used, self._banned = self._idle, 0

    def fits(self, pattern: int) -> bool:
        """True if an op of this pattern may issue in the current cycle."""
        return not (self._used + self._need[pattern] & self._full or self._banned >> pattern & 1)

    def place(self, pattern: int) -> None:
        """Issue an op of this pattern, which `fits`, in the current cycle."""
        self._used += self._need[pattern]
        self._banned |= self._bans[pattern]

    def advance(self) -> None:
        """Go to the next cycle."""
        self._used = self._used >> self._cycle_bits | self._fresh
        self._banned >>= self._pattern_count
