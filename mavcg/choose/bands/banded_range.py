"""A range of steps that is computed by bands of rows: its predicted times by bands and layer by layer."""

from dataclasses import dataclass
from typing import Any

from mavcg.memory.row_segments import StepRange

# Values of --depth-first: ranges that pay by a margin; all ranges that are predicted to be faster; none.
AUTO, ON, OFF = "auto", "on", "off"
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


@dataclass(frozen=True)
class DepthFirst:
    """A range of steps by bands, with its predicted times, of the fastest cluster first."""

    steps: StepRange
    times: tuple[ClusterTimes, ...]
    names: tuple[str, str] = ("", "")

    @property
    def saved_ms(self) -> float:
        """Time that bands save on one core of the fastest cluster, in ms."""
        return self.times[0].gain * self.times[0].alone.whole_ms

    def as_json(self) -> dict[str, Any]:
        """Return the range's first and last layer, rows of a band, and modelled milliseconds by cluster."""
        return {
            "first": self.names[0],
            "last": self.names[1],
            "steps": self.steps.end - self.steps.begin,
            "band_rows": self.steps.band_units,
            "modelled_ms": {
                t.cluster: {
                    "layer_by_layer": round(t.alone.whole_ms, 4),
                    "bands": round(t.alone.bands_ms, 4),
                    "layer_by_layer_all_cores": round(t.together.whole_ms, 4),
                    "bands_all_cores": round(t.together.bands_ms, 4),
                }
                for t in self.times
            },
        }
