"""Ranges of rows or columns of each tensor that a tile of a group's results depends on (F^-1 and G^-1 of DNNVM)."""

from collections.abc import Mapping, Sequence

from mavcg.accelerators.xgraph import XNode, touched_range

Interval = tuple[int, int]  # (first, end), without end


def needed_range(node: XNode, axis: int, result_range: Interval, length: int) -> Interval:
    """Return the range of a node's input that a range of its result depends on; it is empty if that lies in the pads.

    axis: 0 for rows, 1 for columns. result_range: range of the result. length: rows or columns of the input.
    """
    low, high = touched_range(node, axis, *result_range, length)
    low, high = max(low, 0), min(high, length)
    return (low, high) if low < high else (0, 0)


def hull(a: Interval | None, b: Interval) -> Interval:
    """Return the smallest range that contains both; an empty range adds nothing."""
    if a is None or a[0] >= a[1]:
        return b
    return a if b[0] >= b[1] else (min(a[0], b[0]), max(a[1], b[1]))


def tile_ranges(length: int, size: int) -> list[Interval]:
    """Return the ranges of tiles of a size along a dimension; the last tile may be smaller."""
    return [(first, min(first + size, length)) for first in range(0, length, size)]


def needed_ranges(
    nodes: Sequence[XNode], results: Mapping[str, Interval], lengths: Mapping[str, int], axis: int
) -> dict[str, Interval]:
    """Return the range of every tensor, the group's inputs included, that one tile of the results depends on.

    nodes: nodes of the group, in order. results: ranges of the tensors that leave it. lengths: rows or columns of every
    tensor.
    """
    ranges: dict[str, Interval] = dict(results)
    for node in reversed(nodes):
        made = ranges.get(node.name)
        if made is None or made[0] >= made[1]:
            for name in (node.name, *node.inputs):
                ranges.setdefault(name, (0, 0))
            continue
        for name in node.inputs:
            ranges[name] = hull(ranges.get(name), needed_range(node, axis, made, lengths[name]))
    return ranges
