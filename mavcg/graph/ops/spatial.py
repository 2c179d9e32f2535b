"""Operators with windows on images [N, H, W, C]: convolutions and pooling."""

from collections.abc import Mapping, Sequence

import numpy as np

from mavcg.graph import Array, Node, TensorType
from mavcg.graph.ops.elementwise import check_activation
from mavcg.graph.ops.op import FLOATS, NUMBERS, Attr, Operator, TypedNode

ACT: Mapping[str, Attr] = {"act": Attr("str", ""), "act_args": Attr("floats", ())}
_PADS = Attr("ints", (0, 0, 0, 0), length=4)  # top, left, bottom, right
_STEPS = {"stride": Attr("ints", (1, 1), length=2), "dilation": Attr("ints", (1, 1), length=2), "pads": _PADS}

# Type in which constant weights of f32 lie in memory, rounded to it, i8 with a scale for each channel; "": their own.
_WEIGHTS = Attr("str", "", choices=("", "f16", "bf16", "i8"))

MOST_WINDOWS = 1 << 24  # maximum windows along an axis; more indicate a damaged file


def window_counts(case: TypedNode, kernel: tuple[int, ...], lengths: tuple[int, ...]) -> tuple[int, int]:
    """Return the numbers of windows along an image's height and width. Raises: MavcgError if there are none."""
    case.at_least(1, "stride", "dilation")
    case.at_least(0, "pads")
    stride, dilation, pads = case.attr("stride"), case.attr("dilation"), case.attr("pads")
    counts = []
    for axis in (0, 1):
        span = dilation[axis] * (kernel[axis] - 1) + 1
        room = lengths[axis] + pads[axis] + pads[axis + 2] - span
        if kernel[axis] < 1 or lengths[axis] < 1 or room < 0:
            size = f"{lengths[axis]} with pads {pads[axis]} and {pads[axis + 2]}"
            raise case.fail(f"a window of {span} does not fit into a {('height', 'width')[axis]} of {size}")
        counts.append(room // stride[axis] + 1)
        if counts[-1] > MOST_WINDOWS:
            raise case.fail(f"{counts[-1]} windows along one axis; supported: at most {MOST_WINDOWS}")
    return counts[0], counts[1]


def same_pads(
    image: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the pads (before, after) along each dimension for ceil(length / stride) windows.

    An odd total has its larger part after.
    """
    totals = [
        max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        for n, k, s, d in zip(image, kernel, stride, dilation, strict=True)
    ]
    return tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)


def _filter(case: TypedNode) -> tuple[TensorType, TensorType]:
    """Return the types of a convolution's image and filter, after a check against each other."""
    x, w = case.type("x", FLOATS, rank=4), case.type("w", FLOATS, rank=4)
    case.same_dtype("x", "w")
    case.same_or_wider_dtype("x", "bias")
    case.at_least(1, "groups")
    groups = case.attr("groups")
    out_ch, in_ch = w.shape[0], x.shape[3]
    if in_ch % groups or out_ch % groups or w.shape[3] * groups != in_ch:
        raise case.fail(
            f"w[O,KH,KW,C/groups] with {out_ch} output and {w.shape[3]} input channels does not go with "
            f"{in_ch} channels in {groups} groups"
        )
    bias = case.maybe("bias")
    if bias is not None and bias.shape != (out_ch,):
        raise case.fail(f"bias {bias} where {out_ch} elements are needed")
    check_activation(case)
    return x, w


def _conv2d(case: TypedNode) -> tuple[TensorType, ...]:
    x, w = _filter(case)
    out_h, out_w = window_counts(case, w.shape[1:3], x.shape[1:3])
    result = TensorType(x.dtype, (x.shape[0], out_h, out_w, w.shape[0]))
    residual = case.maybe("residual")
    if residual is not None and residual != result:
        raise case.fail(f"residual {residual} where {result} is needed")
    return (result,)


def _conv_transpose2d(case: TypedNode) -> tuple[TensorType, ...]:
    x, w = _filter(case)
    case.at_least(1, "stride", "dilation")
    case.at_least(0, "pads", "output_pads")
    stride, dilation, pads, extra = (case.attr(n) for n in ("stride", "dilation", "pads", "output_pads"))
    sizes = []
    for axis in (0, 1):
        if x.shape[1 + axis] < 1 or w.shape[1 + axis] < 1:
            raise case.fail("an image or a filter without elements")
        span = dilation[axis] * (w.shape[1 + axis] - 1) + 1
        size = (x.shape[1 + axis] - 1) * stride[axis] + span + extra[axis] - pads[axis] - pads[axis + 2]
        if size < 1:
            raise case.fail(f"pads {pads} take all of the {('height', 'width')[axis]} away")
        sizes.append(size)
    return (TensorType(x.dtype, (x.shape[0], sizes[0], sizes[1], w.shape[0])),)


def _pool_type(case: TypedNode, x: TensorType) -> TensorType:
    case.at_least(1, "kernel")
    out_h, out_w = window_counts(case, case.attr("kernel"), x.shape[1:3])
    return TensorType(x.dtype, (x.shape[0], out_h, out_w, x.shape[3]))


def _max_pool2d(case: TypedNode) -> tuple[TensorType, ...]:
    return (_pool_type(case, case.type("x", NUMBERS, rank=4)),)


def _avg_pool2d(case: TypedNode) -> tuple[TensorType, ...]:
    x = case.type("x", FLOATS, rank=4)
    result = _pool_type(case, x)
    case.at_least(0, "count_pads")
    for axis in (0, 1):
        if not divisors(case.node, axis, x.shape[1 + axis], result.shape[1 + axis]).all():
            raise case.fail("a window that counts no element: it lies in the pads, and count_pads leaves these out")
    return (result,)


def divisors(node: Node, axis: int, length: int, count: int) -> Array:
    """Return the number of positions of each window along one axis that count in avg_pool2d's divisor, [count].

    Positions inside of the image and of its count_pads count. axis: 0 for height, 1 for width. length: length of the
    image along the axis. count: number of windows.
    """
    kernel, stride, dilation, pads, counted = (
        node.attr(n)[axis] for n in ("kernel", "stride", "dilation", "pads", "count_pads")
    )
    after = node.attr("count_pads")[axis + 2]
    first = np.arange(count) * stride - pads
    # Position k of a window is first + k * dilation; a / b rounded up is -(-a // b).
    begin = np.clip(-((first + counted) // dilation), 0, kernel)
    end = np.clip(-((first - length - after) // dilation), 0, kernel)
    return np.asarray(end - begin)


_POOL = {"kernel": Attr("ints", length=2), **_STEPS}
_SPATIAL = (
    # exact: sums of integers that the type can hold; only algorithms that compute products and sums of these are
    # allowed.
    Operator(
        "conv2d",
        ("x", "w", "bias?", "residual?"),
        _conv2d,
        {**_STEPS, "groups": Attr("int", 1), "exact": Attr("bool", False), "weights": _WEIGHTS, **ACT},
    ),
    Operator(
        "conv_transpose2d",
        ("x", "w", "bias?"),
        _conv_transpose2d,
        {**_STEPS, "output_pads": Attr("ints", (0, 0), length=2), "groups": Attr("int", 1), **ACT},
    ),
    Operator("max_pool2d", ("x",), _max_pool2d, _POOL),
    Operator("avg_pool2d", ("x",), _avg_pool2d, {**_POOL, "count_pads": _PADS}),
)


def _matmul(case: TypedNode) -> tuple[TensorType, ...]:
    a, b = case.type("a", NUMBERS, rank_min=2), case.type("b", NUMBERS, rank_min=2)
    case.same_dtype("a", "b", "residual")
    case.same_or_wider_dtype("a", "bias")
    depth, width = b.shape[-2:] if not case.attr("transpose_b") else b.shape[:-3:-1]
    if a.shape[-1] != depth:
        raise case.fail(f"rows of a have {a.shape[-1]} elements where columns of b have {depth}")
    result = TensorType(a.dtype, (*case.broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], width))
    bias, residual = case.maybe("bias"), case.maybe("residual")
    if bias is not None and bias.shape != (width,):
        raise case.fail(f"bias {bias} where {width} elements are needed")
    if residual is not None and residual != result:
        raise case.fail(f"residual {residual} where {result} is needed")
    check_activation(case)
    if a.dtype not in FLOATS and case.attr("act") not in ("", "relu", "clip"):
        raise case.fail(f"act {case.attr('act')} of {a.dtype}; whole numbers take relu and clip")
    return (result,)


_LINEAR = (
    Operator(
        "matmul",
        ("a", "b", "bias?", "residual?"),
        _matmul,
        {"transpose_b": Attr("bool", False), "weights": _WEIGHTS, **ACT},
    ),
)

OPS = (*_SPATIAL, *_LINEAR)
