"""Equations 6.6 to 6.13 against figures by hand, and against walking the loops of figure 5.1."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis.strategies import builds, integers

from mavcg.accelerators.plans.roofline import (
    METRICS,
    AccessEnergy,
    compute_gmac_per_s,
    energy_pj,
    iterations,
    latency,
    least_energy,
    least_traffic,
    memory_gmac_per_s,
    pe_utilisation,
    performance_per_access,
    roofline_performance,
)
from mavcg.cost.layer import ConvLayer, Tile
from mavcg.cost.traffic import Traffic
from mavcg.hardware.accelerator import Accelerator, MemoryLevel

# Figure 6.1.
PAPER = Accelerator(
    "figure 6.1",
    1.2,
    (MemoryLevel("on-chip", 1.6, 368 * 1024, 288 * 1024, 144 * 1024),),
    (32, 32),
    (("IC",), ("OC",)),
)
LAYER = ConvLayer("l", 64, 32, 8, 8, 3, 3, 8, 8, pads=(1, 1, 1, 1))  # 1,179,648 multiply-accumulates
SMALL = Accelerator("small", 1.0, PAPER.levels, (2, 3), (("IC",), ("OC",)))


def test_all_elements_at_work() -> None:
    assert compute_gmac_per_s(PAPER) == pytest.approx(1228.8)
    assert compute_gmac_per_s(PAPER, Tile(64, 32, 2, 8, 3, 3)) == pytest.approx(1228.8)


def test_a_remainder_takes_a_whole_step() -> None:
    tile = Tile(33, 32, 1, 1, 1, 1)  # two steps of 32 rows for 33
    assert iterations(tile, PAPER) == 2
    assert pe_utilisation(tile, PAPER) == pytest.approx(33 / 64)
    assert compute_gmac_per_s(PAPER, tile) == pytest.approx(1228.8 * 33 / 64)


def test_fewer_channels_than_elements() -> None:
    tile = Tile(64, 3, 8, 8, 3, 3)  # a first layer
    assert iterations(tile, PAPER) == 2 * 1 * 8 * 8 * 9
    assert pe_utilisation(tile, PAPER) == pytest.approx(3 / 32)


@given(builds(Tile, *(integers(1, 7) for _ in range(2)), *(integers(1, 3) for _ in range(4))))
def test_utilisation_is_that_of_the_loops(tile: Tile) -> None:
    steps = done = 0
    for toc, tic in product(range(0, tile.oc, 3), range(0, tile.ic, 2)):
        for _ in range(tile.oh * tile.ow * tile.kh * tile.kw):
            steps += 1
            done += (min(toc + 3, tile.oc) - toc) * (min(tic + 2, tile.ic) - tic)
    assert iterations(tile, SMALL) == steps
    assert done == tile.macs
    assert pe_utilisation(tile, SMALL) == pytest.approx(done / (6 * steps))


def test_bound_by_memory() -> None:
    moved = Traffic(600_000, 300_000, 100_000)
    performance = roofline_performance(LAYER, moved, PAPER)
    assert performance.mac_per_byte == pytest.approx(1.179648)
    assert performance.memory_gmac_per_s == pytest.approx(1.6 * 1.179648)
    assert performance.memory_gmac_per_s == memory_gmac_per_s(PAPER, LAYER.macs, moved)
    assert (performance.gmac_per_s, performance.bound) == (performance.memory_gmac_per_s, "memory")
    assert performance.seconds == pytest.approx(1e6 / 1.6e9)  # the bytes at the bandwidth
    assert performance_per_access(performance) == pytest.approx(1.6 * 1.179648 / 1e6)


def test_bound_by_computation() -> None:
    performance = roofline_performance(LAYER, Traffic(1000, 200, 39), PAPER, Tile(64, 16, 8, 8, 3, 3))
    assert performance.compute_gmac_per_s == pytest.approx(614.4)
    assert (performance.gmac_per_s, performance.bound) == (performance.compute_gmac_per_s, "compute")
    assert performance.seconds == pytest.approx(LAYER.macs / 614.4e9)


def test_the_last_level_is_what_counts_off_chip() -> None:
    levels = (MemoryLevel("l1", 100.0, shared_bytes=1024), MemoryLevel("l2", 2.0, shared_bytes=1 << 20))
    machine = Accelerator("two levels", 1.0, levels, (2, 2), ((), ()))
    assert memory_gmac_per_s(machine, 3000, Traffic(500, 300, 200)) == pytest.approx(6.0)


@pytest.mark.parametrize("name", list(METRICS))
def test_fewer_bytes_are_never_worse(name: str) -> None:
    # Equal where the elements are what limits and only time counts.
    metric = METRICS[name]
    values = [
        metric(roofline_performance(LAYER, Traffic(moved, moved, moved), PAPER)) for moved in (200, 400, 10**5, 10**6)
    ]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1]


def test_metrics_by_hand() -> None:
    performance = roofline_performance(LAYER, Traffic(600_000, 300_000, 100_000), PAPER)
    assert latency(performance) == pytest.approx(-0.000625)
    assert least_traffic(performance) == -1_000_000
    assert METRICS["performance-per-access"] is performance_per_access


def test_energy_by_hand() -> None:
    performance = roofline_performance(LAYER, Traffic(600_000, 300_000, 100_000), PAPER)
    of = AccessEnergy(off_chip_pj_per_byte=100.0, on_chip_pj_per_byte=10.0, pj_per_mac=2.0)
    assert energy_pj(performance, of) == pytest.approx(110.0 * 1e6 + 2.0 * 1_179_648)
    assert least_energy(of)(performance) == -energy_pj(performance, of)
    # 64 bits: 1300 pJ of DRAM and 100 pJ of 1 MB of cache; 4.6 pJ a multiply-accumulate.
    assert METRICS["energy"](performance) == pytest.approx(-(1400 / 8 * 1e6 + 4.6 * 1_179_648))
