"""Definitions of operators that move elements or change shapes, and of those of images in layouts of primitives."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mavcg.errors import MavcgError
from mavcg.graph import Array, Node
from mavcg.graph.layout import Layout, image_in, lay_out
from mavcg.graph.ops.nodes import make_node
from mavcg.graph.ops.op import node_location
from mavcg.graph.reference.spatial import DEFINITIONS as SPATIAL

# Operators that move elements without arithmetic and rounding.
MOVES = ("concat", "slice", "pad", "reshape", "transpose", "broadcast_to", "gather")


def _slice(node: Node, inputs: Sequence[Any]) -> Array:
    ranges = zip(node.attr("starts"), node.attr("stops"), node.attr("steps"), strict=True)
    # A stop of -1 means before the first element; for NumPy it would be the last element.
    return np.asarray(inputs[0][tuple(slice(a, None if b < 0 else b, step) for a, b, step in ranges)])


def _pad(node: Node, inputs: Sequence[Any]) -> Array:
    x: Array = inputs[0]
    widths = list(zip(node.attr("before"), node.attr("after"), strict=True))
    if not any(map(any, widths)):
        return x
    if node.attr("mode") != "constant":
        return np.pad(x, widths, mode=node.attr("mode"))
    value = node.attr("value")
    return np.pad(x, widths, constant_values=value if np.issubdtype(x.dtype, np.floating) else int(value))


def _pad_with(node: Node, inputs: Sequence[Any]) -> Array:
    x, fill = inputs
    return np.pad(x, list(zip(node.attr("before"), node.attr("after"), strict=True)), constant_values=fill)


def _resample(node: Node, inputs: Sequence[Any]) -> Array:
    x, index, weight = inputs
    axis = node.attr("axis")
    along = [-1 if i == axis else 1 for i in range(x.ndim)]
    taps = (np.take(x, index[:, t], axis=axis) * weight[:, t].reshape(along) for t in range(index.shape[1]))
    none = np.zeros((*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :]), x.dtype)
    return np.asarray(sum(taps, start=none))


def _flat_index(node: Node, inputs: Sequence[Any]) -> Array:
    indices: Array = inputs[0].astype(np.int64)
    lengths = np.array(node.attr("lengths"), np.int64)
    counted = np.where(indices < 0, indices + lengths, indices) if node.attr("from_end") else indices
    if ((counted < 0) | (counted >= lengths)).any():
        raise MavcgError(f"{node_location(node)}: an index is out of range for dimensions {list(lengths)}")
    flat = (counted * np.array(node.attr("strides"), np.int64)).sum(-1)
    for axis, offset in enumerate(node.attr("offsets")):
        along = [-1 if i == axis else 1 for i in range(flat.ndim)]
        flat = flat + offset * np.arange(flat.shape[axis]).reshape(along)
    return np.asarray(flat)


def _scatter(node: Node, inputs: Sequence[Any]) -> Array:
    x, indices, updates = inputs
    combine = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}.get(node.attr("reduction"))
    result: Array = np.array(x)
    for row, update in zip(indices, updates, strict=True):  # in order: the last of equal indices wins
        result[row] = update if combine is None else combine(result[row], update)
    return result


def _convert_layout(node: Node, inputs: Sequence[Any]) -> Array:
    image = image_in(inputs[0], Layout(node.attr("layout_from")), node.attr("c"))
    return lay_out(image, Layout(node.attr("layout_to")), node.attr("block"))


def _primitive_conv2d(node: Node, inputs: Sequence[Any]) -> Array:
    """Return conv2d of the image, which every primitive computes."""
    x, w, bias, residual = inputs
    layout_in, layout_out = Layout(node.attr("layout_in")), Layout(node.attr("layout_out"))
    image = image_in(x, layout_in, node.attr("c"))
    added = None if residual is None else image_in(residual, layout_out, w.shape[0])
    window = {name: node.attr(name) for name in ("stride", "dilation")}
    plain = make_node(
        "conv2d",
        node.inputs,
        node.outputs,
        node.origin,
        pads=(*node.attr("pads"),) * 2,
        groups=node.attr("groups"),
        act=node.attr("act"),
        act_args=node.attr("act_args"),
        **window,
    )
    return lay_out(SPATIAL["conv2d"](plain, (image, w, bias, added)), layout_out, node.attr("block"))


DEFINITIONS: Mapping[str, Callable[[Node, Sequence[Any]], Array]] = {
    "concat": lambda node, inputs: np.concatenate(inputs, axis=node.attr("axis")),
    "slice": _slice,
    "pad": _pad,
    "pad_with": _pad_with,
    "reshape": lambda node, inputs: np.reshape(inputs[0], node.attr("shape")),
    "transpose": lambda node, inputs: np.transpose(inputs[0], node.attr("perm")),
    "broadcast_to": lambda node, inputs: np.broadcast_to(inputs[0], node.attr("shape")),
    "gather": lambda node, inputs: np.take(inputs[0], inputs[1], axis=node.attr("axis")),
    "flat_index": _flat_index,
    "scatter": _scatter,
    "resample": _resample,
    "primitive_conv2d": _primitive_conv2d,
    "convert_layout": _convert_layout,
}
