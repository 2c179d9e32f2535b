"""Convert operators that only move data to coarse operations: concat, reshape, upsampling, space to depth."""

from dataclasses import replace

import numpy as np

from mavcg.accelerators.operators.xgraph_maker import XGraphMaker
from mavcg.accelerators.xgraph import XNode
from mavcg.errors import MavcgError
from mavcg.graph import Graph, Node


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
    """Add nearest-neighbour upsampling by an integer factor along height or width; two in a row become one."""
    x, axis = maker.image(node.inputs[0]), node.attr("axis")
    index, weight = maker.graph.constants.get(node.inputs[1]), maker.graph.constants.get(node.inputs[2])
    if x is None or axis not in (1, 2) or index is None or weight is None:
        return False
    shape, length = maker.graph.types[node.output].shape, maker.shapes[x][axis]
    factor = shape[axis] // length
    nearest = np.take_along_axis(index, weight.argmax(axis=1)[:, None], axis=1)[:, 0]
    single = bool(((weight == 1).sum(axis=1) == 1).all() and ((weight == 0) | (weight == 1)).all())
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


def find_space_to_depth(graph: Graph) -> dict[str, tuple[str, tuple[int, int], tuple[str, str]]]:
    """Find sequences of reshape, transpose, reshape that move blocks to channels.

    Returns: input, factor and tensors in between, by output.
    """
    producers, readers = graph.producers(), graph.readers()
    moves = dict[str, tuple[str, tuple[int, int], tuple[str, str]]]()
    for last in graph.nodes:
        middle = producers.get(last.inputs[0]) if last.op == "reshape" else None
        first = producers.get(middle.inputs[0]) if middle is not None and middle.op == "transpose" else None
        if middle is None or first is None or first.op != "reshape" or middle.attr("perm") != (0, 1, 3, 2, 4, 5):
            continue
        x, split, y = graph.shape(first.inputs[0]), graph.shape(first.output), graph.shape(last.output)
        inside = (first.output, middle.output)
        if len(x) != 4 or len(split) != 6 or any(len(readers.get(t, ())) != 1 or t in graph.outputs for t in inside):
            continue
        n, rows, block_h, columns, block_w, channels = split
        whole = (n, rows * block_h, columns * block_w, channels) == x
        if whole and y == (n, rows, columns, block_h * block_w * channels):
            moves[last.output] = (first.inputs[0], (block_h, block_w), inside)
    return moves


def add_reorganise(maker: XGraphMaker, node: Node, x: str, factor: tuple[int, int], inside: tuple[str, str]) -> None:
    """Add a move of blocks of `factor` pixels to channels. Raises: MavcgError if x is not a feature map."""
    source = maker.image(x)
    if source is None:
        raise MavcgError(f"{node.origin or node.output}: space to depth of a tensor that is not a feature map")
    shape = maker.graph.types[node.output].shape
    made = XNode(node.origin or node.output, "reorganise", (source,), shape, factor=factor, origin=node.origin)
    maker.add(made, node.output)
