"""Handlers of Resize and Upsample: a resample operator per axis, with tables of indices and weights.

Source of the formulas: ONNX's specification of Resize, whose modes are all separable by axis. Lengths and coordinates
are computed in f32, operation by operation as in onnxruntime: whether a product such as 86 * 2.9767442 reaches 256, and
which of two neighbours is the nearest, depends on the rounding.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.graph import Array
from mavcg.graph.ops.layouts import HALFWAY
from mavcg.graph.ops.op import FLOATS
from mavcg.importers.call import known_at_build
from mavcg.importers.onnx_ops.call import Handler, OnnxCall, Results
from mavcg.importers.onnx_ops.images import from_nhwc, to_nhwc
from mavcg.importers.value import Value, constant

LARGEST_LENGTH = 1 << 24  # maximum length of an axis; f32 represents integers up to here exactly
LARGEST_TABLE = 1 << 26  # maximum entries of an axis' table


@dataclass(frozen=True)
class Rule:
    """The rule for coordinates and weights, with the names of Resize's attributes."""

    mode: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    extrapolation: float = 0.0


@dataclass(frozen=True)
class Axis:
    """An axis to resize. length, made: lengths before and after. roi: (start, end) as fractions of the axis. by_size:
    True if `scale` is the quotient of both lengths."""

    axis: int
    length: int
    made: int
    scale: np.float32
    roi: tuple[float, float] = (0.0, 1.0)
    by_size: bool = False


@known_at_build("scales")
def upsample(call: OnnxCall) -> Results:
    """Import Upsample (up to opset 9)."""
    x = call.input(0)
    scales = _floats(call, 1, "scales") if call.version >= 9 else call.attr_floats("scales")
    rule = Rule(_mode(call.attr_str("mode", "nearest"), call), "asymmetric", "floor")
    return resample_axes(call, x, _by_scales(call, x, scales, range(x.rank)), rule)


@known_at_build("roi", "scales", "sizes")
def resize(call: OnnxCall) -> Results:
    """Import Resize: by Upsample's rule in opset 10, by attributes since opset 11."""
    x = call.input(0)
    mode = _mode(call.attr_str("mode", "nearest"), call)
    if call.version < 11:
        return resample_axes(
            call, x, _by_scales(call, x, _floats(call, 1, "scales"), range(x.rank)), Rule(mode, "asymmetric", "simple")
        )
    rule = Rule(
        mode,
        call.attr_str("coordinate_transformation_mode", "half_pixel"),
        call.attr_str("nearest_mode", "round_prefer_floor"),
        call.attr_float("cubic_coeff_a", -0.75),
        call.attr_bool("exclude_outside"),
        call.attr_bool("antialias"),
        call.attr_float("extrapolation_value", 0.0),
    )
    given = call.maybe_ints_attr("axes")
    axes = call.axes(given, x.rank) if given is not None else tuple(range(x.rank))
    scales = _floats(call, 2, "scales") if call.maybe(2) is not None else ()
    sizes = call.maybe_ints(3, "sizes") or ()
    if bool(scales) == bool(sizes):
        raise call.fail("one of scales and sizes must be given, and not both")
    if scales:
        steps = _by_scales(call, x, scales, axes)
    else:
        steps = _by_sizes(call, x, sizes, axes)
    if rule.coordinates == "tf_crop_and_resize":
        roi = _floats(call, 1, "roi")
        if len(roi) != 2 * len(axes):
            raise call.fail(f"roi has {len(roi)} entries where {2 * len(axes)} are needed")
        steps = [Axis(s.axis, s.length, s.made, s.scale, (roi[i], roi[len(axes) + i])) for i, s in enumerate(steps)]
    return resample_axes(call, x, steps, rule)


def _mode(mode: str, call: OnnxCall) -> str:
    if mode not in ("nearest", "linear", "bilinear", "cubic"):
        raise call.fail(f"mode {mode!r}; there are nearest, linear and cubic")
    return "linear" if mode == "bilinear" else mode


def _floats(call: OnnxCall, i: int, label: str) -> tuple[float, ...]:
    array = call.array(i, label)
    if array.ndim > 1 or array.size > 128 or array.dtype.kind != "f":
        raise call.fail(f"its input {label} is {call.input(i).type}; a list of floats is needed")
    return tuple(float(v) for v in array.reshape(-1))


def _by_scales(call: OnnxCall, x: Value, scales: Sequence[float], axes: Sequence[int]) -> list[Axis]:
    if len(scales) != len(axes):
        raise call.fail(f"{len(scales)} scales where {len(axes)} are needed")
    if any(not 0 < s < LARGEST_LENGTH for s in scales):
        raise call.fail(f"scales {list(scales)}; each must be more than 0 and less than {LARGEST_LENGTH}")
    factors = [np.float32(s) for s in scales]
    return [Axis(a, x.shape[a], int(np.float32(x.shape[a]) * s), s) for a, s in zip(axes, factors, strict=True)]


def _by_sizes(call: OnnxCall, x: Value, sizes: Sequence[int], axes: Sequence[int]) -> list[Axis]:
    if len(sizes) != len(axes) or any(not 0 <= n < LARGEST_LENGTH for n in sizes):
        raise call.fail(f"sizes {list(sizes)}; {len(axes)} lengths below {LARGEST_LENGTH} are needed")
    if any(x.shape[a] == 0 for a in axes):
        raise call.fail(f"{x.type} has no elements to resize")
    scales = [np.float32(n) / np.float32(x.shape[a]) for n, a in zip(sizes, axes, strict=True)]
    policy = call.attr_str("keep_aspect_ratio_policy", "stretch")
    if policy in ("not_larger", "not_smaller"):
        scale = min(scales) if policy == "not_larger" else max(scales)
        # Half an element is rounded up, by the operator's specification.
        return [Axis(a, x.shape[a], math.floor(float(scale * np.float32(x.shape[a])) + 0.5), scale) for a in axes]
    if policy != "stretch":
        raise call.fail(f"keep_aspect_ratio_policy {policy!r}; there are stretch, not_larger, not_smaller")
    return [Axis(a, x.shape[a], n, s, by_size=True) for a, n, s in zip(axes, sizes, scales, strict=True)]


def resample_axes(call: OnnxCall, x: Value, steps: Sequence[Axis], rule: Rule) -> Value:
    """Return x resampled along each axis whose length or position changes. Raises: MavcgError for unknown rules.

    If scales leave all lengths as they are, the result is x, as in onnxruntime.
    """
    if rule.coordinates != "tf_crop_and_resize" and all(s.made == s.length for s in steps):
        return x
    work = [s for s in steps if s.made != s.length or s.scale != 1.0 or rule.coordinates == "tf_crop_and_resize"]
    work = [s for s in work if not _is_identity(call, s, rule)]
    for s in work:
        if s.made < 1 or s.length < 1 or s.made > LARGEST_LENGTH:
            raise call.fail(f"axis {s.axis} from {s.length} to {s.made} elements; 1 to {LARGEST_LENGTH} are needed")
    image = x.rank == 4 and x.dtype in FLOATS and bool(work) and all(s.axis in (2, 3) for s in work)
    dtype = x.dtype
    exact = rule.mode == "nearest" and rule.coordinates != "tf_crop_and_resize"
    if dtype not in FLOATS and not exact:
        x = call.cast(x, "f32")
    made = to_nhwc(call, x) if image else x
    for s in work:
        at = s.axis - 1 if image else s.axis
        index, weight = table(call, s, rule)
        of_axis = {"axis": at, "rule": _rule_of_lengths(s, rule)}
        if made.dtype not in FLOATS:
            made = call.add("gather", made, constant(index[:, 0], "i32", "index"), **of_axis)
        else:
            tables = constant(index, "i32", "index"), constant(weight, "f32", "weight")
            made = call.add("resample", made, *tables, **of_axis)
    made = from_nhwc(call, made, 2) if image else made
    if rule.coordinates == "tf_crop_and_resize":
        made = _extrapolate(call, made, work, rule)
    return call.cast(made, dtype)


def _rule_of_lengths(s: Axis, rule: Rule) -> str:
    """Return the attribute `rule` of an axis whose table follows from its lengths; "" for others."""
    known = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners", "tf_half_pixel_for_nn")
    by_lengths = rule.coordinates == "align_corners" or (s.by_size and rule.coordinates in known)
    mode = rule.nearest if rule.mode == "nearest" else rule.mode
    if not by_lengths or mode == "simple" or rule.exclude_outside or rule.antialias:
        return ""
    return f"{mode}{rule.cubic_a if mode == 'cubic' else ''} {rule.coordinates}"


def _is_identity(call: OnnxCall, s: Axis, rule: Rule) -> bool:
    """Return True if each element of the resized axis is the old element at the same index."""
    if s.made != s.length or s.made < 1:
        return False
    at = coordinates(call, s, rule)
    return bool(np.array_equal(at, np.arange(s.made)))


def coordinates(call: OnnxCall, s: Axis, rule: Rule) -> Array:
    """Return the position of each result along the old axis, in elements: [made], f32."""
    o, half, one = np.arange(s.made, dtype=np.float32), np.float32(0.5), np.float32(1)
    n, made = np.float32(s.length), np.float32(s.made)
    name = rule.coordinates
    if name == "asymmetric":
        return o / s.scale
    if name == "align_corners":
        # As in the specification and onnxruntime: by the rounded length, so that the last elements are aligned. ONNX's
        # reference implementation uses the length before rounding (docs/operators.md).
        return o if s.made == 1 else o * (n - one) / (made - one)
    if name == "tf_crop_and_resize":
        start, end = (np.float32(edge) for edge in s.roi)
        if s.made == 1:
            return np.full(1, half * (start + end) * (n - one))
        return start * (n - one) + o * (end - start) * (n - one) / (made - one)
    if name == "tf_half_pixel_for_nn":
        return (o + half) / s.scale
    if name == "half_pixel_symmetric":
        # As onnxruntime: the offset of the middle in f32, its sum with the position in f64.
        offset = n / 2 * (one - made / (s.scale * n))
        return (np.float64(offset) + (o.astype(np.float64) + 0.5) / np.float64(s.scale) - 0.5).astype(np.float32)
    if name == "pytorch_half_pixel" and s.made == 1:
        return o
    if name in ("half_pixel", "pytorch_half_pixel"):
        return (o + half) / s.scale - half
    raise call.fail(f"coordinate_transformation_mode {name!r}: unknown mode")


def table(call: OnnxCall, s: Axis, rule: Rule) -> tuple[Array, Array]:
    """Return (index, weight) of one axis, each [made, taps]."""
    at = coordinates(call, s, rule).astype(np.float64)
    if not np.isfinite(at).all() or np.abs(at).max() > 1 << 40:
        raise call.fail("coordinates that are not finite; its scales or roi are not usable")
    if rule.mode == "nearest":
        # Opset 10 does not specify the neighbour; this is what runtimes do.
        rounding = rule.nearest if rule.nearest != "simple" else "ceil" if s.scale < 1 else "floor"
        index = _nearest(call, at, rounding)[:, None]
        return np.clip(index, 0, s.length - 1), np.ones(index.shape)
    left = np.floor(at).astype(np.int64)
    shrink = min(float(s.scale), 1.0) if rule.antialias else 1.0
    reach = 1 if rule.mode == "linear" else 2
    first = math.floor(-reach / shrink) + 1
    taps = 2 - 2 * first if rule.mode == "linear" else 2 * (1 - first)
    if taps * s.made > LARGEST_TABLE:
        raise call.fail(f"{taps} taps for each of {s.made} elements; at most {LARGEST_TABLE} in all")
    offsets = np.arange(first, first + taps)
    distance = np.abs((offsets[None, :] - (at - left)[:, None]) * shrink)
    weight = np.clip(1 - distance, 0, 1) if rule.mode == "linear" else _cubic(distance, rule.cubic_a)
    index = left[:, None] + offsets[None, :]
    if rule.exclude_outside:
        weight = np.where((index >= 0) & (index < s.length), weight, 0.0)
    if rule.antialias or rule.exclude_outside:
        weight = weight / weight.sum(axis=1, keepdims=True)
    return np.clip(index, 0, s.length - 1), weight


def _nearest(call: OnnxCall, at: Array, mode: str) -> Array:
    roundings = {
        "round_prefer_floor": lambda: np.ceil(at - 0.5 - HALFWAY),
        "round_prefer_ceil": lambda: np.floor(at + 0.5 + HALFWAY),
        "floor": lambda: np.floor(at),
        "ceil": lambda: np.ceil(at),
    }
    if mode not in roundings:
        raise call.fail(f"nearest_mode {mode!r}; there are {', '.join(roundings)}")
    indices: Array = roundings[mode]().astype(np.int64)
    return indices


def _cubic(distance: Array, a: float) -> Array:
    """Return Keys' cubic kernel with parameter a at distances from the coordinate."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _extrapolate(call: OnnxCall, x: Value, steps: Sequence[Axis], rule: Rule) -> Value:
    """Return x with the extrapolation value for elements outside of the image along any axis."""
    for s in steps:
        at = coordinates(call, s, rule)
        outside = (at < 0) | (at > s.length - 1)
        if outside.any():
            mask = constant(outside.reshape([-1 if i == s.axis else 1 for i in range(x.rank)]))
            x = call.add("where", mask, call.scalar(rule.extrapolation, x), x)
    return x


HANDLERS: Mapping[str, Handler] = {"Resize": resize, "Upsample": upsample}
