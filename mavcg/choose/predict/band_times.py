"""Predicted times of a range of steps by bands of rows and layer by layer, and when bands pay."""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.choose.predict.latency import StepModel
from mavcg.hardware.core_model import CoreModel

LEAST_GAIN = 0.02  # share of a range's time that bands have to save


@dataclass(frozen=True)
class BandTimes:
    """Predicted times of a range of steps on some cores, in ms, layer by layer and by bands. saved, lost: sums over
    the steps that are faster, and slower, by bands."""

    whole_ms: float
    bands_ms: float
    saved_ms: float
    lost_ms: float

    def pays(self, safety: float, saved_safety: float) -> bool:
        """True if bands are faster by LEAST_GAIN even if cost safety factors are taken into account.

        safety: on what is lost; saved_safety: on what is saved.
        """
        return self.saved_ms / saved_safety - self.lost_ms * safety > LEAST_GAIN * self.whole_ms


@dataclass(frozen=True)
class ClusterTimes:
    """Times on one core of a cluster, and on all of its cores."""

    cluster: str
    alone: BandTimes
    together: BandTimes

    @property
    def gain(self) -> float:
        """Share of the time that bands save: the mean over one core and all cores."""
        rows = (self.alone, self.together)
        return sum((row.whole_ms - row.bands_ms) / row.whole_ms for row in rows if row.whole_ms) / 2


def compare_times(
    before: Sequence[float], models: Sequence[tuple[StepModel, int]], workers: Sequence[CoreModel]
) -> BandTimes:
    """Compare the times of steps layer by layer, in ms, with the times of the models' calls."""
    after = [count * model.together(workers) for model, count in models]
    saved = [a - b for a, b in zip(before, after, strict=True)]
    return BandTimes(sum(before), sum(after), sum(max(0.0, s) for s in saved), sum(max(0.0, -s) for s in saved))
