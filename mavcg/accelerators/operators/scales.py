"""Convert products, sums, activations and moves by channel to 1x1 convolutions, which every accelerator has."""

import numpy as np

from mavcg.accelerators.operators.xgraph_maker import XGraphMaker, all_finite
from mavcg.accelerators.xgraph import Parameters, XNode
from mavcg.graph import Array, Node

LOWEST_F32 = float(np.finfo(np.float32).min)
UNIT_INTERVAL = ("clip", (0.0, 1.0))
HARD_SWISHES = ("hard_swish", "hard_swish_quotient")
LOWERED_ACTS = ("hard_sigmoid", *HARD_SWISHES)


def add_scaled(
    maker: XGraphMaker,
    node: XNode,
    scale: Array,
    shift: Array,
    tensor: str,
) -> str:
    """Add x * scale + shift as a 1x1 depthwise convolution with the node's activation, and return its name.

    node: its name, input, shape, activation and origin. scale, shift: [C], f32. tensor: the graph's tensor that it
    makes, "" for none.
    """
    channels = maker.shapes[node.inputs[0]][3]
    kind = "depthwise" if channels > 1 else "conv"
    made = XNode(
        node.name,
        kind,
        node.inputs,
        node.shape,
        groups=channels,
        op="scale",
        act=node.act,
        act_args=node.act_args,
        origin=node.origin,
    )
    weights = np.ascontiguousarray(scale.reshape(-1, 1, 1, 1), np.float32)
    return maker.add(made, tensor, Parameters(weights, np.asarray(shift, np.float32)))


def add_lowered_act(
    maker: XGraphMaker, x: str, act: str, args: tuple[float, ...], tensor: str, origin: str, stem: str = ""
) -> bool:
    """Add an activation of a map as operations that the accelerator has; return False if there are none.

    hard_sigmoid: clip(alpha * x + beta, 0, 1). hard_swish: x * clip(x / 6 + 1 / 2, 0, 1).
    x: its map. stem: name of the result; "" for one that names x.
    """
    shape = maker.shapes[x]
    if act not in LOWERED_ACTS:
        return False
    name, ones = stem or f"{x}.{act}", np.ones(shape[3], np.float32)
    alpha, beta = args if act == "hard_sigmoid" else (1 / 6, 0.5)
    gate = XNode(
        name if act == "hard_sigmoid" else f"{x}.gate",
        "depthwise",
        (x,),
        shape,
        act=UNIT_INTERVAL[0],
        act_args=UNIT_INTERVAL[1],
        origin=origin,
    )
    if act == "hard_sigmoid":
        add_scaled(maker, gate, ones * alpha, ones * beta, tensor)
        return True
    factor = add_scaled(maker, gate, ones * alpha, ones * beta, "")
    maker.add(XNode(name, "eltwise", (x, factor), shape, op="mul", origin=origin), tensor)
    return True


def add_single_act(maker: XGraphMaker, node: Node) -> bool:
    """Add an activation that is a node of its own; return False if the accelerator lacks it."""
    x = maker.image(node.inputs[0])
    args = tuple(float(node.attr(name)) for name in ("alpha", "beta")) if node.op == "hard_sigmoid" else ()
    stem = node.origin or node.output
    return x is not None and add_lowered_act(maker, x, node.op, args, node.output, node.origin, stem)


def add_prelu(maker: XGraphMaker, node: Node) -> bool:
    """Add a leaky ReLU with a slope for each channel; return False for other slopes.

    max(x, slope * x) where all slopes are 0 to 1, else x + (slope - 1) * min(x, 0).
    """
    x, slopes = maker.image(node.inputs[0]), maker.constant(node.inputs[1])
    if x is None or slopes is None or not all_finite(slopes):
        return False
    shape = maker.shapes[x]
    if slopes.size not in (1, shape[3]) or (slopes.size > 1 and slopes.shape[-1] != shape[3]):
        return False
    slope, name = np.broadcast_to(slopes.reshape(-1), (shape[3],)), node.origin or node.output
    zeros, between = np.zeros(shape[3], np.float32), bool((slope >= 0).all() and (slope <= 1).all())
    scaled = XNode(f"{x}.slope", "depthwise", (x,), shape, origin=node.origin)
    if between:
        other, op = add_scaled(maker, scaled, slope, zeros, ""), "max"
    else:
        least = XNode(f"{x}.min", "eltwise", (x,), shape, op="copy", act="clip", act_args=(LOWEST_F32, 0.0))
        negative = maker.add(least, "")
        scaled = XNode(scaled.name, scaled.kind, (negative,), shape, origin=node.origin)
        other, op = add_scaled(maker, scaled, slope - 1, zeros, ""), "add"
    maker.add(XNode(name, "eltwise", (x, other), shape, op=op, origin=node.origin), node.output)
    return True


def add_channel_pad(maker: XGraphMaker, node: Node) -> bool:
    """Add zeros before or after the channels, as a 1x1 convolution; return False for other pads."""
    x, before, after = maker.image(node.inputs[0]), node.attr("before"), node.attr("after")
    if x is None or node.attr("mode") != "constant" or node.attr("value") != 0 or any((*before[:3], *after[:3])):
        return False
    channels = maker.shapes[x][3]
    _add_moved_channels(maker, node, x, np.arange(-before[3], channels + after[3]), "pad")
    return True


def add_shuffle(maker: XGraphMaker, node: Node, x: str, groups: int) -> None:
    """Add a channel shuffle as a 1x1 convolution: channel i of group g becomes channel i * groups + g.

    x: the graph's tensor that is shuffled, a feature map.
    """
    source = maker.now[x]
    channels = maker.shapes[source][3]
    _add_moved_channels(maker, node, source, np.arange(channels).reshape(groups, -1).T.reshape(-1), "shuffle")


def _add_moved_channels(maker: XGraphMaker, node: Node, x: str, sources: Array, op: str) -> None:
    """Add a 1x1 convolution with one weight of 1 for each output channel. sources: its input channel; outside: 0."""
    channels = maker.shapes[x][3]
    weights = (sources[:, None] == np.arange(channels)).astype(np.float32).reshape(-1, 1, 1, channels)
    shape = (*maker.shapes[x][:3], len(sources))
    made = XNode(node.origin or node.output, "conv", (x,), shape, op=op, origin=node.origin)
    maker.add(made, node.output, Parameters(weights, np.zeros(len(sources), np.float32)))
