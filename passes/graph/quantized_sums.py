"""Fuses what is done with a quantized convolution's result into the convolution: a sum, or a change of its scale."""

from collections.abc import Iterator, Mapping

import numpy as np

from mavcg.graph import Array, AttrValue, Graph, Node
from mavcg.graph.ops import make_node
from mavcg.graph.ops.eight_bit import limits
from mavcg.passes.graph.rewrite import Rewrite, fuse_with_makers

RESIDUAL = 5  # index of the input


def fuse_quantized_sums(graph: Graph) -> Graph:
    """Fuse each qadd into the qconv2d of one of its inputs, and each lookup that only changes the scale.

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
    stored and loaded again. A table is a change of scale if one f32 factor, found from it, gives all of its entries: in
    most networks that of an input of a concatenation, whose result has another format.

    Not fused: a result with another reader, that of a convolution with several groups (most are depthwise), and a sum
    that broadcasts.
    """  # noqa: E501
    return fuse_with_makers(graph, lambda new, node: _FUSIONS[node.op](new, node) if node.op in _FUSIONS else None)


def _plain_convolution(new: Rewrite, name: str) -> Node | None:
    """Return the convolution of one group that makes a tensor with a single reader, if nothing is fused into it yet."""
    maker = new.made.get(name)
    if maker is None or maker.op != "qconv2d" or maker.attr("groups") != 1 or not new.only_reader(name):
        return None
    return None if maker.inputs[RESIDUAL] or maker.attr("own_scale") else maker


def _fused_node(new: Rewrite, node: Node) -> Node | None:
    """Return the convolution that computes a qadd too, or None."""
    shape = new.types[node.output].shape
    for own, other in _both_orders(node):
        name, residual = (new.of(node.inputs["ab".index(side)]) for side in (own, other))
        maker = _plain_convolution(new, name)
        alike = new.types[name].shape == new.types[residual].shape == shape and residual not in new.constants
        if maker is None or not alike or node.attr(f"{own}_zero") != maker.attr("out_zero"):
            continue
        attrs = {"own_scale": node.attr(f"{own}_scale"), "residual_scale": node.attr(f"{other}_scale")}
        attrs |= {key: node.attr(key) for key in ("out_zero", "lo", "hi", "to")}
        attrs["residual_zero"] = node.attr(f"{other}_zero")
        return _with(maker, residual, attrs)
    return None


def _rescaled_node(new: Rewrite, node: Node) -> Node | None:
    """Return the convolution that gives its result in a lookup's scale, or None."""
    name, table = new.of(node.inputs[0]), new.array(new.of(node.inputs[1]))
    maker = _plain_convolution(new, name)
    if maker is None or table is None:
        return None
    first = limits(maker.attr("to"))[0]
    entries = table[maker.attr("lo") - first : maker.attr("hi") - first + 1].astype(np.int64)
    zero = int(table[maker.attr("out_zero") - first])
    own = np.arange(maker.attr("lo"), maker.attr("hi") + 1) - maker.attr("out_zero")
    scale = scale_of(own, entries, zero)
    if scale is None:
        return None
    attrs = {"out_zero": zero, "lo": int(entries.min()), "hi": int(entries.max())}
    return _with(maker, "", {"own_scale": scale, **attrs, "to": new.types[node.output].dtype})


def scale_of(own: Array, entries: Array, zero: int) -> float | None:
    """Return an f32 scale so that entries = clamp(round_half_even(own * scale) + zero, min, max); None without one.

    own, entries: whole numbers, [n]; min and max are those of the entries.
    """
    least, most = entries.min(), entries.max()
    inner = (own != 0) & (entries > least) & (entries < most)
    if not inner.any():
        return None
    ends = (entries[inner, None] - zero + np.array([-0.5, 0.5])) / own[inner, None]
    scale = np.float32((ends.min(axis=1).max() + ends.max(axis=1).min()) / 2)
    made = np.clip(np.rint(own.astype(np.float32) * scale).astype(np.float64) + zero, least, most)
    return float(scale) if np.array_equal(made, entries) else None


def _with(maker: Node, residual: str, attrs: Mapping[str, AttrValue]) -> Node:
    """Return a convolution that computes a node after it too. attrs: of the result, and what is done with its own."""
    window = {key: maker.attr(key) for key in ("stride", "dilation", "pads", "groups", "x_zero")}
    bounds = {f"own_{end}": maker.attr(end) - maker.attr("out_zero") for end in ("lo", "hi")}
    return make_node(
        "qconv2d", (*maker.inputs[:RESIDUAL], residual), maker.outputs, maker.origin, **window, **bounds, **attrs
    )


def _both_orders(node: Node) -> Iterator[tuple[str, str]]:
    if node.inputs[0] != node.inputs[1]:
        yield "a", "b"
        yield "b", "a"


_FUSIONS = {"qadd": _fused_node, "lookup": _rescaled_node}
