"""Bytes of a tiling: those that move between a memory and the tiles in front of it, and those that a tile takes in it.

Traffic is by equations 6.1 to 6.5 of e-PlaNNer, unchanged. As in the paper, without the halo that neighbouring tiles of
the input share; accelerators/plans/loop_order.py counts it. In the paper only the operand of the dataflow stays from
tile to tile. A cache may keep further operands, or not even that one; `stationary` then names the operands that stay.

There are two models of a tile's input: without halo, stride x rows, as in the paper's algorithm 2 and table 8.5; with
halo, all rows that the tile reads, as in figure 7.1. Neither includes padding, which is not stored.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mavcg.cost.layer import ConvLayer, Dataflow, Tile, Tiling, trips

Integers = NDArray[np.int64]
Axes = Mapping[str, Integers]


@dataclass(frozen=True)
class Traffic:
    """Off-chip bytes of a layer, read and written, by operand; output_bytes includes partial sums."""

    input_bytes: int
    weight_bytes: int
    output_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes of all operands (equation 6.1)."""
        return self.input_bytes + self.weight_bytes + self.output_bytes

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.input_bytes + other.input_bytes,
            self.weight_bytes + other.weight_bytes,
            self.output_bytes + other.output_bytes,
        )


def reload_input(layer: ConvLayer, tiling: Tiling, stationary: Collection[Dataflow] | None = None) -> int:
    """Return the number of times that the input is read: equation 6.2, or 1 if it stays on chip."""
    if _stays(Dataflow.INPUT, tiling, stationary):
        return 1
    n = trips(layer, tiling.tile)
    return n["KW"] * n["KH"] * n["OC"]


def reload_weight(layer: ConvLayer, tiling: Tiling, stationary: Collection[Dataflow] | None = None) -> int:
    """Return the number of times that the weights are read: equation 6.3, or 1 if they stay on chip."""
    if _stays(Dataflow.WEIGHT, tiling, stationary):
        return 1
    n = trips(layer, tiling.tile)
    return n["OW"] * n["OH"]


def reload_psum(layer: ConvLayer, tile: Tile) -> int:
    """Return the number of transfers of each partial sum, out and back in (equation 6.4)."""
    n = trips(layer, tile)
    return 2 * (n["KW"] * n["KH"] * n["IC"] - 1)


def reload_output(layer: ConvLayer, tiling: Tiling, stationary: Collection[Dataflow] | None = None) -> int:
    """Return the number of times that the output is moved: equation 6.5, or 1 if it stays on chip."""
    if _stays(Dataflow.OUTPUT, tiling, stationary):
        return 1
    return reload_psum(layer, tiling.tile) + 1


def traffic(layer: ConvLayer, tiling: Tiling, stationary: Collection[Dataflow] | None = None) -> Traffic:
    """Return the traffic of a layer by equation 6.1. Elements have the sizes of layer.items.

    stationary: operands that stay from one tile to the next; None: only the operand of the dataflow, as in the paper.
    """
    items = layer.items
    psums = reload_output(layer, tiling, stationary) - 1
    return Traffic(
        layer.input_elements * items.input * reload_input(layer, tiling, stationary),
        layer.weight_elements * items.weight * reload_weight(layer, tiling, stationary),
        layer.output_elements * (items.output + psums * items.psum),
    )


def _stays(operand: Dataflow, tiling: Tiling, stationary: Collection[Dataflow] | None) -> bool:
    return operand is tiling.dataflow if stationary is None else operand in stationary


def no_reload(layer: ConvLayer) -> Traffic:
    """Return the traffic if every operand is moved once: the "optimal" line of the paper's figure 8.2."""
    items = layer.items
    return Traffic(
        layer.input_elements * items.input,
        layer.weight_elements * items.weight,
        layer.output_elements * items.output,
    )


def tile_bytes(layer: ConvLayer, tile: Tile, halo: bool) -> tuple[int, int, int]:
    """Return the on-chip bytes of the input, weights and output of one tile of one group."""
    factors = {name: np.asarray(factor, np.int64) for name, factor in tile.factors.items()}
    input_bytes, weight_bytes, output_bytes = bytes_of(layer, factors, halo)
    return int(input_bytes), int(weight_bytes), int(output_bytes)


def bytes_of(layer: ConvLayer, factors: Axes, halo: bool) -> tuple[Integers, Integers, Integers]:
    """Return the bytes of `tile_bytes` for many tiles, whose factors are broadcast against each other.

    Output elements are as wide as a partial sum if that is wider.
    """
    rows = _span(factors["OH"], factors["KH"], layer.oh, layer.ih, layer.stride[0], layer.dilation[0], halo)
    columns = _span(factors["OW"], factors["KW"], layer.ow, layer.iw, layer.stride[1], layer.dilation[1], halo)
    return (
        layer.items.input * factors["IC"] * rows * columns,
        layer.items.weight * factors["OC"] * factors["IC"] * factors["KH"] * factors["KW"],
        max(layer.items.output, layer.items.psum) * factors["OC"] * factors["OH"] * factors["OW"],
    )


def _span(out: Integers, taps: Integers, outs: int, ins: int, stride: int, dilation: int, halo: bool) -> Integers:
    """Return the input rows (columns) for `out` of the `outs` output rows. ins: all input rows."""
    if halo:
        span: Integers = np.minimum((out - 1) * stride + (taps - 1) * dilation + 1, ins)
    else:
        span = np.where(out == outs, ins, np.minimum(out * stride, ins))
    return span
