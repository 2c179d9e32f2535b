"""Operators on images in layouts other than N, H, W, C, which the selection of primitives adds to a graph."""

from collections.abc import Mapping

from mavcg.graph import TensorType
from mavcg.ops.elementwise import check_activation
from mavcg.ops.op import ANY, Attr, Operator, TypedNode
from mavcg.ops.spatial import ACT
from mavcg.specs.layout import Layout, image_shape

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


def _convert_layout(case: TypedNode) -> tuple[TensorType, ...]:
    x = _reads(case, ANY, "layout_from")
    return (TensorType(x.dtype, _image(case, "layout_to", *(case.attr(name) for name in "chw"))),)


def _primitive_conv2d(case: TypedNode) -> tuple[TensorType, ...]:
    x, w = _reads(case, ("f32",), "layout_in"), case.type("w", ("f32",), rank=4)
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


OPS = (
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
