"""Direct convolution primitives by plain loops: register tiles have a single scalar, a single vector, or one of each.

Variants: vectors along the columns or along the channels; sums over channels inside of taps, or taps inside of
channels; one channel's columns, one pixel's channels, or one vector of channels of some pixels in registers.
"""

from mavcg.kernels.primitives.direct import loops as direct_loops
from mavcg.kernels.primitives.direct.spec import TileExtent, VectorAxis
from mavcg.kernels.primitives.direct.stages import DirectPrimitive
from mavcg.kernels.primitives.direct.terms import TermOrder
from mavcg.specs.primitive import Layout, Primitive

PLANAR = tuple(layout for layout in Layout if layout.planar)
DEEP = (Layout.HWC, Layout.CHWC)
# The order of terms in which inputs of successive terms are near each other, by layout.
NATURAL = {
    Layout.CHW: TermOrder.CHANNELS,
    Layout.HCW: TermOrder.CHANNELS,
    Layout.HWC: TermOrder.TAPS,
    Layout.CHWC: TermOrder.BLOCKS,
}


def _columns(name: str, order: TermOrder) -> list[Primitive]:
    """Return the primitives that compute one output channel at a time, with vectors along the columns."""
    return [
        DirectPrimitive(a, b, "direct", name, order, VectorAxis.COLUMNS, TileExtent.ONE_SCALAR)
        for a in PLANAR
        for b in PLANAR
    ]


def _channels(name: str, tile_extent: TileExtent) -> list[Primitive]:
    """Return the primitives with vectors along the output channels."""
    return [
        DirectPrimitive(a, b, "direct", name, NATURAL[a], VectorAxis.CHANNELS, tile_extent)
        for a in Layout
        for b in DEEP
    ]


PRIMITIVES: tuple[Primitive, ...] = (
    *_columns("columns", TermOrder.CHANNELS),
    *_columns("columns_by_taps", TermOrder.TAPS),
    *_channels("pixel", TileExtent.ONE_SCALAR),
    *_channels("channels", TileExtent.ONE_VECTOR),
)
EMIT = direct_loops.EMIT
