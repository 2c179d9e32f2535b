"""Convert element-wise operators to coarse operations: two maps, a map and constants, separate activations."""

from dataclasses import replace

import numpy as np

from mavcg.accelerators.isa.forms import FORMS
from mavcg.accelerators.operators.scales import add_scaled
from mavcg.accelerators.operators.xgraph_maker import XGraphMaker, accelerator_act, all_finite
from mavcg.accelerators.xgraph import XNode
from mavcg.graph import Node

ELTWISE = {"add": "add", "sub": "sub", "mul": "mul", "max": "max", "min": "min"}
MOST_FACTOR = FORMS["misc.upsample"].by_name["factor_rows"].high
UNIT_ACTS = ("relu", "clip", "leaky_relu")


def add_eltwise(maker: XGraphMaker, node: Node) -> bool:
    """Add an operation on two maps of one shape, or on a map and constants; return False if it is neither."""
    a, b = maker.image(node.inputs[0]), maker.image(node.inputs[1])
    shape = maker.graph.types[node.output].shape
    if a is not None and b is not None and maker.shapes[a] == maker.shapes[b] == shape:
        eltwise = XNode(node.origin or node.output, "eltwise", (a, b), shape, op=ELTWISE[node.op], origin=node.origin)
        maker.add(eltwise, node.output)
        return True
    return _add_broadcast(maker, node, shape) or _add_scale(maker, node, shape)


def _add_broadcast(maker: XGraphMaker, node: Node, shape: tuple[int, ...]) -> bool:
    """Add an operation on a map and a value for each channel, which nearest upsampling repeats for each pixel.

    Squeeze and excitation ends in such a product. Return False for other operands.
    """
    images = [maker.image(name) for name in node.inputs]
    if any(name is None for name in images) or len(shape) != 4 or not 1 < max(shape[1:3]) <= MOST_FACTOR:
        return False
    names = [name for name in images if name is not None]
    small = [maker.shapes[name] == (shape[0], 1, 1, shape[3]) for name in names]
    if sum(small) != 1 or maker.shapes[names[small.index(False)]] != shape:
        return False
    at, stem = small.index(True), node.origin or node.output
    factor = (shape[1], shape[2])
    repeated = XNode(f"{stem}.repeat", "upsample", (names[at],), shape, factor=factor, origin=node.origin)
    names[at] = maker.add(repeated, "")
    maker.add(XNode(stem, "eltwise", tuple(names), shape, op=ELTWISE[node.op], origin=node.origin), node.output)
    return True


def _add_scale(maker: XGraphMaker, node: Node, shape: tuple[int, ...]) -> bool:
    """Add x * c or x + c as a 1x1 convolution by channel, with a constant c for each channel or for all.

    Return False for other operators and constants.
    """
    a, b = node.inputs
    for x_name, c_name, first in ((a, b, True), (b, a, False)):
        x, c = maker.image(x_name), maker.constant(c_name)
        if x is None or c is None or maker.shapes[x] != shape or c.size not in (1, shape[3]):
            continue
        if node.op not in ("add", "sub", "mul") or not all_finite(c) or (c.size > 1 and c.shape[-1] != shape[3]):
            return False
        values = np.broadcast_to(c.reshape(-1), (shape[3],)).astype(np.float32)
        sign = -1.0 if node.op == "sub" and not first else 1.0
        scale = values if node.op == "mul" else np.full(shape[3], sign, np.float32)
        shift = (
            np.zeros(shape[3], np.float32) if node.op == "mul" else -values if node.op == "sub" and first else values
        )
        made = XNode(node.origin or node.output, "depthwise", (x,), shape, origin=node.origin)
        add_scaled(maker, made, scale, shift, node.output)
        return True
    return False


def add_unit_act(maker: XGraphMaker, node: Node) -> bool:
    """Add an activation that is a node of its own; fuse it into the sum before it, if no other node reads that sum."""
    args = {"relu": (), "clip": ("lo", "hi"), "leaky_relu": ("alpha",)}[node.op]
    act, x = accelerator_act(node.op, tuple(float(node.attr(name)) for name in args)), maker.image(node.inputs[0])
    if act is None or x is None:
        return False
    before = next(n for n in maker.nodes if n.name == x)
    readers = [n for n in maker.graph.nodes if node.inputs[0] in n.inputs]
    if before.kind == "eltwise" and not before.act and len(readers) == 1 and node.inputs[0] not in maker.graph.outputs:
        maker.nodes[maker.nodes.index(before)] = replace(before, act=act[0], act_args=act[1])
        maker.now[node.output] = x
        return True
    copy = XNode(
        node.origin or node.output,
        "eltwise",
        (x,),
        maker.shapes[x],
        op="copy",
        act=act[0],
        act_args=act[1],
        origin=node.origin,
    )
    maker.add(copy, node.output)
    return True
