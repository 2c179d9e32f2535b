"""Direct convolutions by plain loops: a tile is one output of each kind, or one kind's outputs of a single vector.

Variants: vectors along the columns or along the channels; sums over channels inside of taps, or taps inside of
channels; one channel's columns, one pixel's channels, or one vector of channels of some pixels in registers.
"""

from mavcg.kernels.primitives import direct_loops
from mavcg.kernels.primitives.direct_conv import Along, Held
from mavcg.kernels.primitives.direct_primitive import DirectPrimitive
from mavcg.kernels.primitives.terms import Order
from mavcg.primitive import Layout, Primitive

PLANAR = tuple(layout for layout in Layout if layout.planar)
DEEP = (Layout.HWC, Layout.CHWC)
# In which the inputs of neighbouring terms are near each other.
NATURAL = {
    Layout.CHW: Order.CHANNELS,
    Layout.HCW: Order.CHANNELS,
    Layout.HWC: Order.TAPS,
    Layout.CHWC: Order.BLOCKS,
}


def _columns(name: str, order: Order) -> list[Primitive]:
    """One output channel, vectors along the columns."""
    return [
        DirectPrimitive(a, b, "direct", name, order, Along.COLUMNS, Held.ONE_SCALAR) for a in PLANAR for b in PLANAR
    ]


def _channels(name: str, held: Held) -> list[Primitive]:
    """Vectors along the output channels."""
    return [DirectPrimitive(a, b, "direct", name, NATURAL[a], Along.CHANNELS, held) for a in Layout for b in DEEP]


PRIMITIVES: tuple[Primitive, ...] = (
    *_columns("columns", Order.CHANNELS),
    *_columns("columns_by_taps", Order.TAPS),
    *_channels("pixel", Held.ONE_SCALAR),
    *_channels("channels", Held.ONE_VECTOR),
)
EMIT = direct_loops.EMIT
