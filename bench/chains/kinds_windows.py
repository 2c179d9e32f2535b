"""Operators of a chain with windows: convolutions and pools with uneven pads, resizing."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.chains.growing import Growing, Kind, UnsuitableError


def _plane(p: Growing) -> tuple[str, tuple[int, ...]]:
    """Return a tensor with one, two or (rarely) three dimensions of space, and their lengths."""
    rank = p.pick(3, 4, 4, 4, 4, 5)
    x = p.real(rank)
    return x, p.shape_of(x)[2:]


def window(p: Growing, lengths: Sequence[int], dilated: bool) -> dict[str, Any]:
    """Return kernel, strides, dilations and pads that fit; pads by auto_pad in a share."""
    kernel = [p.size(min(4, n + 1)) for n in lengths]
    strides = [p.size(3) for _ in lengths]
    dilations = [p.pick(1, 1, 2) if dilated else 1 for _ in lengths]
    made: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    if dilated:
        made["dilations"] = dilations
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if p.rng.random() < 0.25:
        made["auto_pad"] = p.pick("SAME_UPPER", "SAME_LOWER", "VALID")
        if made["auto_pad"] == "VALID" and any(s > n for s, n in zip(spans, lengths, strict=True)):
            made["auto_pad"] = "SAME_UPPER"
        return made
    before = [int(p.rng.integers(k)) for k in kernel]
    after = [int(p.rng.integers(k)) for k in kernel]
    for at, (span, n) in enumerate(zip(spans, lengths, strict=True)):
        after[at] += max(0, span - n - before[at] - after[at])
    if any(pad >= k for pad, k in zip((*before, *after), kernel * 2, strict=True)):
        raise UnsuitableError("no pads smaller than the kernel")
    made["pads"] = [*before, *after]
    return made


def conv(p: Growing) -> None:
    x, lengths = _plane(p)
    channels = p.shape_of(x)[1]
    made = window(p, lengths, True)
    groups = p.pick(1, 1, channels, 2 if channels % 2 == 0 else 1)
    out = groups * p.pick(1, 2, 3, 8)
    fan = channels // groups * int(np.prod(made["kernel_shape"]))
    w = p.constant(p.rng.uniform(-1, 1, (out, channels // groups, *made["kernel_shape"])) / np.sqrt(fan), p.dtype)
    p.add("Conv", x, w, *([p.weights(out)] if p.pick(0, 1) else []), group=groups, **made)


def conv_transpose(p: Growing) -> None:
    x = p.real(p.pick(3, 4, 4))
    lengths = p.shape_of(x)[2:]
    channels = p.shape_of(x)[1]
    groups = p.pick(1, 1, channels)
    kernel = [p.size(3) for _ in lengths]
    strides = [p.size(3) for _ in lengths]
    made: dict[str, Any] = {"strides": strides, "group": groups}
    if p.pick(0, 1):
        made["output_padding"] = [int(p.rng.integers(s)) for s in strides]
    covers = all(s <= k for s, k in zip(strides, kernel, strict=True))
    if covers and p.rng.random() < 0.2:  # otherwise each runtime has zeros elsewhere (docs/operators.md)
        made["auto_pad"] = p.pick("SAME_UPPER", "SAME_LOWER")
        made.pop("output_padding", None)
    else:
        made["pads"] = [int(p.rng.integers(k)) for k in kernel * 2]
    w = p.weights(channels, p.pick(1, 2, 3), *kernel)
    p.add("ConvTranspose", x, w, **made)


def pool(op: str) -> Kind:
    def add_to(p: Growing) -> None:
        x, lengths = _plane(p)
        dilated = (op == "MaxPool" and p.opset >= 10) or (op == "AveragePool" and p.opset >= 19)
        made = window(p, lengths, dilated)
        if op != "LpPool" and p.opset >= 10 and made.get("auto_pad", "NOTSET") == "NOTSET":
            made["ceil_mode"] = p.pick(0, 1)
        if op == "AveragePool":
            made["count_include_pad"] = p.pick(0, 1)
        if op == "LpPool":
            made["p"] = p.pick(1, 2)
        if op == "MaxPool" and len(lengths) == 2 and p.rng.random() < 0.15:
            p.add(op, x, outputs=2, **made)
        else:
            p.add(op, x, **made)

    return add_to


def global_pool(p: Growing) -> None:
    x, _ = _plane(p)
    p.add(p.pick("GlobalAveragePool", "GlobalMaxPool"), x)


def resize(p: Growing) -> None:
    x = p.real(4)
    shape = p.shape_of(x)
    mode = p.pick("nearest", "nearest", "linear", "cubic")
    rules = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]
    made: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": p.pick(*rules)}
    if mode == "nearest":
        made["nearest_mode"] = p.pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        made |= {"cubic_coeff_a": p.pick(-0.75, -0.5), "exclude_outside": p.pick(0, 1)}
    roi = p.constant([], np.float32) if p.opset < 13 else ""
    if p.pick(0, 1):
        sizes = [*shape[:2], p.size(12), p.size(12)]
        p.add("Resize", x, roi, p.constant([], np.float32) if p.opset < 13 else "", p.constant(sizes, np.int64), **made)
        return
    factors = [p.pick(0.5, 1.5, 2.0, 3.0, p.rng.uniform(0.4, 2.5)) for _ in range(2)]
    if min(int(n * f) for n, f in zip(shape[2:], factors, strict=True)) < 1:
        raise UnsuitableError("a length of 0")
    if p.opset >= 18 and p.pick(0, 1):
        p.add("Resize", x, roi, p.constant(factors, np.float32), axes=p.pick([2, 3], [-2, -1]), **made)
        return
    p.add("Resize", x, roi, p.constant([1, 1, *factors], np.float32), **made)


KINDS: Mapping[str, tuple[int, Kind]] = {
    "Conv with uneven pads": (9, conv),
    "ConvTranspose with uneven pads": (9, conv_transpose),
    **{f"{op} with uneven pads": (9, pool(op)) for op in ("MaxPool", "AveragePool", "LpPool")},
    "Global pool": (9, global_pool),
    "Resize of all modes": (11, resize),
}
