"""Direct convolutions in register tiles, and those for special layers."""

import pytest

from mavcg.kernels.primitives.direct.family import PRIMITIVES
from mavcg.lab.trials.check import CheckCase
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import Scenario
from tests.kernels.primitives.conftest import assert_right


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16])
def test_every_length_of_blocks_is_right(host: Machine, block: int) -> None:
    primitive = next(p for p in PRIMITIVES if p.name == "direct_blocked_channels_chwc_chwc")

    assert_right([CheckCase(primitive, Scenario(7, 4, 5, 1, 2, 11, 1), block=block)], host)


def test_special_ones_refuse_other_layers() -> None:
    by_name = {primitive.name: primitive for primitive in PRIMITIVES}

    for name, wrong in (
        ("direct_blocked_1x1_hwc_hwc", Scenario(8, 9, 9, 2, 1, 8)),
        ("direct_blocked_1x1_hwc_hwc", Scenario(8, 9, 9, 1, 3, 8)),
        ("direct_blocked_1x1_hwc_hwc", Scenario(8, 9, 9, 1, 1, 8, 1)),
        ("direct_blocked_first_chw_hwc", Scenario(8, 9, 9, 1, 3, 8)),
        ("direct_blocked_depthwise_hwc_hwc", Scenario(8, 9, 9, 1, 3, 16, 1, 8)),
    ):
        assert not by_name[name].applies(wrong), (name, wrong)
