"""Power of a core at work, by its clock, from published measurements."""

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True)
class CorePower:
    """Measured milliwatts of one core by its clock in kHz, ascending. source: who measured, and on which chip."""

    core: str
    khz_mw: tuple[tuple[int, float], ...]
    source: str

    def milliwatts(self, khz: int) -> float:
        """Return the power at a clock: on the line between the two measured clocks around it.

        Beyond them it is that of the nearest one in proportion to the clock below, and to its cube above, where the
        voltage rises with it; `is_measured` says so.
        """
        clocks = [clock for clock, _ in self.khz_mw]
        above = bisect_left(clocks, khz)
        if above == len(clocks):
            return self.khz_mw[-1][1] * (khz / clocks[-1]) ** 3
        if above == 0:
            return self.khz_mw[0][1] * khz / clocks[0]
        (low, low_mw), (high, high_mw) = self.khz_mw[above - 1], self.khz_mw[above]
        return low_mw + (high_mw - low_mw) * (khz - low) / (high - low)

    def is_measured(self, khz: int) -> bool:
        """True for a clock within the measured ones."""
        return self.khz_mw[0][0] <= khz <= self.khz_mw[-1][0]
