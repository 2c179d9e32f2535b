"""Direct convolutions with tiles of output channels by pixels in registers, and what they become for special layers:
1x1 (pixels counted through), the first layer of a network (few channels), depthwise (each channel by itself).
"""

from mavcg.kernels.primitives import depthwise_channels
from mavcg.kernels.primitives.depthwise_channels import DepthwisePrimitive
from mavcg.kernels.primitives.direct import DEEP, NATURAL, PLANAR
from mavcg.kernels.primitives.direct_conv import Along, Held
from mavcg.kernels.primitives.direct_primitive import DirectPrimitive, Special
from mavcg.kernels.primitives.terms import Order
from mavcg.primitive import Layout, Primitive

FAMILY = "direct_blocked"


def _blocked(
    layout_in: Layout, layout_out: Layout, variant: str, order: Order, along: Along, special: Special = Special.ANY
) -> Primitive:
    return DirectPrimitive(layout_in, layout_out, FAMILY, variant, order, along, Held.BOTH, special)


_CHANNELS = [_blocked(a, b, "channels", NATURAL[a], Along.CHANNELS) for a in Layout for b in Layout]
_COLUMNS = [_blocked(a, b, "columns", Order.CHANNELS, Along.COLUMNS) for a in PLANAR for b in (*PLANAR, Layout.HWC)]
# HCW's pixels are no constant step apart.
_ONE_BY_ONE = [
    _blocked(a, b, "1x1", NATURAL[a], Along.CHANNELS, Special.ONE_BY_ONE)
    for a in (Layout.CHW, *DEEP)
    for b in (Layout.CHW, *DEEP)
    if (a, b) != (Layout.CHW, Layout.CHW)
] + [_blocked(Layout.CHW, Layout.CHW, "1x1", Order.CHANNELS, Along.COLUMNS, Special.ONE_BY_ONE)]
_FIRST = [
    _blocked(a, b, "first", Order.TAPS, Along.CHANNELS, Special.FIRST_LAYER)
    for a in (Layout.CHW, Layout.HCW, Layout.HWC)
    for b in DEEP
] + [_blocked(a, a, "first", Order.TAPS, Along.COLUMNS, Special.FIRST_LAYER) for a in PLANAR]
_DEPTHWISE = [DepthwisePrimitive(a, b) for a in DEEP for b in DEEP]

PRIMITIVES: tuple[Primitive, ...] = (*_CHANNELS, *_COLUMNS, *_ONE_BY_ONE, *_FIRST, *_DEPTHWISE)
EMIT = depthwise_channels.EMIT  # direct has the other one
