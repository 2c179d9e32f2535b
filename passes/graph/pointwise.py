"""Fuses element-wise operators into the convolution or product before them, whose results are still in registers."""

from collections.abc import Container
from dataclasses import replace

from mavcg.graph import Graph, Node
from mavcg.graph.ops.elementwise import ACTIVATIONS
from mavcg.passes.graph.integer_results import INTEGER
from mavcg.passes.graph.rewrite import Rewrite, fuse_with_makers

WITH_ACT = ("conv2d", "conv_transpose2d", "matmul", "iconv2d", "imatmul")
WITH_RESIDUAL = {"conv2d": 3, "matmul": 3, "iconv2d": 6, "imatmul": 6}  # operator -> index of the residual input


def fuse_pointwise(graph: Graph) -> Graph:
    """Fuse an activation, and the addition of a residual tensor, into the convolution or product before it.

    Before:
        input %x: f32[1,4,4,1]
        const %w: f32[1,1,1,1] = {2.0}
        %c = conv2d(%x, %w)
        %a = add(%c, %x)
        %y = clip(%a) lo=0.0 hi=6.0
        return %y
    After:
        input %x: f32[1,4,4,1]
        const %w: f32[1,1,1,1] = {2.0}
        %y = conv2d(%x, %w, _, %x) act="clip" act_args=[0.0, 6.0]
        return %y

    The convolution's result must have no other reader. If both operands of an addition are such convolutions, the later
    one takes the other's result as its residual.
    """
    return fuse_with_makers(
        graph, lambda new, node: _with_act(new, node) if node.op in ACTIVATIONS else _with_residual(new, node)
    )


def _open(new: Rewrite, name: str, ops: Container[str]) -> Node | None:
    """Return the node that makes a tensor if it is one of `ops`, has no activation, and the tensor has one reader.

    Returns None for integer operators with 32-bit results, into which nothing is fused.
    """
    maker = new.made.get(name)
    free = maker is not None and maker.op in ops and not maker.attr("act") and new.only_reader(name)
    sums = maker is not None and maker.op in INTEGER and new.types[name].dtype != "f32"
    return maker if free and not sums else None


def _with_act(new: Rewrite, node: Node) -> Node | None:
    maker = _open(new, node.inputs[0], WITH_ACT)
    if maker is None:
        return None
    args = tuple(float(node.attr(name)) for name in ACTIVATIONS[node.op])
    return maker.with_attrs(act=node.op, act_args=args)


def _with_residual(new: Rewrite, node: Node) -> Node | None:
    if node.op != "add" or node.inputs[0] == node.inputs[1]:
        return None
    result = new.types[node.output]
    order = list(new.made)
    choices = []
    for name, residual in (node.inputs, node.inputs[::-1]):
        maker = _open(new, name, WITH_RESIDUAL)
        at = WITH_RESIDUAL[maker.op] if maker is not None else 0
        if maker is not None and not maker.inputs[at] and new.types[name] == new.types[residual] == result:
            choices.append((order.index(name), replace(maker, inputs=(*maker.inputs[:at], residual))))
    return max(choices, key=lambda choice: choice[0])[1] if choices else None
