"""Convert operators that only move data to coarse operations: concat, reshape, upsampling, space to depth."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mavcg.accelerators.operators.xgraph_maker import XGraphMaker
from mavcg.accelerators.xgraph import XNode
from mavcg.errors import MavcgError
from mavcg.graph import Array, Graph, Node


def add_concat(maker: XGraphMaker, node: Node) -> bool:
    """Add a concat along channels; return False for another axis, and for inputs that are not feature maps."""
    parts = [maker.image(name) for name in node.inputs]
    if node.attr("axis") != 3 or any(part is None for part in parts):
        return False
    names = tuple(part for part in parts if part is not None)
    concat = XNode(
        node.origin or node.output, "concat", names, maker.graph.types[node.output].shape, origin=node.origin
    )
    maker.add(concat, node.output)
    return True


def add_reshape(maker: XGraphMaker, node: Node) -> bool:
    """Add nothing for a reshape: its result is the tensor that it reads (DNNVM, section III-A: flatten is pruned)."""
    if node.inputs[0] not in maker.now:
        return False
    maker.now[node.output] = maker.now[node.inputs[0]]
    return True


def add_upsample(maker: XGraphMaker, node: Node) -> bool:
    """Add upsampling along height or width: nearest by an integer factor, or linear by 2; nearest ones join."""
    x, axis = maker.image(node.inputs[0]), node.attr("axis")
    index, weight = maker.graph.constants.get(node.inputs[1]), maker.graph.constants.get(node.inputs[2])
    if x is None or axis not in (1, 2) or index is None or weight is None:
        return False
    shape, length = maker.graph.types[node.output].shape, maker.shapes[x][axis]
    factor = shape[axis] // length
    nearest = np.take_along_axis(index, weight.argmax(axis=1)[:, None], axis=1)[:, 0]
    single = bool(((weight == 1).sum(axis=1) == 1).all() and ((weight == 0) | (weight == 1)).all())
    if not single and _is_linear(length, index, weight):
        return _add_linear(maker, node, x, axis)
    if not single or shape[axis] != factor * length or (nearest != np.arange(shape[axis]) // factor).any():
        return False
    before = next(n for n in maker.nodes if n.name == x)
    factors = (factor, 1) if axis == 1 else (1, factor)
    readers = [n for n in maker.graph.nodes if node.inputs[0] in n.inputs]
    if before.kind == "upsample" and len(readers) == 1 and node.inputs[0] not in maker.graph.outputs:
        both = (before.factor[0] * factors[0], before.factor[1] * factors[1])
        maker.nodes[maker.nodes.index(before)] = replace(before, factor=both, shape=shape)
        maker.shapes[x] = shape
        maker.now[node.output] = x
        return True
    made = XNode(node.origin or node.output, "upsample", (x,), shape, factor=factors, origin=node.origin)
    maker.add(made, node.output)
    return True


def _is_linear(length: int, index: Array, weight: Array) -> bool:
    """Return True for linear upsampling by 2 whose samples are pixels' centres, as of length elements."""
    given = np.zeros((len(index), length))
    np.add.at(given, (np.arange(len(index))[:, None], index), weight)
    twice = np.repeat(np.eye(length), 2, axis=0)
    widened = np.concatenate([twice[:1], (twice[:-1] + twice[1:]) / 2, twice[-1:]])
    return len(index) == 2 * length and bool(np.allclose(given, (widened[:-1] + widened[1:]) / 2, atol=1e-6))


def _add_linear(maker: XGraphMaker, node: Node, x: str, axis: int) -> bool:
    """Add linear upsampling by 2: each element twice, then averages of two neighbours, twice.

    The first averages include one neighbour of each end, whose pad does not count: 1/4 and 3/4 of two elements, and the
    ends themselves.
    """
    stem, shape = node.origin or node.output, maker.graph.types[node.output].shape
    row = int(axis == 1)
    pair = (1 + row, 2 - row)
    twice = XNode(f"{stem}.twice", "upsample", (x,), shape, factor=pair, origin=node.origin)
    wider = (shape[0], shape[1] + row, shape[2] + 1 - row, shape[3])
    pads = (row, 1 - row, row, 1 - row)
    first = XNode(f"{stem}.wide", "avg_pool", (maker.add(twice, ""),), wider, pair, pads=pads, origin=node.origin)
    second = XNode(stem, "avg_pool", (maker.add(first, ""),), shape, pair, origin=node.origin)
    maker.add(second, node.output)
    return True


def find_shuffles(graph: Graph) -> dict[str, tuple[str, int]]:
    """Find channel shuffles: reshape, transpose, reshape that exchange groups and channels of a group.

    Returns: input and number of groups, by output.
    """
    shuffles = dict[str, tuple[str, int]]()
    for first, _, last in _reshaped_transposes(graph, (0, 1, 2, 4, 3)):
        x, split, y = graph.shape(first.inputs[0]), graph.shape(first.output), graph.shape(last.output)
        if len(x) == 4 and x == y and split[:3] == x[:3]:
            shuffles[last.output] = (first.inputs[0], split[3])
    return shuffles


def _reshaped_transposes(graph: Graph, perm: tuple[int, ...]) -> Iterator[tuple[Node, Node, Node]]:
    """Yield sequences of reshape, transpose, reshape whose tensors in between nothing else reads."""
    producers, readers = graph.producers(), graph.readers()
    for last in graph.nodes:
        middle = producers.get(last.inputs[0]) if last.op == "reshape" else None
        first = producers.get(middle.inputs[0]) if middle is not None and middle.op == "transpose" else None
        if middle is None or first is None or first.op != "reshape" or middle.attr("perm") != perm:
            continue
        inside = (first.output, middle.output)
        if all(len(readers.get(t, ())) == 1 and t not in graph.outputs for t in inside):
            yield first, middle, last


def find_space_to_depth(graph: Graph) -> dict[str, tuple[str, tuple[int, int], tuple[str, str]]]:
    """Find sequences of reshape, transpose, reshape that move blocks to channels.

    Returns: input, factor and tensors in between, by output.
    """
    moves = dict[str, tuple[str, tuple[int, int], tuple[str, str]]]()
    for first, middle, last in _reshaped_transposes(graph, (0, 1, 3, 2, 4, 5)):
        x, split, y = graph.shape(first.inputs[0]), graph.shape(first.output), graph.shape(last.output)
        if len(x) != 4:
            continue
        n, rows, block_h, columns, block_w, channels = split
        whole = (n, rows * block_h, columns * block_w, channels) == x
        if whole and y == (n, rows, columns, block_h * block_w * channels):
            moves[last.output] = (first.inputs[0], (block_h, block_w), (first.output, middle.output))
    return moves


def add_reorganise(maker: XGraphMaker, node: Node, x: str, factor: tuple[int, int], inside: tuple[str, str]) -> None:
    """Add a move of blocks of `factor` pixels to channels. Raises: MavcgError if x is not a feature map."""
    source = maker.image(x)
    if source is None:
        raise MavcgError(f"{node.origin or node.output}: space to depth of a tensor that is not a feature map")
    shape = maker.graph.types[node.output].shape
    made = XNode(node.origin or node.output, "reorganise", (source,), shape, factor=factor, origin=node.origin)
    maker.add(made, node.output)
