"""Pixels that a position of a window reads and writes, by position: instructions of VTA skip those in the pads."""

from mavcg.accelerators.xgraph import XNode


def input_pixel(node: XNode, out_row: int, out_column: int, row: int, column: int) -> tuple[int, int]:
    """Return the input's pixel at a position of the window of a result's pixel; it may lie in the pads."""
    if node.kind == "dense":
        return row, column
    return (
        out_row * node.stride[0] + row * node.dilation[0] - node.pads[0],
        out_column * node.stride[1] + column * node.dilation[1] - node.pads[1],
    )


def inside(node: XNode, axis: int, position: int, first: int, end: int, length: int) -> tuple[int, int]:
    """Return the rows or columns [first, end) of a result whose windows have a position inside of the input.

    first, end: limits of the result. length: rows or columns of the input.
    """
    if node.kind == "dense":
        return first, end
    stride, offset = node.stride[axis], position * node.dilation[axis] - node.pads[axis]
    return max(first, -(offset // stride)), min(end, (length - 1 - offset) // stride + 1)
