"""Convolution and pooling over three dimensions, by operators over two.

The planes of a volume are images. A convolution reads, for each plane of its result, the planes below the filter as
more channels of one image; pooling goes over the planes first, then along the depth.
"""

from collections.abc import Sequence
from math import prod

from mavcg.importers.onnx_ops.call import OnnxCall
from mavcg.importers.onnx_ops.images import Windows, windows
from mavcg.importers.value import Value


def is_volume(x: Value) -> bool:
    """True for [N, C, D, H, W]."""
    return x.rank == 5


def _plane_pads(view: Windows, ends: Sequence[int]) -> tuple[int, int, int, int]:
    """Return the pads along H and W."""
    return (*view.starts[1:], *ends[1:])  # type: ignore[return-value]  # two of each


def _depth_last_channels(call: OnnxCall, x: Value) -> Value:
    return call.transpose(x, (0, 2, 3, 4, 1))


def _from_depth_last_channels(call: OnnxCall, x: Value) -> Value:
    return call.transpose(x, (0, 4, 1, 2, 3))


def convolve_volume(call: OnnxCall, x: Value, w: Value, bias: Value | None, view: Windows, groups: int) -> Value:
    """Return a convolution. x: [N, C, D, H, W]; w: [O, C/groups, D, H, W]; bias: [O].

    Raises: MavcgError for a filter that does not fit.
    """
    batch, channels = x.shape[:2]
    out_channels, depth = w.shape[0], view.kernel[0]
    if groups < 1 or channels != w.shape[1] * groups:
        raise call.fail(f"a filter {w.type} in {groups} groups for a volume {x.type}")
    x = _depth_last_channels(call, x)
    if view.starts[0] or view.ends[0]:
        before, after = ((0, pad, 0, 0, 0) for pad in (view.starts[0], view.ends[0]))
        x = call.add("pad", x, before=before, after=after, mode="constant", value=0.0)
    height, width, planes = x.shape[2], x.shape[3], batch * view.counts[0]
    below = []
    for tap in range(depth):
        start = tap * view.dilation[0]
        stop = start + (view.counts[0] - 1) * view.stride[0] + 1
        stops = (batch, stop, *x.shape[2:])
        taken = call.add("slice", x, starts=(0, start, 0, 0, 0), stops=stops, steps=(1, view.stride[0], 1, 1, 1))
        below.append(call.reshape(taken, (planes, height, width, groups, 1, channels // groups)))
    stacked = call.add("concat", *below, axis=4) if depth > 1 else below[0]
    made = call.add(
        "conv2d",
        call.reshape(stacked, (planes, height, width, depth * channels)),
        call.reshape(call.transpose(w, (0, 3, 4, 2, 1)), (out_channels, *view.kernel[1:], depth * w.shape[1])),
        bias,
        stride=view.stride[1:],
        dilation=view.dilation[1:],
        pads=_plane_pads(view, view.ends),
        groups=groups,
    )
    made = call.reshape(made, (batch, view.counts[0], *made.shape[1:]))
    return _from_depth_last_channels(call, made)


def transposed_volume(
    call: OnnxCall, x: Value, w: Value, bias: Value | None, view: Windows, extra: Sequence[int], groups: int
) -> Value:
    """Return a transposed convolution, as one of the volume with zeros between its elements by the turned filter.

    x: [N, C, D, H, W]; w: [C, O/groups, D, H, W]; bias: [O]. view: with the pads that are cut off the result; extra:
    elements added at its end.
    """
    batch, channels, *lengths = x.shape
    wide = call.reshape(x, (batch, channels, *(n for length in lengths for n in (length, 1))))
    zeros = (0, 0, *(n for step in view.stride for n in (0, step - 1)))
    wide = call.add("pad", wide, before=(0,) * 8, after=zeros, mode="constant", value=0.0) if any(zeros) else wide
    spread = [length * step for length, step in zip(lengths, view.stride, strict=True)]
    wide = call.reshape(wide, (batch, channels, *spread))
    ends = [(length - 1) * step + 1 for length, step in zip(lengths, view.stride, strict=True)]
    wide = call.add("slice", wide, starts=(0,) * 5, stops=(batch, channels, *ends), steps=(1,) * 5)
    turned = call.add(
        "slice",
        w,
        starts=(0, 0, *(n - 1 for n in view.kernel)),
        stops=(*w.shape[:2], -1, -1, -1),
        steps=(1, 1, -1, -1, -1),
    )
    inside = channels // groups
    turned = call.reshape(turned, (groups, inside, w.shape[1], *view.kernel))
    turned = call.reshape(call.transpose(turned, (0, 2, 1, 3, 4, 5)), (groups * w.shape[1], inside, *view.kernel))
    around = tuple(dilation * (n - 1) for dilation, n in zip(view.dilation, view.kernel, strict=True))
    after = tuple(a + b for a, b in zip(around, extra, strict=True))
    counts = tuple(end + a + b for end, a, b in zip(ends, around, extra, strict=True))
    full = Windows(view.kernel, (1,) * 3, view.dilation, around, after, after, counts)
    made = convolve_volume(call, wide, turned, bias, full, groups)
    stops = (*made.shape[:2], *(n - pad for n, pad in zip(counts, view.ends, strict=True)))
    if any(stop <= start for start, stop in zip(view.starts, stops[2:], strict=True)):
        raise call.fail(f"pads {[*view.starts, *view.ends]} cut off all of {list(counts)}")
    return call.add("slice", made, starts=(0, 0, *view.starts), stops=stops, steps=(1,) * 5)


def pool_volume(call: OnnxCall, x: Value, op: str, counted: bool = False) -> Value:
    """Return max_pool2d or avg_pool2d of the graph over windows in three dimensions, with the node's attributes.

    x: [N, C, D, H, W]. counted: means count the elements of the pads. A window is a box, so the mean over its planes'
    means is the mean of its elements.
    """
    kernel = call.attr_ints("kernel_shape", length=3)
    view = windows(call, x.shape[2:], kernel, call.attr_bool("ceil_mode"))
    batch, channels, depth, height, width = x.shape
    counts = {"count_pads": (0, 0, 0, 0)} if op == "avg_pool2d" else {}
    if counts and counted:
        counts = {"count_pads": _plane_pads(view, view.given_ends)}
    planes = call.add(
        op,
        call.reshape(_depth_last_channels(call, x), (batch * depth, height, width, channels)),
        kernel=view.kernel[1:],
        stride=view.stride[1:],
        dilation=view.dilation[1:],
        pads=_plane_pads(view, view.ends),
        **counts,
    )
    if counts and counted:
        counts = {"count_pads": (view.starts[0], 0, view.given_ends[0], 0)}
    made = call.add(
        op,
        call.reshape(planes, (batch, depth, prod(planes.shape[1:3]), channels)),
        kernel=(view.kernel[0], 1),
        stride=(view.stride[0], 1),
        dilation=(view.dilation[0], 1),
        pads=(view.starts[0], 0, view.ends[0], 0),
        **counts,
    )
    made = call.reshape(made, (batch, made.shape[1], *planes.shape[1:3], channels))
    return _from_depth_last_channels(call, made)
