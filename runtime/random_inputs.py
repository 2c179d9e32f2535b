"""Seeded inputs of a loaded model, for runs whose values do not matter."""

from typing import Any

import numpy as np

from mavcg.runtime.loading import Model


def random_inputs(model: Model, seed: int) -> list[Any]:
    """Return an array of seeded, normally distributed numbers for each input of a model.

    Inputs of integers get numbers with a standard deviation of 40, about 128 if the type is unsigned, clipped to the
    type, to -128 from below and to 255 from above.
    """
    rng = np.random.default_rng(seed)
    arrays = []
    for tensor in model.inputs:
        values = rng.standard_normal(tensor.shape)
        if tensor.dtype.kind in "iu":
            info = np.iinfo(tensor.dtype)
            values = np.clip(
                np.round(values * 40 + (128 if info.min == 0 else 0)), max(info.min, -128), min(info.max, 255)
            )
        arrays.append(values.astype(np.float32).astype(tensor.dtype))
    return arrays
