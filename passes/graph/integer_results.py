"""Fuses the conversion of integer sums to floats into the convolution or product that computes the sums."""

from collections.abc import Iterator
from dataclasses import replace

from mavcg.graph import Graph, Node
from mavcg.passes.graph.rewrite import Rewrite, fuse_with_makers

INTEGER = ("iconv2d", "imatmul")
BIAS, MULTIPLIER, SHIFT, RESIDUAL = 3, 4, 5, 6  # indices of inputs


def fuse_integer_results(graph: Graph) -> Graph:
    """Fuse bias, cast to f32, multiplier and shift into the integer convolution or product before them.

    Before:
        input %x: u8[1,2,2,1]
        input %z: u8[]
        input %s: f32[]
        const %w: i16[2,1,1,1] = {1, 2}
        const %b: i32[1,1,1,2] = {3, 4}
        const %shift: f32[2] = {0.5, 0.25}
        %c = iconv2d(%x, %w, %z)
        %i = add(%c, %b)
        %f = cast(%i) to="f32"
        %m = mul(%f, %s)
        %y = add(%m, %shift)
        return %y
    After:
        input %x: u8[1,2,2,1]
        input %z: u8[]
        input %s: f32[]
        const %w: i16[2,1,1,1] = {1, 2}
        const %shift: f32[2] = {0.5, 0.25}
        const %b.1: i32[2] = {3, 4}
        %y = iconv2d(%x, %w, %z, %b.1, %s, %shift)
        return %y

    Bias, multiplier and shift have one number per output channel; a multiplier may have one for all. The kernel does
    the same operations in the same order, so that no bit changes. A value with another reader is not fused.
    """
    return fuse_with_makers(graph, _fused_node)


def _fused_node(new: Rewrite, node: Node) -> Node | None:
    """Return the convolution or product that computes an add's or mul's result too, or None."""
    if node.op not in ("add", "mul"):
        return None
    for name, operand in _both_orders(new, node):
        if new.types[name].shape != new.types[node.output].shape:
            continue
        maker = _maker(new, name)
        if maker is not None and maker.op == "cast" and node.op == "mul":
            maker = _maker(new, maker.inputs[0])
            if maker is not None and not maker.inputs[MULTIPLIER]:
                return _with(new, maker, MULTIPLIER, operand)
        elif maker is not None and maker.op in INTEGER and node.op == "add":
            number = SHIFT if maker.inputs[MULTIPLIER] else BIAS
            later = (SHIFT, RESIDUAL) if number == SHIFT else (BIAS,)
            if not any(maker.inputs[n] for n in later) and not maker.attr("act"):
                fused = _with(new, maker, number, operand)
                if fused is not None:
                    return fused
    return None


def _both_orders(new: Rewrite, node: Node) -> Iterator[tuple[str, str]]:
    first, second = (new.of(name) for name in node.inputs)
    if first != second:
        yield first, second
        yield second, first


def _maker(new: Rewrite, name: str) -> Node | None:
    """Return the integer convolution or product, or the cast of its sums, that makes a tensor with a single reader."""
    maker = new.made.get(name)
    if maker is None or not new.only_reader(name):
        return None
    if maker.op == "cast":
        source = new.made.get(maker.inputs[0])
        return maker if maker.attr("to") == "f32" and source is not None and source.op in INTEGER else None
    return maker if maker.op in INTEGER else None


def _with(new: Rewrite, maker: Node, number: int, name: str) -> Node | None:
    """Return the node with tensor `name` as input `number`, or None if it does not have one number per channel.

    A multiplier may have one number for all channels.
    """
    kind, channels = new.types[name], new.types[maker.output].shape[-1]
    if kind.elements == 1 and number == MULTIPLIER:
        shape: tuple[int, ...] = ()
    elif kind.elements == channels and kind.shape and kind.shape[-1] == channels:
        shape = (channels,)
    else:
        return None
    if kind.shape != shape:
        array = new.array(name)
        name = (
            new.constant(array.reshape(shape), name)
            if array is not None
            else new.add("reshape", (name,), name, shape=shape)
        )
    return replace(maker, inputs=(*maker.inputs[:number], name, *maker.inputs[number + 1 :]))
