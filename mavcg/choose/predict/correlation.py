"""Agreement of predicted and measured times: Pearson's correlation, of times and of their logarithms."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Agreement:
    """Agreement of predicted and measured times.

    pearson: correlation of the times, dominated by large layers. of_logs: of their logarithms, in which all layers
    count equally. ratio: sum of predicted over sum of measured. None: fewer than two layers, or all equal.
    """

    layers: int
    pearson: float | None
    of_logs: float | None
    ratio: float


def agreement(predicted: Sequence[float], measured: Sequence[float]) -> Agreement:
    """Return the agreement of two lists of layer times in ms, without the layers of no measurable time."""
    pairs = np.array([(p, m) for p, m in zip(predicted, measured, strict=True) if p > 0 and m > 0], dtype=np.float64)
    if not len(pairs):
        return Agreement(0, None, None, 0.0)
    ratio = float(pairs[:, 0].sum() / pairs[:, 1].sum())
    return Agreement(len(pairs), _pearson(pairs), _pearson(np.log(pairs)), ratio)


def _pearson(pairs: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> float | None:
    if len(pairs) < 2 or not pairs.std(axis=0).all():
        return None
    return float(np.corrcoef(pairs[:, 0], pairs[:, 1])[0, 1])
