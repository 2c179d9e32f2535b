"""Attainable rate of a tiling on an accelerator (roofline): equations 6.6 to 6.13 of e-PlaNNer.

The paper's equation 6.6 is in MAC a second and its 6.11 in operations a byte; here both are in MAC. METRICS has what
the searches maximise; the energy of a layer's accesses takes the place of equation 6.13 (paper, 6.2 and 8.3).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from mavcg.cost.layer import ConvLayer, Tile
from mavcg.cost.traffic import Integers, Traffic
from mavcg.hardware.accelerator import Accelerator

Floats = NDArray[np.float64]
Metric = Callable[["Reached"], float]


@dataclass(frozen=True)
class Reached:
    """Result of the roofline model for one tiling of a layer.

    macs: multiply-accumulates of the layer. traffic: off-chip. compute_gmac_per_s: the computation roof.
    memory_gmac_per_s: the bandwidth roof.
    """

    macs: int
    traffic: Traffic
    compute_gmac_per_s: float
    memory_gmac_per_s: float

    @property
    def gmac_per_s(self) -> float:
        """Attainable rate, the lower of both roofs (equation 6.12)."""
        return min(self.compute_gmac_per_s, self.memory_gmac_per_s)

    @property
    def bound(self) -> str:
        """Name of the lower roof: "compute" or "memory"."""
        return "compute" if self.compute_gmac_per_s <= self.memory_gmac_per_s else "memory"

    @property
    def mac_per_byte(self) -> float:
        """Arithmetic intensity (equation 6.11)."""
        return self.macs / self.traffic.total_bytes

    @property
    def seconds(self) -> float:
        """Time of the layer at its attainable rate, in seconds."""
        return self.macs / (self.gmac_per_s * 1e9)


def iterations(tile: Tile, accelerator: Accelerator) -> int:
    """Return the number of steps that the array takes for a whole tile (equation 6.9)."""
    count = 1
    for name, factor in tile.factors.items():
        count *= -(-factor // accelerator.parallel(name))
    return count


def pe_utilisation(tile: Tile, accelerator: Accelerator) -> float:
    """Return the fraction of the processing elements that a tile keeps busy, 0 to 1 (equation 6.7)."""
    return tile.macs / (iterations(tile, accelerator) * accelerator.pes)


def loop_utilisation(layer: ConvLayer, accelerator: Accelerator, name: str, factor: Integers) -> Floats:
    """Return a loop's share of the array's utilisation, 0 to 1: its iterations over the array slots of all its tiles.

    factor: of the loop, any shape. This is a loop's part of equation 6.7 for each of its tiles, the smaller one at the
    end included, so that a layer's computation time is exactly the steps of the array. It is the same for each factor
    that is a multiple of the array's length or the whole loop, and larger for no other.
    """
    parallel, length = accelerator.parallel(name), layer.loops[name]
    if accelerator.any_outputs:
        if name != "OC":
            return np.ones_like(factor, np.float64)
        length *= layer.groups
        factor = np.full_like(factor, length)
    whole, rest = length // factor, length % factor
    steps = whole * -(-factor // parallel) - (-rest // parallel)
    share: Floats = length / (parallel * steps)
    return share


def array_utilisation(layer: ConvLayer, tile: Tile, accelerator: Accelerator) -> float:
    """Return the fraction of the processing elements that a layer in tiles of this size keeps busy, 0 to 1."""
    factors = {name: np.array([factor], np.int64) for name, factor in tile.factors.items()}
    return prod(float(loop_utilisation(layer, accelerator, name, factor)[0]) for name, factor in factors.items())


def compute_gmac_per_s(accelerator: Accelerator, tile: Tile | None = None) -> float:
    """Return the computation roof in GMAC/s (equation 6.6): of all elements, or of those that `tile` keeps busy.

    The paper's algorithm 4 compares tilings under the former: its `GetComputationRoof(config)` does not see a tile.
    """
    share = 1.0 if tile is None else pe_utilisation(tile, accelerator)
    return accelerator.peak_gmac_per_s * share


def busy_gmac_per_s(layer: ConvLayer, tile: Tile, accelerator: Accelerator) -> float:
    """Return the computation roof in GMAC/s of the elements that a layer in tiles of this size keeps busy."""
    return accelerator.peak_gmac_per_s * array_utilisation(layer, tile, accelerator)


def memory_gmac_per_s(accelerator: Accelerator, macs: int, off_chip: Traffic) -> float:
    """Return the bandwidth roof of a layer's tiling, in GMAC/s (equation 6.10)."""
    return accelerator.levels[-1].bandwidth_gb_per_s * macs / off_chip.total_bytes


def roofline_performance(
    layer: ConvLayer, off_chip: Traffic, accelerator: Accelerator, tile: Tile | None = None
) -> Reached:
    """Return the roofline of one layer.

    tile: of the layer; its computation roof is that of the elements which such tiles keep busy. None: of all elements.
    """
    return Reached(
        layer.macs,
        off_chip,
        compute_gmac_per_s(accelerator) if tile is None else busy_gmac_per_s(layer, tile, accelerator),
        memory_gmac_per_s(accelerator, layer.macs, off_chip),
    )


def performance_per_access(reached: Reached) -> float:
    """Return GMAC/s per off-chip byte, the paper's metric (equation 6.13). Like every metric here it is maximised."""
    return reached.gmac_per_s / reached.traffic.total_bytes


def latency(reached: Reached) -> float:
    """Return minus the seconds of the layer, a metric to be maximised."""
    return -reached.seconds


def least_traffic(reached: Reached) -> float:
    """Return minus the off-chip bytes, a metric to be maximised."""
    return -float(reached.traffic.total_bytes)


@dataclass(frozen=True)
class AccessEnergy:
    """Energy, in picojoules, of one off-chip byte, one on-chip byte and one multiply-accumulate."""

    off_chip_pj_per_byte: float
    on_chip_pj_per_byte: float
    pj_per_mac: float


# M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014, figure 1.1.9, 45 nm, 0.9 V:
# DRAM 1.3 to 2.6 nJ and 1 MB of cache 100 pJ, both for 64 bits; f32 multiplication 3.7 pJ, addition 0.9 pJ.
HOROWITZ_45_NM = AccessEnergy(off_chip_pj_per_byte=1300 / 8, on_chip_pj_per_byte=100 / 8, pj_per_mac=3.7 + 0.9)


def energy_pj(reached: Reached, access_energy: AccessEnergy) -> float:
    """Return the energy of a tiling's transfers and arithmetic, in picojoules.

    Each byte that moves is accessed once off chip and once on chip. What the array reads on chip is the same for all
    tilings of this model and is left out.
    """
    moved = reached.traffic.total_bytes * (access_energy.off_chip_pj_per_byte + access_energy.on_chip_pj_per_byte)
    return moved + reached.macs * access_energy.pj_per_mac


def least_energy(access_energy: AccessEnergy = HOROWITZ_45_NM) -> Metric:
    """Return the metric "minus the picojoules of a layer", to be maximised."""

    def metric(reached: Reached) -> float:
        return -energy_pj(reached, access_energy)

    return metric


METRICS: dict[str, Metric] = {
    "performance-per-access": performance_per_access,
    "latency": latency,
    "traffic": least_traffic,
    "energy": least_energy(),
}
