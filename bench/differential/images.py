"""Random graphs of operators on images: convolutions, pooling, normalization, resizing."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.differential.part import Part


def random_image(p: Part, channels: int | None = None) -> tuple[str, int]:
    """Add an image with 2 to 13 rows and columns; returns it and its number of channels."""
    found = p.image(channels)
    if found is not None:
        return found
    channels = channels or p.pick(1, 2, 3, 4, 8, 17)
    return p.input(p.pick(1, 1, 2), channels, p.size(11) + 2, p.size(11) + 2), channels


def random_window(p: Part) -> dict[str, Any]:
    kernel = [p.size(3), p.size(3)]
    return {"kernel_shape": kernel, "strides": [p.size(3), p.size(3)], "pads": [p.pick(0, k // 2) for k in kernel] * 2}


def add_conv(p: Part) -> str:
    x, channels = random_image(p)
    groups = p.pick(1, 1, channels)
    window, out = random_window(p), groups * p.pick(1, 2, 5, 16)
    w = p.weights(out, channels // groups, *window["kernel_shape"])
    bias = [p.weights(out)] if p.rng.random() < 0.5 else []
    dilations = [p.size(2), p.size(2)]
    window["pads"] = [2 * n for n in window["pads"]]
    return str(p.add("Conv", x, w, *bias, group=groups, dilations=dilations, **_wide_enough(p, x, window, dilations)))


def _wide_enough(p: Part, x: str, window: dict[str, Any], dilations: Sequence[int]) -> dict[str, Any]:
    """Return the window with pads large enough that it fits into the padded image."""
    for axis in (0, 1):
        span = (window["kernel_shape"][axis] - 1) * dilations[axis] + 1
        short = span - p.shape_of(x)[2 + axis] - window["pads"][axis] - window["pads"][axis + 2]
        window["pads"][axis] += max(0, short)
    return window


def add_conv_transpose(p: Part) -> str:
    x, channels = random_image(p)
    w = p.weights(channels, p.pick(1, 3, 16), p.size(3), p.size(3))
    return str(p.add("ConvTranspose", x, w, strides=[p.size(3), p.size(3)]))


def pool(op: str) -> Callable[[Part], str]:
    def add_to(p: Part) -> str:
        x, _ = random_image(p)
        more: dict[str, Any] = {"MaxPool": {"ceil_mode": p.pick(0, 1)}, "LpPool": {"p": p.pick(1, 2)}}.get(
            op, {"count_include_pad": p.pick(0, 1)}
        )
        return str(p.add(op, x, **_wide_enough(p, x, random_window(p), (1, 1)), **more))

    return add_to


def normalization(op: str) -> Callable[[Part], str]:
    def add_to(p: Part) -> str:
        x, n = random_image(p, p.pick(2, 4, 6))
        if op == "BatchNormalization":
            variance = p.constant(p.rng.uniform(0.2, 2, n), p.dtype)
            return str(p.add(op, x, p.weights(n), p.weights(n), p.weights(n), variance))
        if op == "InstanceNormalization":
            return str(p.add(op, x, p.weights(n), p.weights(n)))
        if op in ("LayerNormalization", "RMSNormalization"):
            return str(p.add(op, x, p.weights(p.shape_of(x)[-1]), axis=-1))
        if op == "GroupNormalization":
            return str(p.add(op, x, p.weights(n), p.weights(n), num_groups=2))
        return str(p.add(op, x, size=3))

    return add_to


def block_movement(op: str) -> Callable[[Part], str]:
    def add_to(p: Part) -> str:
        if op == "DepthToSpace":
            return str(p.add(op, p.input(1, 4 * p.size(3), p.size(), p.size()), blocksize=2, mode=p.pick("DCR", "CRD")))
        return str(p.add(op, p.input(1, p.size(3), 2 * p.size(), 2 * p.size()), blocksize=2))

    return add_to


def add_resize(p: Part) -> str:
    x, _ = random_image(p)
    mode = p.pick("nearest", "linear", "cubic")
    rule = p.pick("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    scales = p.constant([1, 1, p.rng.uniform(0.5, 2.5), p.rng.uniform(0.5, 2.5)], np.float32)
    roi = p.constant([], np.float32)
    return str(p.add("Resize", x, roi, scales, mode=mode, coordinate_transformation_mode=rule))
