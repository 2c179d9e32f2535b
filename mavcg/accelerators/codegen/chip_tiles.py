"""Tiles of feature maps in feature memory: their addresses, and the distribution of their rows over the banks."""

from dataclasses import dataclass

from mavcg.accelerators.codegen.regions import Region
from mavcg.accelerators.isa.datapath import Datapath, blocks
from mavcg.accelerators.simulator.timing import bank_conflict


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
