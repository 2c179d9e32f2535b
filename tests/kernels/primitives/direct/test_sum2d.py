"""The baseline, sum of single channels: any scenario, in any ranges of channels, the same bits everywhere."""

from mavcg.kernels.primitives.direct.sum2d import PRIMITIVES
from mavcg.specs.primitive import Layout, Scenario


def test_scalar_baseline_needs_memory_for_a_border_only() -> None:
    baseline = next(p for p in PRIMITIVES if p.name == "sum2d_scalar_chw_chw")

    assert (baseline.layout_in, baseline.layout_out) == (Layout.CHW, Layout.CHW)
    assert baseline.workspace_bytes(Scenario(8, 10, 10, 2, 3, 8)) == 0
    assert baseline.workspace_bytes(Scenario(8, 10, 10, 1, 3, 8, 1)) == 8 * 12 * 12 * 4
