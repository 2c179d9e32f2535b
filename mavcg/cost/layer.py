"""A layer as the planner sees it, and a tiling of it.

A layer is the six loops of a convolution and the sizes of its tensors. A tiling is the part of each loop that is
computed on one filling of the memories, and the operand that then stays.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod


@dataclass(frozen=True)
class ItemBytes:
    """Bytes per element of each operand. psum: of a partial sum that is written out before it is complete."""

    input: int = 4
    weight: int = 4
    output: int = 4
    psum: int = 4


@dataclass(frozen=True)
class ConvLayer:
    """A convolution; a fully connected layer is one with 1x1 maps and a 1x1 kernel (paper, 3.1).

    oc, ic: channels of one group. oh, ow: output rows and columns. kh, kw: of the kernel. ih, iw: of the input, without
    padding. stride, dilation: (down, across). pads: rows above, columns left, rows below, columns right. groups: each
    is a convolution by itself; the properties count all groups.
    """

    name: str
    oc: int
    ic: int
    oh: int
    ow: int
    kh: int
    kw: int
    ih: int
    iw: int
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    items: ItemBytes = ItemBytes()

    @property
    def key(self) -> "ConvLayer":
        """The layer without its name: equal for all layers that can share a schedule (paper, 4.2)."""
        return replace(self, name="")

    @property
    def macs(self) -> int:
        """Multiply-accumulates; those with padding are counted too, as in the paper."""
        return self.groups * self.oc * self.ic * self.oh * self.ow * self.kh * self.kw

    @property
    def input_elements(self) -> int:
        """Elements of the input tensor, without padding."""
        return self.groups * self.ic * self.ih * self.iw

    @property
    def weight_elements(self) -> int:
        """Elements of the weights, without bias."""
        return self.groups * self.oc * self.ic * self.kh * self.kw

    @property
    def output_elements(self) -> int:
        """Elements of the output tensor."""
        return self.groups * self.oc * self.oh * self.ow

    @property
    def loops(self) -> dict[str, int]:
        """Trip counts of the six loops of a group, by the names of accelerator.DIMENSIONS."""
        return {"OC": self.oc, "IC": self.ic, "OH": self.oh, "OW": self.ow, "KH": self.kh, "KW": self.kw}

    def input_rows(self, out_rows: int) -> int:
        """Return the number of padded input rows, halo included, that `out_rows` neighbouring output rows read."""
        return (out_rows - 1) * self.stride[0] + (self.kh - 1) * self.dilation[0] + 1


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
