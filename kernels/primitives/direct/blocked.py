"""Direct convolutions with register tiles of output channels by pixels, and their forms for special layers.

The special layers: 1x1 (rows of pixels of any length), the first layer of a network (few channels), depthwise (each
channel by itself).
"""

from mavcg.kernels.primitives.direct import depthwise_channels
from mavcg.kernels.primitives.direct.depthwise_channels import DepthwisePrimitive
from mavcg.kernels.primitives.direct.plain import DEEP, NATURAL, PLANAR
from mavcg.kernels.primitives.direct.spec import TileExtent, VectorAxis
from mavcg.kernels.primitives.direct.stages import DirectPrimitive, SpecialLayer
from mavcg.kernels.primitives.direct.terms import TermOrder
from mavcg.specs.primitive import Layout, Primitive

FAMILY = "direct_blocked"


def _blocked_primitive(
    layout_in: Layout,
    layout_out: Layout,
    variant: str,
    order: TermOrder,
    along: VectorAxis,
    special: SpecialLayer = SpecialLayer.ANY,
) -> Primitive:
    return DirectPrimitive(layout_in, layout_out, FAMILY, variant, order, along, TileExtent.BOTH, special)


_CHANNELS = [_blocked_primitive(a, b, "channels", NATURAL[a], VectorAxis.CHANNELS) for a in Layout for b in Layout]
_COLUMNS = [
    _blocked_primitive(a, b, "columns", TermOrder.CHANNELS, VectorAxis.COLUMNS)
    for a in PLANAR
    for b in (*PLANAR, Layout.HWC)
]
# Not HCW, whose pixels have no constant distance.
_ONE_BY_ONE = [
    _blocked_primitive(a, b, "1x1", NATURAL[a], VectorAxis.CHANNELS, SpecialLayer.ONE_BY_ONE)
    for a in (Layout.CHW, *DEEP)
    for b in (Layout.CHW, *DEEP)
    if (a, b) != (Layout.CHW, Layout.CHW)
] + [_blocked_primitive(Layout.CHW, Layout.CHW, "1x1", TermOrder.CHANNELS, VectorAxis.COLUMNS, SpecialLayer.ONE_BY_ONE)]
_FIRST = [
    _blocked_primitive(a, b, "first", TermOrder.TAPS, VectorAxis.CHANNELS, SpecialLayer.FIRST_LAYER)
    for a in (Layout.CHW, Layout.HCW, Layout.HWC)
    for b in DEEP
] + [_blocked_primitive(a, a, "first", TermOrder.TAPS, VectorAxis.COLUMNS, SpecialLayer.FIRST_LAYER) for a in PLANAR]
_DEPTHWISE = [DepthwisePrimitive(a, b) for a in DEEP for b in DEEP]

PRIMITIVES: tuple[Primitive, ...] = (*_CHANNELS, *_COLUMNS, *_ONE_BY_ONE, *_FIRST, *_DEPTHWISE)
EMIT = depthwise_channels.EMIT  # plain.py registers DirectConv's emitter
