"""Handlers of operators that place elements by number: MaxUnpool (and Indices of MaxPool), Col2Im, TensorScatter."""

import math
from collections.abc import Mapping

import numpy as np

from mavcg.graph import DTYPES
from mavcg.graph.layout import dense_strides
from mavcg.graph.ops.op import FLOATS
from mavcg.importers import indices
from mavcg.importers.call import known_at_build
from mavcg.importers.movement import cut
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.onnx_ops.images import PaddedWindow
from mavcg.importers.value import Value, constant


def _zeros(call: OnnxCall, shape: tuple[int, ...], dtype: str) -> Value:
    return call.add("broadcast_to", constant(np.zeros((), DTYPES[dtype])), shape=shape)


def indices_of_largest(call: OnnxCall, x: Value, view: PaddedWindow) -> Value:
    """Return MaxPool's Indices: the place of each window's first largest element in the tensor, i64 [N, C, out..].

    x: [N, C, spatial..], one or two dimensions. view: its windows, as those of H and W. Places count by rows, or with
    storage_order 1 by columns of an image. A window whose elements are all padding has -1; one without a largest
    element, as among NaN, has the place of its first element in the image.
    """
    batch, channels, *lengths = x.shape
    h, w = (1, lengths[0]) if len(lengths) == 1 else lengths
    least = -np.inf if x.dtype in FLOATS else float(np.iinfo(DTYPES[x.dtype]).min)
    top, left, bottom, right = view.pads
    image = call.reshape(x, (batch, channels, h, w))
    if any(view.pads):
        image = call.add(
            "pad", image, before=(0, 0, top, left), after=(0, 0, bottom, right), mode="constant", value=least
        )
    spans = [view.dilation[d] * (view.kernel[d] - 1) + 1 for d in range(2)]
    out = [(image.shape[2 + d] - spans[d]) // view.stride[d] + 1 for d in range(2)]
    step_h, step_w = (1, h) if call.attr_int("storage_order", 0) else (w, 1)
    rows, columns = (np.arange(out[d]) * view.stride[d] - view.pads[d] for d in range(2))
    taps, numbers, inside = [], [], []
    for i, j in np.ndindex(*view.kernel):
        starts = (i * view.dilation[0], j * view.dilation[1])
        stops = tuple(s + (n - 1) * step + 1 for s, n, step in zip(starts, out, view.stride, strict=True))
        tap = call.add(
            "slice", image, starts=(0, 0, *starts), stops=(batch, channels, *stops), steps=(1, 1, *view.stride)
        )
        taps.append(call.reshape(tap, (*tap.shape, 1)))
        numbers.append(starts[0] * step_h + starts[1] * step_w)
        y, at = (along + start for along, start in zip((rows, columns), starts, strict=True))
        inside.append(((y >= 0) & (y < h))[:, None] & ((at >= 0) & (at < w)))
    # The first tap that is inside the image and has the largest element; an element may equal those of the pads.
    count = len(taps)
    all_taps = call.add("concat", *taps, axis=4) if count > 1 else taps[0]
    largest = call.add("reduce_max", all_taps, axes=(4,), keepdims=True)
    is_inside = np.stack(inside, -1)  # [out_h, out_w, taps]
    found = call.add("and", call.add("equal", all_taps, largest), constant(is_inside))
    tap_numbers = constant(np.arange(count, dtype=np.int32))
    first = call.add("where", found, tap_numbers, constant(np.array(count, np.int32)))
    first = call.add("reduce_min", first, axes=(4,), keepdims=False)
    call.count_size(batch * channels + math.prod(out), 8)
    planes = constant((np.arange(batch * channels) * (h * w)).reshape(batch, channels, 1, 1).astype(np.int64))
    corners = constant((rows[:, None] * step_h + columns * step_w).astype(np.int64))
    first_inside = is_inside.argmax(-1).astype(np.int32)
    if first_inside.any():
        has_none = call.add("equal", first, constant(np.array(count, np.int32)))
        first = call.add("where", has_none, constant(first_inside), first)
    chosen = indices.gather_along(call, constant(np.array([*numbers, 0], np.int64)), first, 0)
    # In two steps, since the sum of both constants has as many elements as the result.
    places = call.add("add", call.add("add", chosen, corners), planes)
    if not (has_element := is_inside.any(-1)).all():
        places = call.add("where", constant(has_element), places, constant(np.array(-1, np.int64)))
    return call.reshape(places, (batch, channels, *out[2 - len(lengths) :]))


@known_at_build("output_shape")
def max_unpool(call: OnnxCall) -> Results:
    """Import MaxUnpool: elements at their places in zeros. A larger output_shape adds zeros at the ends."""
    x, places = call.input(0, rank_min=3), call.input(1)
    spatial = x.rank - 2
    kernel = call.attr_ints("kernel_shape", length=spatial)
    stride = call.attr_ints("strides", (1,) * spatial, spatial)
    pads = call.attr_ints("pads", (0,) * (2 * spatial), 2 * spatial)
    lengths = [
        (n - 1) * s + k - pads[d] - pads[spatial + d]
        for d, (n, s, k) in enumerate(zip(x.shape[2:], stride, kernel, strict=True))
    ]
    shape = (*x.shape[:2], *lengths)
    wanted = call.maybe_ints(2, "output_shape") or shape
    if places.shape != x.shape or places.dtype != "i64" or min(lengths) < 1:
        raise call.fail(f"places {places.type} of {x.type} in {list(shape)}")
    if len(wanted) != x.rank or wanted[:2] != shape[:2] or any(a < b for a, b in zip(wanted, shape, strict=True)):
        raise call.fail(f"output_shape {list(wanted)}; at least {list(shape)} is needed")
    count, elements = x.type.elements, math.prod(shape)
    column = call.reshape(places, (count, 1))
    made = indices.scatter_nd(
        call, _zeros(call, (elements,), x.dtype), column, call.reshape(x, (count,)), "none", False
    )
    made = call.reshape(made, shape)
    if wanted == shape:
        return made
    after = [a - b for a, b in zip(wanted, shape, strict=True)]
    return call.add("pad", made, before=[0] * x.rank, after=after, mode="constant", value=0.0)


@known_at_build("image_shape", "block_shape")
def col2im(call: OnnxCall) -> Results:
    """Import Col2Im: blocks [N, C * block, windows] added up at their places in images [N, C, image..]."""
    x = call.input(0, rank=3)
    image, block = call.ints(1, "image_shape"), call.ints(2, "block_shape")
    spatial = len(image)
    if not spatial or len(block) != spatial or min(image) < 1 or min(block) < 1:
        raise call.fail(f"image_shape {list(image)} and block_shape {list(block)}")
    stride, dilation = (call.attr_ints(name, (1,) * spatial, spatial) for name in ("strides", "dilations"))
    pads = call.attr_ints("pads", (0,) * (2 * spatial), 2 * spatial)
    if min(*stride, *dilation) < 1 or min(pads) < 0:
        raise call.fail(f"strides {list(stride)}, dilations {list(dilation)} and pads {list(pads)}")
    padded = [n + pads[d] + pads[spatial + d] for d, n in enumerate(image)]
    out = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(padded, dilation, block, stride, strict=True)]
    taps, windows = math.prod(block), math.prod(out)
    batch, rows, columns = x.shape
    if min(out) < 1 or columns != windows or rows % taps:
        raise call.fail(f"its input is {x.type}; {windows} windows of {taps} elements of each channel are needed")
    call.count_size(taps * windows, 8)
    places = np.zeros((*block, *out), np.int64)
    for d, step in enumerate(dense_strides(tuple(padded))):
        along = np.arange(block[d])[:, None] * dilation[d] + np.arange(out[d]) * stride[d]
        places += (along * step).reshape(
            [along.shape[i // spatial] if i % spatial == d else 1 for i in range(2 * spatial)]
        )
    channels = rows // taps
    values = call.reshape(
        call.transpose(call.reshape(x, (batch, channels, taps, windows)), (2, 3, 0, 1)),
        (taps * windows, batch, channels),
    )
    zeros = _zeros(call, (math.prod(padded), batch, channels), x.dtype)
    made = indices.scatter_nd(call, zeros, constant(places.reshape(-1, 1)), values, "add")
    made = call.reshape(call.transpose(made, (1, 2, 0)), (batch, channels, *padded))
    return cut(call, made, {2 + d: (pads[d], pads[d] + n, 1) for d, n in enumerate(image)})


def tensor_scatter(call: OnnxCall) -> Results:
    """Import TensorScatter: updates of a cache from a place of each sequence on, around its end if mode is circular."""
    cache, update = call.input(0, rank_min=2), call.input(1, rank=call.input(0).rank)
    axis, mode = call.axis(call.attr_int("axis", -2), cache.rank), call.attr_str("mode", "linear")
    batch, room, length = cache.shape[0], cache.shape[axis], update.shape[axis]
    same = [n for i, n in enumerate(cache.shape) if i != axis] == [n for i, n in enumerate(update.shape) if i != axis]
    if not axis or mode not in ("linear", "circular") or not same or length > room or cache.dtype != update.dtype:
        raise call.fail(f"mode {mode!r}, {update.type} along axis {axis} of {cache.type}")
    starts = call.maybe(2)
    if starts is None:
        starts = constant(np.zeros(batch, np.int64))
    elif starts.shape != (batch,) or starts.dtype != "i64":
        raise call.fail(f"write_indices are {starts.type} where i64[{batch}] is needed")
    if update.type.elements == 0:
        return cache
    along = call.add("add", call.reshape(starts, (batch, 1)), constant(np.arange(length, dtype=np.int64)))
    if mode == "circular":
        along = call.add("mod", along, call.scalar(room, along))
    places = call.reshape(along, (batch, *(1,) * (axis - 1), length))
    return indices.write_rows(call, cache, places, update, range(axis + 1))


HANDLERS: Mapping[str, Handler] = {"MaxUnpool": max_unpool, "Col2Im": col2im, "TensorScatter": tensor_scatter}
