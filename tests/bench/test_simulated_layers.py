"""Predicted against simulated layers: what the summary counts, and that other steps are refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from bench.simulated_layers import kind_of, layer_rows, summary


def row(network: str, core: str, predicted: float, simulated: float, kind: str = "conv") -> dict[str, Any]:
    return {
        "network": network,
        "core": core,
        "kind": kind,
        "predicted_ms": predicted,
        "simulated_ms": simulated,
    }


def test_the_summary_counts_layers_of_weight_and_all_of_the_time() -> None:
    rows = [row("n", "a", 10.5, 10.0), row("n", "a", 4.0, 5.0), row("n", "a", 0.001, 0.01), row("n", "b", 2.0, 1.0)]
    of_a, of_b = summary(rows, "core")
    assert (of_a["layers"], of_a["large"], of_a["within"]) == (3, 2, 0.5)  # the third is below half a percent
    assert of_a["share_within"] == pytest.approx(10 / 15.01, abs=1e-4)
    assert of_a["ratio"] == pytest.approx(14.501 / 15.01, abs=1e-4)
    assert of_a["median_ratio"] == pytest.approx((1.05 + 0.8) / 2)
    assert (of_b["within"], of_b["ratio"], of_b["share_of_time"]) == (0.0, 2.0, pytest.approx(1 / 16.01, abs=1e-4))


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("depthwise_f32_nhwc_1x64x64x24_3x3s1_52b5", "depthwise"),
        ("max_pool_f32_nhwc_1x32x32x28_2x2s2_e", "max pool"),
        ("pad_border_x32_1x131x131x3_2c8f", "pad border"),
        ("direct_channels_f32_hwc_64x64x24_5", "direct channels"),
    ],
)
def test_kinds_are_the_kernels_families(kernel: str, kind: str) -> None:
    assert kind_of({"kernel": kernel}) == kind


def test_times_are_of_the_core_and_steps_must_agree() -> None:
    cost = SimpleNamespace(ms=2.0, compute_ms=1.5, memory_ms=1.0)
    layer = SimpleNamespace(work=SimpleNamespace(name="c", op="conv2d"), on={"cortex-a55": cost})
    step = SimpleNamespace(name="c", op="conv2d", kernel="k", cycles=3e6, sample=SimpleNamespace(error=15000.0))
    prediction: Any = SimpleNamespace(layers=[layer])
    simulated: Any = SimpleNamespace(core="cortex-a55", figures=SimpleNamespace(ghz=1.5), steps=[step])
    (found,) = layer_rows("n", prediction, simulated)
    assert (found["predicted_ms"], found["simulated_ms"], found["standard_error_ms"]) == (2.0, 2.0, 0.01)
    step.name = "d"
    with pytest.raises(ValueError, match="not the same"):
        layer_rows("n", prediction, simulated)
