"""Definitions of operators on images in layouts other than N, H, W, C."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mavcg.graph import Array, Node
from mavcg.graph.layout import Layout, image_in, lay_out
from mavcg.ops.nodes import make_node
from mavcg.reference.spatial import DEFINITIONS as SPATIAL


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
    "primitive_conv2d": _primitive_conv2d,
    "convert_layout": _convert_layout,
}
