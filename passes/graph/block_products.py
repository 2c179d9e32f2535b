"""Merge products of one input with weights in blocks; fold gates before them and residuals behind them into them."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from mavcg.graph import Array, Graph, Node
from mavcg.passes.graph.rewrite import Rewrite, use_counts

PANEL = 16  # widths are multiples of the channels of any core's panel, so that none is partly empty


def merge_block_products(graph: Graph) -> Graph:
    """Merge products of one quantised input with constant weights in blocks into one, whose result is cut into theirs.

    %a = block_matmul(%x, %w1, %s1)           %m = block_matmul(%x, [%w1; %w2], [%s1; %s2])
    %b = block_matmul(%x, %w2, %s2)     ->    %a = slice(%m), its first channels
                                              %b = slice(%m), the others

    These are a decoder's gate and its other factor, or projections to queries, keys and values. Each channel's sum is
    as before. Products with scales of other types stay apart, as a scale of two bytes would take four.
    """
    new, groups = Rewrite(graph), dict[Hashable, list[Node]]()
    for node in graph.nodes:
        key = _key(graph, node)
        if key is not None:
            groups.setdefault(key, []).append(node)
    members = {node.output: group for group in groups.values() if len(group) > 1 for node in group}
    parts: dict[str, _Channels] = {}
    for node in graph.nodes:
        part = parts.get(node.inputs[0]) if node.op == "reshape" else None
        if node.output in members:
            if node is members[node.output][0]:
                parts |= _merge(new, members[node.output])
        elif part is not None and graph.shape(node.output)[-1:] == (part.end - part.begin,):
            _reshape(new, part, node)
        else:
            new.keep(node)
    return new.finish()


@dataclass(frozen=True)
class _Channels:
    """Channels begin .. end - 1 of a merged product of so many."""

    product: str
    channels: int
    begin: int
    end: int


def _key(graph: Graph, node: Node) -> Hashable | None:
    """Return what products that are merged have in common; None for other nodes."""
    if node.op != "block_matmul" or not node.attr("quantize"):
        return None
    x, *parts = node.inputs
    arrays = [graph.constants.get(name) for name in parts]
    if any(name and array is None for name, array in zip(parts, arrays, strict=True)):
        return None
    w, scales, zeros, *_ = arrays
    assert w is not None and scales is not None
    # Zero points that are greater than any number keep a product out of tiles.
    large = zeros is not None and int(zeros.max(initial=0)) >> node.attr("bits")
    if len(w) % PANEL:
        return None
    return x, node.attr("bits"), node.attr("block"), _exact_in_half(scales), bool(large), tuple(map(bool, parts))


def _exact_in_half(scales: Array) -> bool:
    with np.errstate(over="ignore"):
        return bool((scales.astype(np.float16).astype(np.float32) == scales).all())


def _merge(new: Rewrite, group: list[Node]) -> dict[str, _Channels]:
    """Add the product of a group, and a slice of its result for each node; return the parts by the nodes' outputs."""
    first = group[0]
    constants = [
        new.constant(np.concatenate([new.constants[node.inputs[i]] for node in group]), name) if name else ""
        for i, name in enumerate(first.inputs)
        if i
    ]
    attrs = {name: first.attr(name) for name in ("bits", "block", "quantize")}
    made = new.add("block_matmul", [new.of(first.inputs[0]), *constants], first.output, first.origin, **attrs)
    parts, begin, channels = dict[str, _Channels](), 0, new.types[made].shape[-1]
    for node in group:
        part = _Channels(made, channels, begin, begin + new.types[node.output].shape[-1])
        _slice(new, made, part, node)
        parts[node.output], begin = part, part.end
    return parts


def _reshape(new: Rewrite, part: _Channels, node: Node) -> None:
    """Add a reshape of a part that leaves its channels as a slice of the whole product's, which needs no copy."""
    shape = (*new.types[node.output].shape[:-1], part.channels)
    _slice(new, new.add("reshape", [part.product], part.product, node.origin, shape=shape), part, node)


def _slice(new: Rewrite, product: str, part: _Channels, node: Node) -> None:
    """Add a part of a product as the result of an old node."""
    outer = new.types[product].shape[:-1]
    places = {
        "starts": (*[0] * len(outer), part.begin),
        "stops": (*outer, part.end),
        "steps": (1,) * (len(outer) + 1),
    }
    new.into(node.output, "slice", [product], node.origin, **places)


def fuse_gates(graph: Graph) -> Graph:
    """Compute a gated activation where a product quantises it.

    %s = silu(%g)
    %t = mul(%s, %x)                             ->    %y = block_matmul(%x, %w, %scales, _, _, %g)
    %y = block_matmul(%t, %w, %scales)

    This is the feed-forward part of a decoder. Between the last two there may be a reshape that keeps the lines, which
    then follows the product. Nothing else may read what is no longer computed. Lines of both factors have to be evenly
    spaced: these are of one or two dimensions, inputs of the graph, or results of products, whole or some channels of
    each line.
    """
    new, makers, uses = Rewrite(graph), {node.output: node for node in graph.nodes}, use_counts(graph)

    def only(name: str, op: str) -> Node | None:
        """Return the node that makes a tensor that has one reader, if it is of this operator."""
        maker = makers.get(name)
        return maker if maker is not None and maker.op == op and uses[name] == 1 else None

    for node in graph.nodes:
        factors = None
        if node.op == "block_matmul" and node.attr("quantize"):
            factors = _find_gate(graph, node, only)
        if factors is None or not all(_has_even_lines(graph, makers, uses, name) for name in factors):
            new.keep(node)
            continue
        gate, x = map(new.of, factors)
        attrs = {name: node.attr(name) for name in ("bits", "block", "quantize")}
        inputs = [x, *map(new.of, node.inputs[1:5]), gate, *map(new.of, node.inputs[6:])]
        shape = graph.shape(node.output)
        if graph.shape(factors[1]) == graph.shape(node.inputs[0]):
            new.into(node.output, "block_matmul", inputs, node.origin, **attrs)
        else:
            made = new.add("block_matmul", inputs, node.output, node.origin, **attrs)
            new.into(node.output, "reshape", [made], node.origin, shape=shape)
    return new.finish()


_PARTS = frozenset({"concat", "pad", "pad_with", "slice", "loop_stack"})  # readers in whose buffers a tensor may lie


def fuse_residuals(graph: Graph) -> Graph:
    """Add a residual where a product with weights in blocks stores its result.

    %p = block_matmul(%x, %w, %scales)
    %y = add(%p, %r)                       ->    %y = block_matmul(%x, %w, %scales, _, _, _, %r)

    Nothing else may read the product, behind which there may be reshapes that keep its lines. Lines of the residual
    and of the result have to be evenly spaced, so neither may lie in a larger tensor's buffer. If both are such
    products, the later one adds the other.
    """
    makers, uses = {node.output: node for node in graph.nodes}, use_counts(graph)
    readers = dict[str, list[Node]]()
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)

    def is_read_whole(name: str) -> bool:
        following = readers.get(name, [])
        reshaped = all(is_read_whole(node.output) for node in following if node.op == "reshape")
        return reshaped and not any(node.op in _PARTS for node in following)

    def is_whole(name: str) -> bool:
        """Return True if a tensor, which reshapes may give other shapes, has a buffer of its own."""
        while (maker := makers.get(name)) is not None and maker.op == "reshape":
            name = maker.inputs[0]
        made = maker is None or not (maker.op == "slice" or maker.op.startswith("loop"))
        return name not in graph.constants and made and is_read_whole(name)

    def product_of(name: str) -> Node | None:
        """Return the product that makes a tensor, or whose lines reshapes keep, if nothing else reads it."""
        channels = graph.shape(name)[-1:]
        while uses[name] == 1 and graph.shape(name)[-1:] == channels and (maker := makers.get(name)) is not None:
            if maker.op != "reshape":
                return maker if maker.op == "block_matmul" and not maker.inputs[6] else None
            name = maker.inputs[0]
        return None

    def find_residual(node: Node) -> tuple[int, Node, str] | None:
        """Return (place, product, residual) of an addition; None if there is none, or it is another node."""
        if node.op != "add" or not is_whole(node.output):
            return None
        choices = []
        for name, residual in (node.inputs, node.inputs[::-1]):
            product, same = product_of(name), graph.types[name] == graph.types[residual] == graph.types[node.output]
            if product is not None and same and is_whole(residual):
                choices.append((order[product.output], product, residual))
        return max(choices, key=lambda choice: choice[0], default=None)

    order = {node.output: place for place, node in enumerate(graph.nodes)}
    found = {node.output: choice for node in graph.nodes if (choice := find_residual(node)) is not None}
    new = Rewrite(graph)
    for node in graph.nodes:
        if node.output in found:
            _, product, residual = found[node.output]
            _add_residual(new, product, residual, node)
        else:
            new.keep(node)
    return new.finish()


def _add_residual(new: Rewrite, product: Node, residual: str, node: Node) -> None:
    """Add a product with a residual in place of an addition of both, whose shape may be another one."""
    shape, of_sum = new.types[product.output].shape, new.types[node.output].shape
    added = new.of(residual)
    if shape != of_sum:
        added = new.add("reshape", [added], residual, node.origin, shape=shape)
    inputs = [*map(new.of, product.inputs[:6]), added]
    attrs = {name: product.attr(name) for name in ("bits", "block", "quantize")}
    if shape == of_sum:
        new.into(node.output, "block_matmul", inputs, product.origin, **attrs)
    else:
        made = new.add("block_matmul", inputs, product.output, product.origin, **attrs)
        new.into(node.output, "reshape", [made], node.origin, shape=of_sum)


def _has_even_lines(graph: Graph, makers: Mapping[str, Node], uses: Mapping[str, int], name: str) -> bool:
    """Return True if lines of a tensor, along its last axis, are evenly spaced wherever memory is planned for it."""
    if name in graph.constants:
        return False
    if len(graph.shape(name)) <= 2 or name in graph.inputs:
        return True
    maker = makers[name]
    if maker.op == "slice":
        whole = graph.shape(maker.inputs[0])
        ranges = zip(maker.attr("starts"), maker.attr("stops"), maker.attr("steps"), whole, strict=True)
        if any((start, stop, step) != (0, length, 1) for start, stop, step, length in [*ranges][:-1]):
            return False
        maker = makers.get(maker.inputs[0], maker)
    return uses[name] == 1 and maker.op in ("block_matmul", "reshape")


def _find_gate(graph: Graph, node: Node, only: Callable[[str, str], Node | None]) -> tuple[str, str] | None:
    """Return (gate, other factor) of a product's activations; None if they are none, or have other readers."""
    name = node.inputs[0]
    reshape = only(name, "reshape")
    if reshape is not None and graph.shape(reshape.inputs[0])[-1:] == graph.shape(name)[-1:]:
        name = reshape.inputs[0]
    product = only(name, "mul")
    if product is None or node.inputs[5]:
        return None
    for silu, x in (product.inputs, product.inputs[::-1]):
        activation = only(silu, "silu")
        if activation is not None and graph.types[silu] == graph.types[x] == graph.types[name]:
            return activation.inputs[0], x
    return None
