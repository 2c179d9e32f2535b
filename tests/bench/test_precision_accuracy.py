"""Weights of 8 bits and the comparison of scores, as bench.precision_accuracy has them."""

import numpy as np

from bench.precision_accuracy import compared, with_8_bit_weights


def test_weights_are_within_half_a_step_of_their_channel() -> None:
    weights = np.random.default_rng(0).standard_normal((5, 3, 3, 2)).astype(np.float32)
    weights[1] *= 100
    weights[2] = 0
    rounded = with_8_bit_weights(weights)
    for own, right in zip(rounded, weights, strict=True):
        step = np.abs(right).max() / 127
        assert np.abs(own - right).max() <= step / 2 * (1 + 1e-5)
        assert len(np.unique(np.rint(own / (step or 1)))) <= 255


def test_scores_are_compared_class_by_class() -> None:
    exact = [np.arange(8.0), np.arange(8.0)[::-1].copy()]
    other = [exact[0], np.arange(8.0)]  # the second one's first class is the last there
    assert compared(exact, exact) == {"top1_agreement": 1.0, "top5_agreement": 1.0, "sqnr_db": float("inf")}
    result = compared(other, exact)
    assert (result["top1_agreement"], result["top5_agreement"]) == (0.5, 0.5)
    assert result["sqnr_db"] == round(10 * np.log10(280 / 168), 2)
