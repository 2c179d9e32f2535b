"""Errors of sums of f16: those in blocks do not grow with the number of terms."""

import numpy as np

from bench.half_sums import half_sums, relative_errors, winograd_errors
from mavcg.kernels.primitives.winograd.family import HALF_ERROR_BOUNDS


def test_blocks_bound_the_error_of_a_sum() -> None:
    short, long = (relative_errors(terms, positive=True) for terms in (64, 576))
    assert short["blocks and groups"] == short["f16 throughout"] > short["f32"]
    assert (
        long["blocks and groups"] < 1.3 * short["blocks and groups"]
        and long["f16 throughout"] > 2 * long["blocks and groups"]
    )


def test_a_sum_of_ones_stops_where_f16_has_no_next_number() -> None:
    ones = np.ones((1, 4096), np.float16)
    assert half_sums(ones, ones, 4096)[0] == 2048 and half_sums(ones, ones, 64)[0] == 4096


def test_winograds_largest_errors_are_a_quarter_to_an_eighth_of_the_bounds_of_algorithms() -> None:
    for (m, _), bound in HALF_ERROR_BOUNDS.items():
        largest = max(winograd_errors(m, channels, False)[1] for channels in (16, 64))
        assert largest < bound / 3 and bound < 10 * largest
