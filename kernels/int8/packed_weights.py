"""Order of the weights of 8-bit convolutions in panels, and the bias of sums whose inputs have a zero point."""

from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mavcg.kernels.int8.register_tile import SumRun

Array: TypeAlias = NDArray[Any]
FLIP, FLIP_WORDS = -0x7F7F7F80, 16  # four bytes of 128 as i32, and such words in the longest register


class WeightForm(StrEnum):
    """The order of a weights constant: filters [O, KH, KW, C/groups], a matrix [O, C], or its transpose [C, O].

    PATCHES: filters that are multiplied with whole patches of the image (im2row).
    """

    FILTERS = "filters"
    PATCHES = "patches"
    MATRIX = "matrix"
    TRANSPOSED = "transposed"

    def filters(self, constant: Array) -> Array:
        """Return the constant as [O, KH, KW, C / groups]."""
        if self is WeightForm.FILTERS:
            return constant
        if self is WeightForm.PATCHES:
            return constant.reshape(constant.shape[0], 1, 1, -1)
        matrix = constant if self is WeightForm.MATRIX else constant.T
        return np.ascontiguousarray(matrix)[:, None, None, :]


def folded_bias(bias: Array, weights: Array, dtype: str, zero: int) -> Array:
    """Return what is added to sums of x * w with x taken as i8, and as u8: [2, O], i32 that wraps around as sums do.

    Taken as the other type, x and its zero point are 128 less or more.
    """
    total = weights.astype(np.int64).reshape(weights.shape[0], -1).sum(axis=1)
    zeros = (zero, zero + 128) if dtype == "i8" else (zero - 128, zero)
    return np.stack([bias.astype(np.int64) - z * total for z in zeros]).astype(np.int32)


def in_panels(values: Array, groups: int, lanes: int) -> Array:
    """Pad each group of [rows, O] with zeros to whole panels: [rows, groups * panels * lanes]."""
    rows, out_ch = values.shape[0], values.shape[1] // groups
    filled = np.zeros((rows, groups, -(-out_ch // lanes) * lanes), values.dtype)
    filled[:, :, :out_ch] = values.reshape(rows, groups, out_ch)
    return filled.reshape(rows, -1)


def pack_weights(weights: Array, groups: int, lanes: int, run: SumRun) -> Array:
    """Pack weights [O, KH, KW, C/groups] into [groups, panels, run.steps, lanes, run.group], padded with zeros."""
    out_ch, terms = weights.shape[0] // groups, run.group
    panels = -(-out_ch // lanes)
    filled = np.zeros((groups, panels * lanes, run.steps, terms), np.int8)
    filled[:, :out_ch] = in_groups(weights, run).reshape(groups, out_ch, run.steps, terms)
    return np.ascontiguousarray(filled.reshape(groups, panels, lanes, run.steps, terms).transpose(0, 1, 3, 2, 4))


def in_groups(weights: Array, run: SumRun) -> Array:
    """Arrange weights [O, KH, KW, C/groups] as [O, run.steps, run.group]: the terms of each group of inputs that is
    read."""
    terms = np.array(run.terms(), np.int64)
    flat = weights.reshape(weights.shape[0], -1, run.term_bytes)
    return np.where(terms >= 0, flat[..., np.maximum(terms, 0)], 0).reshape(weights.shape[0], run.steps, run.group)
