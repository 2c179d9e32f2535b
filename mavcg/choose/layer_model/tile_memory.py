"""Bytes of on-chip memory that a tile takes.

There are two models of a tile's input: without halo, stride x rows, as in the paper's algorithm 2 and table 8.5; with
halo, all rows that the tile reads, as in figure 7.1. Neither includes padding, which is not stored.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mavcg.choose.layer_model.layer import ConvLayer
from mavcg.choose.layer_model.tiling import Tile

Integers = NDArray[np.int64]
Axes = Mapping[str, Integers]


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
