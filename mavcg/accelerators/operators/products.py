"""Convert convolutions, transposed convolutions, fully connected layers and pools to coarse operations.

Each operation includes bias and activation.

"""

import numpy as np

from mavcg.accelerators.operators.scales import add_lowered_act
from mavcg.accelerators.operators.xgraph_maker import XGraphMaker, add_host_act, all_finite, fused_act
from mavcg.accelerators.shapes import MOST_WINDOW
from mavcg.accelerators.xgraph import Parameters, XNode
from mavcg.graph import Array, Node


def add_conv(maker: XGraphMaker, node: Node) -> bool:
    """Add a convolution with constant weights, and the addition of its residual.

    Return False if the accelerator cannot compute the convolution.
    """
    x, w = maker.image(node.inputs[0]), maker.constant(node.inputs[1])
    residual = node.inputs[3] if len(node.inputs) > 3 else ""
    second = maker.image(residual) if residual else ""
    act = fused_act(node)
    bias = _bias(maker, node, 0 if w is None else w.shape[0])
    if x is None or w is None or bias is None or second is None or not all_finite(w, bias):
        return False
    in_ch, groups = maker.shapes[x][3], node.attr("groups")
    kind = "depthwise" if groups == in_ch and in_ch > 1 else "conv"
    inner = act if act is not None and not residual else ("", ())
    conv = XNode(
        node.origin or node.output,
        kind,
        (x,),
        maker.graph.types[node.output].shape,
        w.shape[1:3],
        node.attr("stride"),
        node.attr("dilation"),
        node.attr("pads"),
        groups=groups,
        act=inner[0],
        act_args=inner[1],
        origin=node.origin,
    )
    made = maker.add(conv, node.output, Parameters(w, bias))
    if residual:
        assert second is not None
        outer = act or ("", ())
        total = XNode(
            f"{conv.name}.add",
            "eltwise",
            (made, second),
            conv.shape,
            op="add",
            act=outer[0],
            act_args=outer[1],
            origin=node.origin,
        )
        maker.add(total, node.output)
    if act is None:
        _add_act(maker, node)
    return True


def _add_act(maker: XGraphMaker, node: Node) -> None:
    """Add a convolution's activation that is not one of its own: as further operations, or as a node of the CPU."""
    made, act, args = maker.now[node.output], node.attr("act"), tuple(node.attr("act_args"))
    if not add_lowered_act(maker, made, act, args, node.output, node.origin):
        add_host_act(maker, node)


def _bias(maker: XGraphMaker, node: Node, out_ch: int) -> Array | None:
    if len(node.inputs) < 3 or not node.inputs[2]:
        return np.zeros(out_ch, np.float32)
    return maker.constant(node.inputs[2])


def add_deconv(maker: XGraphMaker, node: Node) -> bool:
    """Add a transposed convolution with constant weights; return False if the accelerator cannot compute it."""
    x, w, act = maker.image(node.inputs[0]), maker.constant(node.inputs[1]), fused_act(node)
    bias = _bias(maker, node, 0 if w is None else w.shape[0])
    if x is None or w is None or bias is None or not all_finite(w, bias):
        return False
    # Output rows that no tap of the filter reaches contain the bias; the accelerator writes them, too.
    inner = act or ("", ())
    deconv = XNode(
        node.origin or node.output,
        "deconv",
        (x,),
        maker.graph.types[node.output].shape,
        w.shape[1:3],
        node.attr("stride"),
        node.attr("dilation"),
        node.attr("pads"),
        node.attr("output_pads"),
        groups=node.attr("groups"),
        act=inner[0],
        act_args=inner[1],
        origin=node.origin,
    )
    maker.add(deconv, node.output, Parameters(w, bias))
    if act is None:
        _add_act(maker, node)
    return True


def add_dense(maker: XGraphMaker, node: Node) -> bool:
    """Add a product of a flattened map with constant weights; return False if the CPU computes it."""
    x, w, act = maker.now.get(node.inputs[0]), maker.constant(node.inputs[1]), fused_act(node)
    if maker.dense_on_host or x is None or w is None or w.ndim != 2 or act is None:
        return False
    shape, out = maker.shapes[x], maker.graph.types[node.output].shape
    rows = w if node.attr("transpose_b") else w.T
    bias = _bias(maker, node, rows.shape[0])
    residual = len(node.inputs) > 3 and node.inputs[3]
    if (
        residual
        or bias is None
        or len(shape) != 4
        or int(np.prod(shape[1:])) != rows.shape[1]
        or not all_finite(w, bias)
    ):
        return False
    if int(np.prod(out[:-1])) != shape[0]:
        return False
    dense = XNode(
        node.origin or node.output,
        "dense",
        (x,),
        (shape[0], 1, 1, rows.shape[0]),
        (shape[1], shape[2]),
        act=act[0],
        act_args=act[1],
        origin=node.origin,
    )
    weights = np.ascontiguousarray(rows).reshape(rows.shape[0], *shape[1:])
    maker.add(dense, node.output, Parameters(weights, bias))
    return True


def add_pool(maker: XGraphMaker, node: Node) -> bool:
    """Add a maximum or average pool; return False for a window that the accelerator cannot compute."""
    x = maker.image(node.inputs[0])
    kernel, dilation = node.attr("kernel"), node.attr("dilation")
    pads, spans = node.attr("pads"), [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    if x is None or kernel[0] * kernel[1] > MOST_WINDOW or any(pads[i] >= spans[i % 2] for i in range(4)):
        return False
    kind, counted = ("max_pool", (0,) * 4) if node.op == "max_pool2d" else ("avg_pool", node.attr("count_pads"))
    pool = XNode(
        node.origin or node.output,
        kind,
        (x,),
        maker.graph.types[node.output].shape,
        kernel,
        node.attr("stride"),
        dilation,
        pads,
        count_pads=counted,
        origin=node.origin,
    )
    maker.add(pool, node.output)
    return True


def add_mean(maker: XGraphMaker, node: Node) -> bool:
    """Add a mean over height and width as a pool of the whole map; return False for other axes or too large maps."""
    x = maker.image(node.inputs[0])
    if x is None or node.attr("axes") != (1, 2):
        return False
    shape = maker.shapes[x]
    if shape[1] * shape[2] > MOST_WINDOW:
        return False
    pool = XNode(
        node.origin or node.output,
        "avg_pool",
        (x,),
        (shape[0], 1, 1, shape[3]),
        (shape[1], shape[2]),
        origin=node.origin,
    )
    maker.add(pool, node.output)
    return True
