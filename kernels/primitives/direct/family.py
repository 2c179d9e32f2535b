"""Primitives of the direct families, and their lowering to stages.

Plain loops have register tiles of a single scalar, a single vector, or one of each: vectors along the columns or along
the channels; sums over channels inside of taps, or taps inside of channels; one channel's columns, one pixel's
channels, or one vector of channels of some pixels in registers. Blocked ones have register tiles of output channels by
pixels, with forms for special layers: 1x1 (rows of pixels of any length), the first layer of a network (few channels),
depthwise (each channel by itself).
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from mavcg.kernels.primitives.border import BorderedInput, input_with_border
from mavcg.kernels.primitives.common import (
    MOST_BLOCK,
    WORKSPACE_ALIGN,
    Image,
    epilogue_operand_places,
    image_of,
    pack_panels,
    panels_shape,
)
from mavcg.kernels.primitives.direct.depthwise_channels import DepthwiseChannels, DepthwisePrimitive, emit_depthwise
from mavcg.kernels.primitives.direct.loops import emit_direct
from mavcg.kernels.primitives.direct.spec import DirectConv, TileExtent, VectorAxis
from mavcg.kernels.primitives.direct.terms import TermOrder, ordered_weights
from mavcg.specs.kernel import Array
from mavcg.specs.primitive import (
    F32_BYTES,
    AxisWindow,
    Epilogue,
    Layout,
    Lowering,
    Primitive,
    Scenario,
    Stage,
    StageOperand,
)

COLUMN_PANEL = 8  # channels of a panel of weights that are multiplied with vectors of columns
MANY_WEIGHTS_BYTES = 1 << 18  # size of weights from which on a level-2 cache does not keep them from row to row
FEW_ROWS = 4  # with fewer rows of outputs, rows of work are parts of the channels
CHUNK_PANELS = 2  # panels of such a part
FEW_CHANNELS = 4  # maximum channels of a camera's image, or of a group whose channels do not fill a vector
# Maximum pixels of a row of a 1x1 convolution, whose rows may have any length that divides the pixels.
PIECE_LEAST, PIECE_MOST = 16, {VectorAxis.CHANNELS: 64, VectorAxis.COLUMNS: 256}
PIECE_LANES = 8  # lanes of an AVX2 register or two NEON registers; row lengths that are multiples are preferred


class SpecialLayer(StrEnum):
    """The layers that a primitive is specialised for."""

    ANY = "any"
    ONE_BY_ONE = "1x1"
    FIRST_LAYER = "first"


@dataclass(frozen=True)
class DirectPrimitive(Primitive):
    """A direct convolution; group: direct or direct_blocked; variant: the middle of the name."""

    group: str
    variant: str
    order: TermOrder
    along: VectorAxis
    tile_extent: TileExtent
    special: SpecialLayer = SpecialLayer.ANY

    @property
    def family(self) -> str:
        return self.group

    @property
    def stem(self) -> str:
        return f"{self.group}_{self.variant}"

    def computes(self, scenario: Scenario) -> bool:
        s, grouped = scenario, scenario.groups > 1
        if self.special is SpecialLayer.ONE_BY_ONE and s.windows != (AxisWindow(1), AxisWindow(1)):
            return False
        if self.special is SpecialLayer.FIRST_LAYER and (grouped or s.c > FEW_CHANNELS):
            return False
        if grouped and self.layout_in is Layout.CHWC and s.c // s.groups % MOST_BLOCK:
            return False
        if grouped and self.layout_out is Layout.CHWC and s.m // s.groups % MOST_BLOCK:
            return False
        return not (grouped and self.along is VectorAxis.CHANNELS and s.m // s.groups < FEW_CHANNELS)

    def workspace_bytes(self, scenario: Scenario) -> int:
        return self._workspace(self._input(scenario.image, MOST_BLOCK))

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        s, x = scenario, self._input(scenario, block)
        image, out = x.image, image_of(self.layout_out, s.m, s.out_h, s.out_w, block)
        if self.special is SpecialLayer.ONE_BY_ONE:
            image, out = self._flat(image), self._flat(out)
        panel = COLUMN_PANEL if self.along is VectorAxis.COLUMNS else block
        per_group, terms = s.m // s.groups, s.c // s.groups * s.taps
        heavy = s.m * terms * F32_BYTES > MANY_WEIGHTS_BYTES or out.height < FEW_ROWS
        chunk = min(per_group, CHUNK_PANELS * panel) if heavy else per_group
        spec = DirectConv(
            image,
            out,
            s.k,
            s.stride,
            s.dilation,
            s.groups,
            epilogue,
            self.order,
            self.along,
            self.tile_extent,
            panel,
            chunk,
            not heavy,
            x.operand.base == "workspace",
            self.special is SpecialLayer.FIRST_LAYER,
            s.across_bordered,
        )
        operands = (x.operand, StageOperand("weights"), StageOperand("out"), *epilogue_operand_places(epilogue))

        def pack_weights() -> Array:
            return pack_panels(ordered_weights(weights, self.order, image.block), s.groups, panel)

        shape = panels_shape(s.m, terms, s.groups, panel)
        return Lowering((*x.stages, Stage(spec, operands)), pack_weights, shape, self._workspace(x))

    def _input(self, scenario: Scenario, block: int) -> BorderedInput:
        phases = scenario.along.stride if self.along is VectorAxis.COLUMNS else 1
        return input_with_border(scenario, self.layout_in, block, phases)

    def _workspace(self, x: BorderedInput) -> int:
        """Return the workspace in bytes: the copy of the input, and the bytes that vectors read past its end."""
        return x.workspace_bytes + WORKSPACE_ALIGN if x.workspace_bytes else 0

    def _flat(self, image: Image) -> Image:
        """Return the image with its pixels in rows of a length that suits the tiles.

        The image is returned unchanged if no suitable length divides its pixels.
        """
        pixels, most = image.height * image.width, PIECE_MOST[self.along]
        lengths = [n for n in range(PIECE_LEAST, most + 1) if pixels % n == 0]
        if self.along is VectorAxis.COLUMNS:
            lengths.sort(key=lambda n: (-(-n // PIECE_LANES) * PIECE_LANES / n, -n), reverse=True)
        if not lengths and pixels > most:
            return image
        width = lengths[-1] if lengths else pixels
        return replace(image, height=pixels // width, width=width)


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


PLAIN_PRIMITIVES: tuple[Primitive, ...] = (
    *_columns("columns", TermOrder.CHANNELS),
    *_columns("columns_by_taps", TermOrder.TAPS),
    *_channels("pixel", TileExtent.ONE_SCALAR),
    *_channels("channels", TileExtent.ONE_VECTOR),
)


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

PRIMITIVES: tuple[Primitive, ...] = (
    *PLAIN_PRIMITIVES,
    *_CHANNELS,
    *_COLUMNS,
    *_ONE_BY_ONE,
    *_FIRST,
    *_DEPTHWISE,
)
EMIT = {DirectConv: emit_direct, DepthwiseChannels: emit_depthwise}
