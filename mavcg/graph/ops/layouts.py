"""Operators that move elements or change shapes, and those of images in the layouts that primitives use."""

from collections.abc import Mapping

import numpy as np

from mavcg.graph import TensorType
from mavcg.graph.layout import Layout, image_shape
from mavcg.graph.ops.elementwise import check_activation
from mavcg.graph.ops.op import ANY, FLOATS, Attr, Operator, TypedNode
from mavcg.graph.ops.spatial import ACT

# Distance from the middle of two elements, in elements, that counts as the middle for the nearest one; measured in
# onnxruntime. Tables at import and in a run round alike by it.
HALFWAY = 1e-6


def _concat(case: TypedNode) -> tuple[TensorType, ...]:
    parts = [t for t in case.types if t is not None]
    first = parts[0]
    axis = case.axis(len(first.shape))

    def rest(t: TensorType) -> tuple[str, tuple[int, ...]]:
        return t.dtype, t.shape[:axis] + t.shape[axis + 1 :]

    if len(parts) != len(case.types) or any(len(t.shape) != len(first.shape) or rest(t) != rest(first) for t in parts):
        raise case.fail(f"parts that differ in more than axis {axis}")
    length = sum(t.shape[axis] for t in parts)
    return (TensorType(first.dtype, (*first.shape[:axis], length, *first.shape[axis + 1 :])),)


def _slice(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x")
    starts, stops, steps = (case.entries(name, len(x.shape)) for name in ("starts", "stops", "steps"))
    shape = []
    for axis, (length, start, stop, step) in enumerate(zip(x.shape, starts, stops, steps, strict=True)):
        rising = step > 0 and 0 <= start <= stop <= length
        falling = step < 0 and -1 <= stop <= start and 0 <= start and (start < length or start == stop)
        if not rising and not falling:
            raise case.fail(f"from {start} to {stop} by {step}: not inside axis {axis}, which has {length} elements")
        shape.append(-((start - stop) // abs(step)) if rising else -((stop - start) // abs(step)))
    return (TensorType(x.dtype, tuple(shape)),)


def _pad(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x")
    before, after = case.entries("before", len(x.shape)), case.entries("after", len(x.shape))
    case.at_least(0, "before", "after")
    mode = case.attr("mode")
    for axis, length in enumerate(x.shape):
        widest = max(before[axis], after[axis])
        if (mode == "edge" and widest and length == 0) or (mode == "reflect" and widest and widest >= length):
            raise case.fail(f"{mode} by {widest} where axis {axis} has {length} elements")
    return (TensorType(x.dtype, tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))),)


def _pad_with(case: TypedNode) -> tuple[TensorType, ...]:
    x, fill = case.type("x"), case.type("fill", rank=0)
    if fill.dtype != x.dtype:
        raise case.fail(f"fill {fill} for {x}")
    before, after = case.entries("before", len(x.shape)), case.entries("after", len(x.shape))
    case.at_least(0, "before", "after")
    return (TensorType(x.dtype, tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))),)


def _reshape(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x")
    case.at_least(0, "shape")
    result = TensorType(x.dtype, case.attr("shape"))
    if result.elements != x.elements:
        raise case.fail(f"{x.elements} elements do not make {result}")
    return (result,)


def _transpose(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x")
    perm = case.attr("perm")
    if sorted(perm) != list(range(len(x.shape))):
        raise case.fail(f"perm {perm} is not a permutation of {len(x.shape)} dimensions")
    return (TensorType(x.dtype, tuple(x.shape[i] for i in perm)),)


def _broadcast_to(case: TypedNode) -> tuple[TensorType, ...]:
    shape = case.attr("shape")
    case.at_least(0, "shape")
    case.broadcasts_to("x", shape)
    return (TensorType(case.type("x").dtype, shape),)


def _gather(case: TypedNode) -> tuple[TensorType, ...]:
    x, indices = case.type("x"), case.type("indices", ("i32", "i64"))
    axis = case.axis(len(x.shape))
    length = x.shape[axis]
    known = case.value("indices")
    if known is not None and known.size and not (-length <= known.min() and known.max() < length):
        raise case.fail(f"indices from {known.min()} to {known.max()} where axis {axis} has {length} elements")
    return (TensorType(x.dtype, x.shape[:axis] + indices.shape + x.shape[axis + 1 :]),)


def _flat_index(case: TypedNode) -> tuple[TensorType, ...]:
    indices = case.type("indices", ("i32", "i64"), rank_min=1)
    shape, depth = indices.shape[:-1], indices.shape[-1]
    lengths = case.entries("lengths", depth)
    case.entries("strides", depth)
    case.entries("offsets", len(shape))
    case.at_least(0, "lengths", "strides", "offsets")
    if not depth or (indices.elements and not all(lengths)):
        raise case.fail(f"lengths {list(lengths)}: there is nothing that an index may name")
    known = case.value("indices")
    pairs = zip(np.moveaxis(known, -1, 0), lengths, strict=True) if known is not None and known.size else ()
    for along, length in pairs:
        least, most = along.min(), along.max()
        if not (-length if case.attr("from_end") else 0) <= least <= most < length:
            raise case.fail(f"indices from {least} to {most} of a dimension with {length} elements")
    return (TensorType("i64", shape),)


def _scatter(case: TypedNode) -> tuple[TensorType, ...]:
    x, indices, updates = case.type("x", rank_min=1), case.type("indices", ("i32", "i64"), rank=1), case.type("updates")
    case.same_dtype("x", "updates")
    if x.dtype == "bool" and case.attr("reduction") != "none":
        raise case.fail(f"{case.attr('reduction')} of bool")
    if updates.shape != (*indices.shape, *x.shape[1:]):
        raise case.fail(f"updates are {updates} where {list((*indices.shape, *x.shape[1:]))} are needed")
    if updates.elements and not x.shape[0]:
        raise case.fail("there is no row to write")
    known = case.value("indices")
    if known is not None and known.size and not (0 <= known.min() and known.max() < x.shape[0]):
        raise case.fail(f"indices from {known.min()} to {known.max()} of {x.shape[0]} rows")
    return (x,)


def _resample(case: TypedNode) -> tuple[TensorType, ...]:
    x, index, weight = case.type("x", FLOATS), case.type("index", ("i32",), rank=2), case.type("weight", ("f32",))
    axis = case.axis(len(x.shape))
    if weight.shape != index.shape:
        raise case.fail("index and weight differ in shape")
    known = case.value("index")
    if known is not None and known.size and not (0 <= known.min() and known.max() < x.shape[axis]):
        raise case.fail(f"index from {known.min()} to {known.max()} where axis {axis} has {x.shape[axis]} elements")
    return (TensorType(x.dtype, (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :])),)


_AXIS = Attr("int")
# The rule by which tables of indices and weights follow from the lengths of the axis before and after; "" for others.
# Names: passes/graph/resize_tables.py.
_RULE = Attr("str", "")
_ENTRIES = Attr("ints")
_SHAPE = (
    Operator("concat", ("x...",), _concat, {"axis": _AXIS}),
    Operator("slice", ("x",), _slice, {"starts": _ENTRIES, "stops": _ENTRIES, "steps": _ENTRIES}),
    Operator(
        "pad",
        ("x",),
        _pad,
        {
            "before": _ENTRIES,
            "after": _ENTRIES,
            "mode": Attr("str", "constant", choices=("constant", "edge", "reflect")),
            "value": Attr("float", 0.0),
        },
    ),
    Operator("pad_with", ("x", "fill"), _pad_with, {"before": _ENTRIES, "after": _ENTRIES}),
    Operator("reshape", ("x",), _reshape, {"shape": _ENTRIES}),
    Operator("transpose", ("x",), _transpose, {"perm": _ENTRIES}),
    Operator("broadcast_to", ("x",), _broadcast_to, {"shape": _ENTRIES}),
    Operator("gather", ("x", "indices"), _gather, {"axis": Attr("int", 0), "rule": _RULE}),
    Operator(
        "flat_index",
        ("indices",),
        _flat_index,
        {"lengths": _ENTRIES, "strides": _ENTRIES, "offsets": _ENTRIES, "from_end": Attr("bool", True)},
    ),
    Operator(
        "scatter",
        ("x", "indices", "updates"),
        _scatter,
        {"reduction": Attr("str", "none", choices=("none", "add", "mul", "max", "min"))},
    ),
    Operator("resample", ("x", "index", "weight"), _resample, {"axis": _AXIS, "rule": _RULE}),
)


_LAYOUT = Attr("str", choices=tuple(map(str, Layout)))
_IMAGE: Mapping[str, Attr] = {
    "c": Attr("int"),
    "h": Attr("int"),
    "w": Attr("int"),
    "block": Attr("int"),
    "n": Attr("int", 1),
}


def _image(case: TypedNode, layout: str, c: int, h: int, w: int) -> tuple[int, ...]:
    return image_shape(Layout(case.attr(layout)), c, h, w, case.attr("block"), case.attr("n"))


def _reads(case: TypedNode, dtypes: tuple[str, ...], layout: str) -> TensorType:
    """Return the type of x, after a check that it holds images of c, h, w in the attribute's layout."""
    x = case.type("x", dtypes, rank=4)
    case.at_least(1, "c", "h", "w", "block", "n")
    c, h, w = (case.attr(name) for name in "chw")
    want = _image(case, layout, c, h, w)
    if x.shape != want:
        raise case.fail(
            f"an image of {c} channels, {h} x {w}, is [{','.join(map(str, want))}] in {case.attr(layout)} "
            f"with blocks of {case.attr('block')}"
        )
    return x


_PRODUCTS = ("f32", "f16", "bf16")


def _convert_layout(case: TypedNode) -> tuple[TensorType, ...]:
    x = _reads(case, ANY, "layout_from")
    return (TensorType(x.dtype, _image(case, "layout_to", *(case.attr(name) for name in "chw"))),)


def _primitive_conv2d(case: TypedNode) -> tuple[TensorType, ...]:
    x, w = _reads(case, _PRODUCTS, "layout_in"), case.type("w", _PRODUCTS, rank=4)
    case.same_dtype("x", "w")
    case.at_least(1, "stride", "dilation", "groups")
    case.at_least(0, "pads")
    channels, groups, (out_ch, *kernel, per_group) = case.attr("c"), case.attr("groups"), w.shape
    if min(kernel) < 1 or per_group * groups != channels or out_ch < 1 or out_ch % groups:
        raise case.fail(
            f"w must be [O,KH,KW,C/groups] for {channels} channels in {groups} groups: {out_ch} output and "
            f"{per_group} input channels, {kernel[0]} x {kernel[1]}"
        )
    bias = case.maybe("bias")
    if bias is not None and (bias.dtype, bias.shape) != ("f32", (out_ch,)):
        raise case.fail(f"bias {bias} where {out_ch} elements are needed")
    sizes = []
    for axis, name in enumerate("hw"):
        pad, dilation, stride = (case.attr(attribute)[axis] for attribute in ("pads", "dilation", "stride"))
        room = case.attr(name) + 2 * pad - dilation * (kernel[axis] - 1) - 1
        if room < 0:
            raise case.fail(f"the kernel does not fit into {name} {case.attr(name)} with a pad of {pad}")
        sizes.append(room // stride + 1)
    result = TensorType(x.dtype, _image(case, "layout_out", out_ch, *sizes))
    residual = case.maybe("residual")
    if residual is not None and residual != result:
        raise case.fail(f"residual {residual} where {result} is needed")
    check_activation(case)
    return (result,)


_LAYOUTS = (
    Operator(
        "primitive_conv2d",
        ("x", "w", "bias?", "residual?"),
        _primitive_conv2d,
        {
            "primitive": Attr("str"),
            "layout_in": _LAYOUT,
            "layout_out": _LAYOUT,
            **_IMAGE,
            "pads": Attr("ints", (0, 0), length=2),  # rows above and below, columns left and right
            "stride": Attr("ints", (1, 1), length=2),
            "groups": Attr("int", 1),
            "dilation": Attr("ints", (1, 1), length=2),
            **ACT,
        },
    ),
    Operator("convert_layout", ("x",), _convert_layout, {"layout_from": _LAYOUT, "layout_to": _LAYOUT, **_IMAGE}),
)

OPS = (*_SHAPE, *_LAYOUTS)
