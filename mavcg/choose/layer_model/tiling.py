"""A tiling: the part of each loop that is computed on one filling of the memories, and the operand that then stays."""

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from mavcg.choose.layer_model.layer import ConvLayer


class Dataflow(StrEnum):
    """The operand that stays on chip while the innermost off-chip loop runs (paper, 5.3)."""

    INPUT = "input-stationary"
    WEIGHT = "weight-stationary"
    OUTPUT = "output-stationary"


@dataclass(frozen=True, order=True)
class Tile:
    """Iterations of each loop inside a tile, at most the loop's trip count (the paper's T)."""

    oc: int
    ic: int
    oh: int
    ow: int
    kh: int
    kw: int

    @property
    def factors(self) -> dict[str, int]:
        """Factors by dimension, with the names of accelerator.DIMENSIONS."""
        return {"OC": self.oc, "IC": self.ic, "OH": self.oh, "OW": self.ow, "KH": self.kh, "KW": self.kw}

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a whole tile (equation 6.8)."""
        return prod(self.factors.values())


@dataclass(frozen=True)
class Tiling:
    """A tile, and the dataflow that orders the tiles."""

    tile: Tile
    dataflow: Dataflow


def trips(layer: ConvLayer, tile: Tile) -> dict[str, int]:
    """Return the trip counts of a group's off-chip loops: ceil(loop / tile)."""
    factors = tile.factors
    return {name: -(-length // factors[name]) for name, length in layer.loops.items()}
