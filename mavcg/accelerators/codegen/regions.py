"""Rectangles of feature maps, and the rectangles of inputs that are needed to compute them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mavcg.accelerators.xgraph import XNode


@dataclass(frozen=True)
class Region:
    """Rows [top, bottom) and columns [left, right) of a feature map."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.bottom - self.top

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.right - self.left

    def contains(self, other: "Region") -> bool:
        """Return True if the other region is inside of this region."""
        return (
            self.top <= other.top
            and other.bottom <= self.bottom
            and self.left <= other.left
            and other.right <= self.right
        )

    def hull(self, other: "Region | None") -> "Region":
        """Return the smallest region that contains both."""
        if other is None:
            return self
        return Region(
            min(self.top, other.top),
            max(self.bottom, other.bottom),
            min(self.left, other.left),
            max(self.right, other.right),
        )


def needed_region(node: XNode, out: Region, source: XNode) -> Region:
    """Return the region of an input that a region of the node's result depends on; at least one pixel.

    source: the input; all inputs of a node have the same size.
    """
    top, bottom = _needed_interval(node, 0, out.top, out.bottom, source.shape[1])
    left, right = _needed_interval(node, 1, out.left, out.right, source.shape[2])
    return Region(top, bottom, left, right)


def _needed_interval(node: XNode, axis: int, first: int, end: int, length: int) -> tuple[int, int]:
    kernel, stride, dilation, pad = node.kernel[axis], node.stride[axis], node.dilation[axis], node.pads[axis]
    if node.kind in ("conv", "depthwise", "max_pool", "avg_pool"):
        low, high = first * stride - pad, (end - 1) * stride - pad + (kernel - 1) * dilation + 1
    elif node.kind == "deconv":
        low, high = -((-(first + pad - (kernel - 1) * dilation)) // stride), (end - 1 + pad) // stride + 1
    elif node.kind == "dense":
        low, high = 0, length
    elif node.kind == "upsample":
        low, high = first // node.factor[axis], (end - 1) // node.factor[axis] + 1
    elif node.kind == "reorganise":
        low, high = first * node.factor[axis], end * node.factor[axis]
    else:
        low, high = first, end
    low = min(max(low, 0), length - 1)  # a window that lies in the pads alone still names a pixel
    return low, max(low + 1, min(high, length))


def needed_regions(
    nodes: Sequence[XNode], written: Mapping[str, Region], by_name: Mapping[str, XNode]
) -> dict[str, Region]:
    """Return the regions of the group's tensors and of its inputs that the regions of the written tensors depend on.

    nodes: nodes of the group, in order. written: regions of the tensors that the group writes. A node that this tile
    does not need has no region.
    """
    regions: dict[str, Region] = dict(written)
    for node in reversed(nodes):
        if node.name not in regions:
            continue
        for name in node.inputs:
            regions[name] = needed_region(node, regions[node.name], by_name[name]).hull(regions.get(name))
    return regions


def parts_of(length: int, count: int) -> list[tuple[int, int]]:
    """Divide [0, length) into at most `count` ranges of nearly the same length, in order, none empty."""
    ends = [length * part // count for part in range(count + 1)]
    return [(first, end) for first, end in zip(ends[:-1], ends[1:], strict=True) if end > first]
