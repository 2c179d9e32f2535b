"""Tiles of feature maps in feature memory: where they lie and how their rows are spread over the banks."""

from dataclasses import dataclass

from mavcg.accel.codegen.regions import Region
from mavcg.accel.isa.datapath import Datapath, blocks
from mavcg.accel.simulator.timing import bank_conflict


@dataclass(frozen=True)
class ChipTile:
    """Channels [first, first + channels) of a region of a map, in feature memory.

    address: of the first word. row, block: words from a row to the next and from a block of channels to the next.
    first: a multiple of a word's channels.
    """

    address: int
    row: int
    block: int
    region: Region
    first: int
    channels: int

    def operand(self, side: str, word: int, at: Region | None = None, channel: int | None = None) -> dict[str, int]:
        """Return the fields of an instruction's operand: of the tile from the region's first pixel and a channel on."""
        region, start = at or self.region, self.first if channel is None else channel
        offset = (region.top - self.region.top) * self.row + region.left - self.region.left
        offset += (start - self.first) // word * self.block
        return {side: self.address + offset, f"{side}_row": self.row, f"{side}_block": self.block}


def row_pitch(columns: int, strides: tuple[int, ...], path: Datapath) -> int:
    """Return words from a row to the next, so that rows which convolutions read together lie in different banks.

    strides: of rows, of the convolutions that read the tile. The least pitch with the fewest conflicts is taken.
    """

    def conflicts(pitch: int) -> int:
        return max(bank_conflict(path.row_lanes, stride * pitch % path.banks, path.banks) for stride in strides)

    candidates = range(columns, columns + path.banks)
    return min(candidates, key=lambda pitch: (conflicts(pitch), pitch)) if strides else columns


def tile_words(region: Region, channels: int, row: int, path: Datapath) -> tuple[int, int]:
    """Return words of a tile, and words from a block of channels to the next."""
    block = (region.rows - 1) * row + region.columns
    return block * blocks(channels, path.word), block
