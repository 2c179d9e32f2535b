"""Definitions of pools and convolutions in NumPy, in any number of dimensions, from the text of ONNX's operators.

ONNX's reference implementation has other lengths for some windows (GlobalMaxPool over three dimensions, MaxPool with
SAME_LOWER and strides wider than the kernel), and fills dilated kernels with zeros, whose products with NaN are NaN.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.differential.part import Array


@dataclass(frozen=True)
class Window:
    """The geometry of a pool: each a number for each dimension of space.

    after: what lies behind the image until the last window's end, and `padded` of it are the operator's pads.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    lengths: Sequence[int]
    before: Sequence[int]
    padded: Sequence[int]
    after: Sequence[int]


def window_of(
    shape: Sequence[int],
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    auto_pad: bytes = b"NOTSET",
    ceil_mode: int = 0,
    **_: Any,
) -> Window:
    """Return the geometry of a pool's attributes. shape: [N, C, lengths...]."""
    space, rank = shape[2:], len(kernel_shape)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads or [0] * 2 * rank
    lengths, before, padded, after = [], [], [], []
    for at, n in enumerate(space):
        span, stride = (kernel_shape[at] - 1) * dilations[at] + 1, strides[at]
        first, last = pads[at], pads[rank + at]
        if auto_pad in (b"SAME_UPPER", b"SAME_LOWER"):
            length = -(-n // stride)
            total = max(0, (length - 1) * stride + span - n)
            first = total // 2 if auto_pad == b"SAME_UPPER" else total - total // 2
            last = total - first
        elif auto_pad == b"VALID":
            length, first, last = -(-(n - span + 1) // stride), 0, 0
        else:
            steps = n + first + last - span
            length = (-(-steps // stride) if ceil_mode else steps // stride) + 1
            if ceil_mode and (length - 1) * stride >= n + first:  # no window begins in the pads behind the image
                length -= 1
        lengths.append(length)
        before.append(first)
        padded.append(last)
        after.append(max(last, (length - 1) * stride + span - n - first))
    return Window(kernel_shape, strides, dilations, lengths, before, padded, after)


def windows(x: Array, w: Window, fill: Any) -> Array:
    """Return the elements of each window: [N, C, lengths..., elements of the kernel]."""
    wide = np.pad(x, [(0, 0), (0, 0), *zip(w.before, w.after, strict=True)], constant_values=fill)
    taps = []
    for tap in itertools.product(*map(range, w.kernel)):
        starts = [t * d for t, d in zip(tap, w.dilations, strict=True)]
        cut = [
            slice(first, first + (n - 1) * step + 1, step)
            for first, n, step in zip(starts, w.lengths, w.strides, strict=True)
        ]
        taps.append(wide[(slice(None), slice(None), *cut)])
    return np.stack(taps, -1)


def _max_pool(x: Array, storage_order: int = 0, **attributes: Any) -> tuple[Array, Array]:
    w = window_of(x.shape, **attributes)
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    places = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    inside, where = windows(x, w, least), windows(places, w, -1)
    # The first of the largest that lies in the image.
    best = np.argmax(np.where(where >= 0, inside, least) if x.dtype.kind == "f" else inside, -1)[..., None]
    return inside.max(-1), np.take_along_axis(where, best, -1)[..., 0]


def _average_pool(x: Array, count_include_pad: int = 0, **attributes: Any) -> Array:
    w = window_of(x.shape, **attributes)
    ones = np.ones(x.shape)
    if count_include_pad:
        ones = np.pad(ones, [(0, 0), (0, 0), *zip(w.before, w.padded, strict=True)], constant_values=1)
        beyond = [after - padded for after, padded in zip(w.after, w.padded, strict=True)]
        count = windows(ones, Window(w.kernel, w.strides, w.dilations, w.lengths, [0] * len(beyond), beyond, beyond), 0)
    else:
        count = windows(ones, w, 0)
    return np.asarray(windows(x, w, 0).sum(-1) / count.sum(-1))


def _lp_pool(x: Array, p: int = 2, **attributes: Any) -> Array:
    inside = np.abs(windows(x, window_of(x.shape, **attributes), 0))
    return np.asarray((inside**p).sum(-1) ** (1 / p))


def convolution(x: Array, w: Array, bias: Array | None = None, group: int = 1, **attributes: Any) -> Array:
    """Return a convolution of x [N, C, lengths...] with w [M, C / group, kernel...]; bias: [M]."""
    geometry = window_of(x.shape, **({"kernel_shape": w.shape[2:]} | attributes))
    taps = windows(x, geometry, 0).reshape(x.shape[0], group, -1, *geometry.lengths, math.prod(w.shape[2:]))
    kernels = w.reshape(group, w.shape[0] // group, w.shape[1], -1)
    y = np.einsum("ngc...k,gmck->ngm...", taps, kernels).reshape(x.shape[0], w.shape[0], *geometry.lengths)
    return y if bias is None else np.asarray(y + bias.reshape(-1, *[1] * len(geometry.lengths)))


def _global(pool: Callable[..., Array]) -> Callable[[Array], Array]:
    return lambda x: np.asarray(pool(x.reshape(*x.shape[:2], math.prod(x.shape[2:])), -1)).reshape(
        *x.shape[:2], *(1,) * (x.ndim - 2)
    )


DEFINITIONS: Mapping[str, Callable[..., Any]] = {
    "Conv": convolution,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalMaxPool": _global(np.max),
    "GlobalAveragePool": _global(np.mean),
}
