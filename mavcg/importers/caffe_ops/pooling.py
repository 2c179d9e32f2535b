"""Handler of Pooling. Caffe rounds the number of windows up; windows that extend beyond the image's end are cut off.

Source: pooling_layer.cpp of BVLC's Caffe.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mavcg.importers.caffe_ops.call import LARGEST_WINDOW, CaffeCall, LayerType, Results
from mavcg.importers.emitter import Value


@dataclass(frozen=True)
class _Windows:
    """The windows along one axis. count: their number. end: pad behind the image that the last window needs."""

    count: int
    end: int


def pooling(call: CaffeCall) -> Results:
    """Import Pooling by maximum or mean, in windows or over the whole image."""
    x = call.image()
    method = call.options.choice("pool", ("MAX", "AVE", "STOCHASTIC"))
    if method == "STOCHASTIC":
        raise call.unsupported("pool STOCHASTIC", "MAX, AVE")
    if any(call.read[1:]) or (call.tops > 1 and method != "MAX"):
        raise call.unsupported("its second top, the positions of the largest elements, is read", "the first top alone")
    if call.options.boolean("global_pooling", False):
        result = _over_image(call, x, method)
    else:
        result = _in_windows(call, x, method)
    return (result,) * call.tops


def _over_image(call: CaffeCall, x: Value, method: str) -> Value:
    for name in ("kernel_size", "kernel_h", "kernel_w"):
        if call.options.has(name):
            raise call.fail(f"global_pooling with {name}; the window is the image")
    pads, strides = call.along_h_and_w("pad", "pad", 0, 0), call.along_h_and_w("stride", "stride", 1, 1)
    if any(pads) or strides != (1, 1):
        raise call.fail(f"global_pooling with pads {list(pads)} and strides {list(strides)}; 0 and 1 are needed")
    op = "reduce_max" if method == "MAX" else "reduce_mean"
    return call.nchw(call.add(op, call.nhwc(x), axes=(1, 2), keepdims=True))


def _in_windows(call: CaffeCall, x: Value, method: str) -> Value:
    kernel = call.along_h_and_w("kernel_size", "kernel", None, 1)
    stride, pads = call.along_h_and_w("stride", "stride", 1, 1), call.along_h_and_w("pad", "pad", 0, 0)
    if any(p >= k for p, k in zip(pads, kernel, strict=True)):
        raise call.fail(f"pads {list(pads)} with a kernel of {list(kernel)}; smaller ones are needed")
    up = call.options.choice("round_mode", ("CEIL", "FLOOR")) == "CEIL"
    h, w = (_windows(call, x.shape[2 + i], kernel[i], stride[i], pads[i], up, cut=any(pads)) for i in (0, 1))
    attrs = {"kernel": kernel, "stride": stride, "pads": (*pads, h.end, w.end)}
    if method == "MAX":
        return call.nchw(call.add("max_pool2d", call.nhwc(x), **attrs))
    # A mean's divisor counts positions in the file's pads, but not those behind them.
    return call.nchw(call.add("avg_pool2d", call.nhwc(x), count_pads=(*pads, *pads), **attrs))


def _windows(call: CaffeCall, length: int, kernel: int, stride: int, pad: int, up: bool, cut: bool) -> _Windows:
    """Return the windows over an axis of `length`. up: round their number up. cut: omit a last window behind the
    image."""
    room = length + 2 * pad - kernel
    count = (-(-room // stride) if up else room // stride) + 1
    if cut and (count - 1) * stride >= length + pad:
        count -= 1
    if count < 1:
        raise call.fail(f"a window of {kernel} does not fit into {length} with pads of {pad}")
    if count * kernel > LARGEST_WINDOW:
        raise call.fail(f"{count} windows of {kernel}; at most {LARGEST_WINDOW} positions in all")
    last = (count - 1) * stride - pad
    if last >= length:
        raise call.unsupported(
            f"its last window begins at {last}, behind the {length} elements", "windows that contain an element"
        )
    return _Windows(count, max(last + kernel - length, 0))


_FIELDS = (
    "pool",
    "pad",
    "pad_h",
    "pad_w",
    "kernel_size",
    "kernel_h",
    "kernel_w",
    "stride",
    "stride_h",
    "stride_w",
    "global_pooling",
    "round_mode",
)
LAYERS: Mapping[str, LayerType] = {"Pooling": LayerType(pooling, "pooling_param", _FIELDS)}
