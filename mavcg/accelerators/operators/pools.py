"""Convert pools and global averages to coarse operations."""

from mavcg.accelerators.operators.xgraph_maker import XGraphMaker
from mavcg.accelerators.shapes import MOST_WINDOW
from mavcg.accelerators.xgraph import XNode
from mavcg.graph import Node


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
