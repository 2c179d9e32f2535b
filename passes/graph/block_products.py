"""Merges products of one input with weights in blocks, so that its activations are quantised once."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from mavcg.graph import Array, Graph, Node
from mavcg.passes.graph.rewrite import Rewrite

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
    w, scales, zeros, _ = arrays
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
