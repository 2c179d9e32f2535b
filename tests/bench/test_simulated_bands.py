"""Savings by bands of rows, predicted beside simulated."""

import pytest

from bench.simulated_bands import CORES, row_of
from mavcg.choose.bands.banded_range import LEAST_GAIN, BandTimes
from mavcg.hardware.cost_fit import KINDS
from mavcg.profiles.cost_fits import fit_of_kind


def test_savings_of_all_ranges_are_compared_with_the_networks() -> None:
    ranges = [
        {"modelled_ms": {"cortex-a55": {"layer_by_layer": 10.0, "bands": 9.0}}},
        {"modelled_ms": {"cortex-a55": {"layer_by_layer": 4.0, "bands": 3.8}}},
    ]
    row = row_of("cortex-a55", ranges, 100.0, 99.4)

    assert row["predicted_saved_ms"] == pytest.approx(1.2) and row["saved_ms"] == pytest.approx(0.6)
    assert row["predicted_over_simulated"] == pytest.approx(2.0) and row["time"] == pytest.approx(0.994)
    assert row_of("cortex-a55", ranges, 100.0, 101.0)["predicted_over_simulated"] is None
    assert CORES[0] == "cortex-a55"


def test_what_is_saved_has_a_factor_of_its_own() -> None:
    times = BandTimes(100.0, 93.0, 7.5, 0.5)

    assert times.pays(1.1, 1.1)
    assert not times.pays(1.1, 3.0)
    least = LEAST_GAIN * 100 + 0.5
    assert not BandTimes(100.0, 100 - least, least, 0.5).pays(1.0, 1.0)


def test_no_kind_trusts_savings_by_bands_more_than_other_times() -> None:
    for kind in KINDS:
        safety = fit_of_kind(kind).safety
        assert safety.bands >= safety.modelled >= 1.0
