"""Sample real tensors, to estimate the quantisation error at any radix position without the whole tensor."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mavcg.accelerators.fixed_point import to_integers, to_reals
from mavcg.accelerators.shapes import LEAST_RADIX, MOST_RADIX
from mavcg.graph import Array

LARGEST = 256  # number of values of greatest magnitude to keep: they decide the error by saturation
EVENLY = 4096  # maximum number of other values, evenly spaced


@dataclass(frozen=True)
class Sample:
    """Sampled values of a tensor. counts: number of the tensor's values that each sampled value represents."""

    values: Array
    counts: Array

    @staticmethod
    def of(tensor: Array) -> "Sample":
        """Return a sample of a tensor: its values of greatest magnitude, and evenly spaced other values."""
        flat = np.asarray(tensor, np.float32).reshape(-1)
        if flat.size <= LARGEST + EVENLY:
            return Sample(flat, np.ones(flat.size))
        order = np.argpartition(np.abs(flat), flat.size - LARGEST)
        largest = flat[order[-LARGEST:]]
        rest = flat[np.sort(order[:-LARGEST])]
        step = -(-rest.size // EVENLY)
        some = rest[::step]
        return Sample(
            np.concatenate([largest, some]),
            np.concatenate([np.ones(LARGEST), np.full(some.size, rest.size / some.size)]),
        )

    @staticmethod
    def concatenate(samples: Iterable["Sample"]) -> "Sample":
        """Return the samples of several tensors as one."""
        kept = list(samples)
        return Sample(np.concatenate([s.values for s in kept]), np.concatenate([s.counts for s in kept]))

    def error(self, radix: int) -> float:
        """Return the sum of squared differences between the tensor and its integers at a radix position."""
        difference = self.values.astype(np.float64) - to_reals(to_integers(self.values, radix), radix)
        return float((self.counts * difference * difference).sum())

    def best_radix(self) -> int:
        """Return the radix position with the least error; of equal ones, the smallest."""
        widest = widest_radix(self.values)
        return min(range(widest, min(widest + 6, MOST_RADIX) + 1), key=lambda r: (self.error(r), r))


def widest_radix(values: Array) -> int:
    """Return the largest radix position within the limits at which no value saturates."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0 or not np.isfinite(largest):
        return MOST_RADIX if largest == 0 else LEAST_RADIX
    radix = int(np.clip(np.floor(np.log2(127.5 / largest)), LEAST_RADIX, MOST_RADIX))
    return radix
