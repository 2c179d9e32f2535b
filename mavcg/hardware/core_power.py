"""Power of a busy core as a function of its clock, from published measurements."""

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True)
class CorePower:
    """Measured power of one core by its clock.

    khz_mw: pairs of kHz and milliwatts, with rising clocks. source: who measured it, and on which chip.
    """

    core: str
    khz_mw: tuple[tuple[int, float], ...]
    source: str

    def milliwatts(self, khz: int) -> float:
        """Return the power at a clock, by linear interpolation between the nearest measured clocks.

        Below the lowest, it is proportional to the clock; above the highest, to its cube, because the voltage rises
        too. `is_measured` tells whether a clock is between measured ones.
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
        """Return True for a clock between the measured ones."""
        return self.khz_mw[0][0] <= khz <= self.khz_mw[-1][0]
