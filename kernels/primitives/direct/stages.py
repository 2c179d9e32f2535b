"""Primitives of the direct families, and their lowering to stages."""

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
    def name(self) -> str:
        return f"{self.group}_{self.variant}_{self.layout_in.lower()}_{self.layout_out.lower()}"

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
