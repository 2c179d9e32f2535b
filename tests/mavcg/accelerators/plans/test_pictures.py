"""The clouds of tilings that a roofline picture draws."""

import numpy as np

from mavcg.accelerators.plans.pictures import MOST_POINTS, clouds
from mavcg.cost.layer import ConvLayer
from mavcg.profiles.accelerators import find_accelerator

VGG3_1 = ConvLayer("conv3_1", 256, 128, 56, 56, 3, 3, 56, 56, pads=(1, 1, 1, 1))


def test_clouds_have_at_most_so_many_points_and_lie_below_the_roof() -> None:
    machine = find_accelerator("setup-a")
    points = clouds(VGG3_1, machine)
    assert len(points) == 3
    for x, y in points:
        assert 0 < len(x) == len(y) <= MOST_POINTS
        assert np.all(y <= np.minimum(machine.peak_gmac_per_s, machine.memory.bandwidth_gb_per_s * x) * (1 + 1e-9))
    assert len(points[0][0]) > MOST_POINTS // 2  # thinned no more than it has to be
