"""Pearson's correlation on figures worked out by hand."""

import pytest

from mavcg.choose.predict.report import agreement


def test_a_correlation_is_that_worked_out_by_hand() -> None:
    correlation = agreement([1.0, 2.0, 3.0], [2.0, 4.0, 9.0])

    # Deviations -1, 0, 1 and -3, -1, 4: 7 / sqrt(2 * 26).
    assert correlation.pearson == pytest.approx(7 / (2 * 26) ** 0.5)
    assert correlation.ratio == pytest.approx(6 / 15) and correlation.layers == 3


def test_logarithms_count_all_layers_alike() -> None:
    correlation = agreement([1.0, 10.0, 100.0], [2.0, 20.0, 200.0])

    assert correlation.of_logs == pytest.approx(1.0) and correlation.pearson == pytest.approx(1.0)


@pytest.mark.parametrize("times", [([], []), ([1.0], [2.0]), ([1.0, 1.0], [2.0, 3.0])])
def test_too_little_to_correlate(times: tuple[list[float], list[float]]) -> None:
    assert agreement(*times).pearson is None


def test_steps_without_a_measurable_time_are_left_out() -> None:
    assert agreement([1.0, 2.0, 5.0], [1.0, 2.0, 0.0]).layers == 2
