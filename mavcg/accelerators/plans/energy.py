"""Energy of a layer's accesses as a metric of the searches, in place of equation 6.13 (paper, 6.2 and 8.3)."""

from dataclasses import dataclass

from mavcg.accelerators.plans.roofline import METRICS, Metric, Reached


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


ALL_METRICS: dict[str, Metric] = METRICS | {"energy": least_energy()}
