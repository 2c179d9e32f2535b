"""Fuses the sum of a quantized convolution's result and another 8-bit image into the convolution."""

from collections.abc import Iterator

from mavcg.graph import Graph, Node
from mavcg.ops import make_node
from mavcg.passes.graph.rewrite import Rewrite

RESIDUAL = 5  # index of the input


def fuse_quantized_sums(graph: Graph) -> Graph:
    """Fuse each qadd into the qconv2d of one of its inputs.

    Before:
        input %x: u8[1,2,2,1]
        input %r: u8[1,2,2,1]
        const %w: i8[1,1,1,1] = {3}
        const %b: i32[1] = {6}
        const %m: f32[1] = {0.25}
        %c = qconv2d(%x, %w, %b, %m) x_zero=1 out_zero=0 lo=0 hi=9 to="u8"
        %y = qadd(%c, %r) a_scale=0.5 b_scale=2.0 a_zero=0 b_zero=0 out_zero=1 lo=1 hi=9 to="u8"
        return %y
    After:
        input %x: u8[1,2,2,1]
        input %r: u8[1,2,2,1]
        const %w: i8[1,1,1,1] = {3}
        const %b: i32[1] = {6}
        const %m: f32[1] = {0.25}
        %y = qconv2d(%x, %w, %b, %m, _, %r) own_hi=9 own_scale=0.5 residual_scale=2.0 x_zero=1 out_zero=1 lo=1 hi=9 to="u8"
        return %y

    The convolution still rounds its own result to whole numbers within its bounds, so that no bit changes; it is not
    stored and loaded again. Not fused: a result with another reader, that of a convolution with several groups (most
    are depthwise), and a sum that broadcasts.
    """  # noqa: E501
    new = Rewrite(graph)
    for node in graph.nodes:
        fused = _fused_node(new, node) if node.op == "qadd" else None
        if fused is None:
            new.keep(node)
        else:
            new.drop(fused[0])
            new.put(fused[1])
    return new.finish()


def _fused_node(new: Rewrite, node: Node) -> tuple[str, Node] | None:
    """Return (the convolution's result, the convolution that computes a qadd too), or None."""
    shape = new.types[node.output].shape
    for own, other in _both_orders(node):
        name, residual = (new.of(node.inputs["ab".index(side)]) for side in (own, other))
        maker = new.made.get(name)
        if maker is None or maker.op != "qconv2d" or not new.only_reader(name) or maker.attr("groups") != 1:
            continue
        alike = new.types[name].shape == new.types[residual].shape == shape and residual not in new.constants
        if maker.inputs[RESIDUAL] or not alike or node.attr(f"{own}_zero") != maker.attr("out_zero"):
            continue
        window = {key: maker.attr(key) for key in ("stride", "dilation", "pads", "groups", "x_zero")}
        bounds = {f"own_{end}": maker.attr(end) - maker.attr("out_zero") for end in ("lo", "hi")}
        scales = {"own_scale": node.attr(f"{own}_scale"), "residual_scale": node.attr(f"{other}_scale")}
        result = {key: node.attr(key) for key in ("out_zero", "lo", "hi", "to")}
        fused = make_node(
            "qconv2d",
            (*maker.inputs[:RESIDUAL], residual),
            node.outputs,
            maker.origin,
            **window,
            **bounds,
            **scales,
            residual_zero=node.attr(f"{other}_zero"),
            **result,
        )
        return name, fused
    return None


def _both_orders(node: Node) -> Iterator[tuple[str, str]]:
    if node.inputs[0] != node.inputs[1]:
        yield "a", "b"
        yield "b", "a"
