"""Regions of feature maps, what is needed to compute them, and tiles of them in feature memory.

A tile has its addresses, and its rows are distributed over the banks.

"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from mavcg.accelerators.groups import GroupTile
from mavcg.accelerators.isa.datapath import Datapath, blocks
from mavcg.accelerators.simulator.timing import bank_conflict
from mavcg.accelerators.xgraph import XNode, touched_range


@dataclass(frozen=True)
class Region:
    """Rows [top, bottom) and columns [left, right) of a feature map. image: index of the map's image in the batch."""

    top: int
    bottom: int
    left: int
    right: int
    image: int = 0

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.bottom - self.top

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.right - self.left

    def row_of_batch(self, height: int) -> int:
        """Return the first row in the batch's maps, one below the other. height: rows of a map."""
        return self.image * height + self.top

    def contains(self, other: "Region") -> bool:
        """Return True if the other region is inside of this region."""
        return (
            self.image == other.image
            and self.top <= other.top
            and other.bottom <= self.bottom
            and self.left <= other.left
            and other.right <= self.right
        )

    def hull(self, other: "Region | None") -> "Region":
        """Return the smallest region that contains both, which are of the same image."""
        if other is None:
            return self
        assert self.image == other.image
        return Region(
            min(self.top, other.top),
            max(self.bottom, other.bottom),
            min(self.left, other.left),
            max(self.right, other.right),
            self.image,
        )


def needed_region(node: XNode, out: Region, source: XNode) -> Region:
    """Return the region of an input that a region of the node's result depends on; at least one pixel.

    source: the input; all inputs of a node have the same size.
    """
    top, bottom = _needed_interval(node, 0, out.top, out.bottom, source.shape[1])
    left, right = _needed_interval(node, 1, out.left, out.right, source.shape[2])
    return Region(top, bottom, left, right, out.image)


def _needed_interval(node: XNode, axis: int, first: int, end: int, length: int) -> tuple[int, int]:
    low, high = touched_range(node, axis, first, end, length)
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


def group_passes(
    nodes: Sequence[XNode], stored: Collection[str], tile: GroupTile, by_name: Mapping[str, XNode]
) -> Iterator[tuple[dict[str, Region], dict[str, Region]]]:
    """Yield, for each tile of each image, the regions of all tensors and the regions of the written tensors.

    nodes: the group, in order; all have the same images. stored: names of the tensors that are written.
    """
    outer = [node for node in nodes if node.name in stored]
    height, width = max(n.shape[1] for n in outer), max(n.shape[2] for n in outer)
    rows, columns = (height, width) if tile.whole else (tile.rows, tile.columns)
    images = range(outer[0].shape[0])
    for image, top, left in product(images, range(0, height, rows), range(0, width, columns)):
        ends = (min(height, top + rows), min(width, left + columns))
        written = {}
        for node in outer:
            tops = [-(-node.shape[1] * at // height) for at in (top, ends[0])]
            lefts = [-(-node.shape[2] * at // width) for at in (left, ends[1])]
            if tops[0] < tops[1] and lefts[0] < lefts[1]:
                written[node.name] = Region(tops[0], tops[1], lefts[0], lefts[1], image)
        if written:
            yield needed_regions(nodes, written, by_name), written


def parts_of(length: int, count: int) -> list[tuple[int, int]]:
    """Divide [0, length) into at most `count` ranges of nearly the same length, in order, none empty."""
    ends = [length * part // count for part in range(count + 1)]
    return [(first, end) for first, end in zip(ends[:-1], ends[1:], strict=True) if end > first]


@dataclass(frozen=True)
class ChipTile:
    """Channels [first, first + channels) of a region of a feature map, in feature memory.

    address: first word. row, block: words from one row to the next, and from one block of channels to the next. first:
    a multiple of the channels in a word.
    """

    address: int
    row: int
    block: int
    region: Region
    first: int
    channels: int

    def operand(self, side: str, word: int, at: Region | None = None, channel: int | None = None) -> dict[str, int]:
        """Return the fields of an instruction's operand that starts at a pixel and a channel of the tile.

        side: prefix of the fields. word: bytes of a word. at: region whose first pixel is meant; None for the tile's.
        channel: None for the tile's first.
        """
        region, start = at or self.region, self.first if channel is None else channel
        offset = (region.top - self.region.top) * self.row + region.left - self.region.left
        offset += (start - self.first) // word * self.block
        return {side: self.address + offset, f"{side}_row": self.row, f"{side}_block": self.block}


@lru_cache(maxsize=4096)
def row_pitch(columns: int, strides: tuple[int, ...], path: Datapath) -> int:
    """Return the row pitch of a tile, in words, that puts rows which convolutions read together into different banks.

    It is the smallest pitch with the fewest conflicts. strides: row strides of the convolutions that read the tile.
    """

    def conflicts(pitch: int) -> int:
        return max(bank_conflict(path.row_lanes, stride * pitch % path.banks, path.banks) for stride in strides)

    candidates = range(columns, columns + path.banks)
    return min(candidates, key=lambda pitch: (conflicts(pitch), pitch)) if strides else columns


def tile_words(region: Region, channels: int, row: int, path: Datapath) -> tuple[int, int]:
    """Return the words of a tile, and the words from one block of channels to the next."""
    block = (region.rows - 1) * row + region.columns
    return block * blocks(channels, path.word), block
