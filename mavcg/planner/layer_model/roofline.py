"""Attainable rate of a tiling on an accelerator (roofline): equations 6.6 to 6.13 of e-PlaNNer.

The paper's equation 6.6 is in MAC a second and its 6.11 in operations a byte; here both are in MAC.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mavcg.hardware.accelerator import Accelerator
from mavcg.planner.layer_model.layer import ConvLayer
from mavcg.planner.layer_model.tiling import Tile
from mavcg.planner.layer_model.traffic import Traffic

Metric = Callable[["Reached"], float]


@dataclass(frozen=True)
class Reached:
    """Result of the model for a layer's tiling.

    compute_gmac_per_s: the computation roof; memory_gmac_per_s: the bandwidth's. traffic: off-chip. macs: of the layer.
    """

    macs: int
    traffic: Traffic
    compute_gmac_per_s: float
    memory_gmac_per_s: float

    @property
    def gmac_per_s(self) -> float:
        """Equation 6.12: the lower roof."""
        return min(self.compute_gmac_per_s, self.memory_gmac_per_s)

    @property
    def bound(self) -> str:
        """The lower roof: "compute" or "memory"."""
        return "compute" if self.compute_gmac_per_s <= self.memory_gmac_per_s else "memory"

    @property
    def mac_per_byte(self) -> float:
        """Arithmetic intensity (equation 6.11)."""
        return self.macs / self.traffic.total_bytes

    @property
    def seconds(self) -> float:
        """Seconds of the layer at the rate that it reaches."""
        return self.macs / (self.gmac_per_s * 1e9)


def iterations(tile: Tile, accelerator: Accelerator) -> int:
    """Return the number of steps of the array for a whole tile (equation 6.9)."""
    count = 1
    for name, factor in tile.factors.items():
        count *= -(-factor // accelerator.parallel(name))
    return count


def pe_utilisation(tile: Tile, accelerator: Accelerator) -> float:
    """Share of the processing elements at work (equation 6.7): 0 to 1."""
    return tile.macs / (iterations(tile, accelerator) * accelerator.pes)


def compute_gmac_per_s(accelerator: Accelerator, tile: Tile | None = None) -> float:
    """Computation roof in GMAC/s (equation 6.6): of all elements, or of those that a tile keeps at work.

    The paper's algorithm 4 compares tilings under the first (its `GetComputationRoof(config)` sees no tile).
    """
    share = 1.0 if tile is None else pe_utilisation(tile, accelerator)
    return accelerator.peak_gmac_per_s * share


def memory_gmac_per_s(accelerator: Accelerator, macs: int, off_chip: Traffic) -> float:
    """Bandwidth roof of a layer's tiling, in GMAC/s (equation 6.10)."""
    return accelerator.levels[-1].bandwidth_gb_per_s * macs / off_chip.total_bytes


def roofline_performance(
    layer: ConvLayer, off_chip: Traffic, accelerator: Accelerator, tile: Tile | None = None
) -> Reached:
    """Return the roofline's figures of one layer, with the computation roof of `tile`, or that of all elements."""
    return Reached(
        layer.macs,
        off_chip,
        compute_gmac_per_s(accelerator, tile),
        memory_gmac_per_s(accelerator, layer.macs, off_chip),
    )


def performance_per_access(reached: Reached) -> float:
    """Return the paper's metric, equation 6.13: GMAC/s for each off-chip byte. More is better, as of every metric."""
    return reached.gmac_per_s / reached.traffic.total_bytes


def latency(reached: Reached) -> float:
    """Return minus the seconds of the layer, a metric of which more is better."""
    return -reached.seconds


def least_traffic(reached: Reached) -> float:
    """Return minus the off-chip bytes, a metric of which more is better."""
    return -float(reached.traffic.total_bytes)


METRICS: dict[str, Metric] = {
    "performance-per-access": performance_per_access,
    "latency": latency,
    "traffic": least_traffic,
}
