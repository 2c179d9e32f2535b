"""Layers of random graphs with a symbolic height and width or time: norms of images, resizing, windows that spread."""

from typing import Any

import numpy as np

from bench.lengths.growing import SYMBOL, LengthPart, Shape

_MODES = ("nearest", "linear", "cubic")
_COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


def _an_image(part: LengthPart, *ranks: int) -> str:
    """Return a tensor [batch, channels, ..] with a symbolic length behind its channels."""
    return part.tensor(lambda s: len(s) in ranks and SYMBOL in s[2:] and s[1] != SYMBOL, most_symbols=3)


def _attributes(part: LengthPart) -> dict[str, Any]:
    mode = part.pick(*_MODES)
    attributes = {"mode": mode, "coordinate_transformation_mode": part.pick(*_COORDINATES)}
    if mode == "nearest":
        attributes["nearest_mode"] = part.pick("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")
    return attributes


def instance_norm(part: LengthPart) -> None:
    x = _an_image(part, 3, 4)
    channels = int(part.shapes[x][1])
    part.made(part.add("InstanceNormalization", x, part.weights(channels), part.weights(channels)), part.shapes[x])


def group_norm(part: LengthPart) -> None:
    x = _an_image(part, 3, 4)
    channels = int(part.shapes[x][1])
    groups = part.pick(*(n for n in range(1, channels + 1) if channels % n == 0))
    given = [part.weights(channels) for _ in range(2)]
    part.made(part.add("GroupNormalization", x, *given, num_groups=groups), part.shapes[x])


def _resize(part: LengthPart, x: str, last: list[str], **attributes: Any) -> str:
    return str(part.add("Resize", x, "", *last, **attributes))


def resized(part: LengthPart) -> None:
    """An image of half of the size, back at the size of the image, as U-Nets do for any height and width."""
    x = _an_image(part, 4)
    shape = part.shapes[x]
    strides = [2 if d == SYMBOL else 1 for d in shape[2:]]
    half = part.add("MaxPool", x, kernel_shape=strides, strides=strides, ceil_mode=1)
    size = part.add("Shape", x)
    if part.rng.random() < 0.5:  # as PyTorch writes it, from batch and channels of the smaller one
        first = part.add("Slice", part.add("Shape", half), part.whole(0), part.whole(2), part.whole(0))
        size = part.add("Concat", first, part.add("Slice", size, part.whole(2), part.whole(4), part.whole(0)), axis=0)
    part.made(_resize(part, half, ["", size], **_attributes(part)), shape)


def upsampled(part: LengthPart) -> None:
    """Twice the size by scales, and every second pixel of it."""
    x = _an_image(part, 4)
    shape = part.shapes[x]
    factors = [2 if d == SYMBOL else 1 for d in shape[2:]]
    larger = _resize(part, x, [part.constant([1, 1, *factors], np.float32)], **_attributes(part))
    part.made(_half(part, larger, factors), shape)


def transposed_window(part: LengthPart) -> None:
    """A ConvTranspose to twice the size, and the pool that halves it; of time and of images."""
    x = _an_image(part, 3, 4)
    n, channels, *size = part.shapes[x]
    out, strides = part.pick(3, 8), [2 if d == SYMBOL else 1 for d in size]
    kernel = [part.pick(2, 4) if s == 2 else 3 for s in strides]
    pads = [(k - s) // 2 for k, s in zip(kernel, strides, strict=True)]
    weights = part.constant(part.rng.uniform(-0.3, 0.3, (int(channels), out, *kernel)), np.float32)
    made = part.add("ConvTranspose", x, weights, part.weights(out), kernel_shape=kernel, strides=strides, pads=pads * 2)
    part.made(_half(part, made, strides), (n, out, *size))


def _half(part: LengthPart, x: str, strides: list[int]) -> str:
    return str(part.add(part.pick("MaxPool", "AveragePool"), x, kernel_shape=strides, strides=strides))


def pyramid(part: LengthPart) -> None:
    """Dilated windows beside the mean of the image, which is resized to its size (atrous spatial pyramid pooling)."""
    x = _an_image(part, 4)
    n, channels, *size = part.shapes[x]
    shape: Shape = (n, 4, *size)
    branches = []
    for dilation in (1, 2):
        weights = part.constant(part.rng.uniform(-0.3, 0.3, (4, int(channels), 3, 3)), np.float32)
        branches.append(part.add("Conv", x, weights, pads=[dilation] * 4, dilations=[dilation] * 2))
    mean = part.add("GlobalAveragePool", x)
    mean = part.add("Conv", mean, part.constant(part.rng.uniform(-0.3, 0.3, (4, int(channels), 1, 1)), np.float32))
    ends = (part.whole(2), part.whole(4), part.whole(0))
    whole = part.add("Concat", part.constant([1, 4], np.int64), part.add("Slice", part.add("Shape", x), *ends), axis=0)
    if n == 1:
        branches.append(_resize(part, mean, ["", whole], mode="linear"))
    part.made(
        part.add("Sum", *branches) if n == SYMBOL else part.add("Concat", *branches, axis=1),
        shape if n == SYMBOL else (n, 4 * len(branches), *size),
    )
