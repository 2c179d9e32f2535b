"""What a primitive of the direct families is made of, and how a scenario becomes its stages."""

from dataclasses import dataclass, replace
from enum import StrEnum

from mavcg.kernel import Array
from mavcg.kernels.primitives.border import Input, bordered
from mavcg.kernels.primitives.common import MOST_BLOCK, WORKSPACE_ALIGN, Image, epilogue_places, image_of, pack_panels
from mavcg.kernels.primitives.direct_conv import Along, DirectConv, Held
from mavcg.kernels.primitives.terms import Order, ordered_weights
from mavcg.primitive import F32_BYTES, Epilogue, Layout, Lowering, Place, Primitive, Scenario, Stage

COLUMN_PANEL = 8  # channels of a panel of weights that are multiplied with vectors of columns
MANY_WEIGHTS_BYTES = 1 << 18  # no longer kept in a level-2 cache between two rows
FEW_ROWS = 4  # of outputs: where there are fewer, rows of work are parts of the channels
CHUNK_PANELS = 2  # of such a part
FEW_CHANNELS = 4  # of an image that comes from a camera, or of a group whose channels leave vectors empty
# Pixels of a row of a 1x1 convolution, whose pixels may be counted through.
PIECE_LEAST, PIECE_MOST = 16, {Along.CHANNELS: 64, Along.COLUMNS: 256}
PIECE_LANES = 8  # of AVX2 and of two NEON registers: pieces that fill these are preferred


class Special(StrEnum):
    """What a primitive is made for alone."""

    ANY = "any"
    ONE_BY_ONE = "1x1"
    FIRST_LAYER = "first"


@dataclass(frozen=True)
class DirectPrimitive(Primitive):
    """A direct convolution: group is direct or direct_blocked, variant the middle of the name."""

    group: str
    variant: str
    order: Order
    along: Along
    held: Held
    special: Special = Special.ANY

    @property
    def family(self) -> str:
        return self.group

    @property
    def name(self) -> str:
        return f"{self.group}_{self.variant}_{self.layout_in.lower()}_{self.layout_out.lower()}"

    def applies(self, scenario: Scenario) -> bool:
        s, grouped = scenario, scenario.groups > 1
        if self.special is Special.ONE_BY_ONE and (s.k, s.stride, s.pad) != (1, 1, 0):
            return False
        if self.special is Special.FIRST_LAYER and (grouped or s.c > FEW_CHANNELS):
            return False
        if grouped and self.layout_in is Layout.CHWC and s.c // s.groups % MOST_BLOCK:
            return False
        if grouped and self.layout_out is Layout.CHWC and s.m // s.groups % MOST_BLOCK:
            return False
        return not (grouped and self.along is Along.CHANNELS and s.m // s.groups < FEW_CHANNELS)

    def workspace_bytes(self, scenario: Scenario) -> int:
        return self._workspace(self._input(scenario, MOST_BLOCK))

    def lower(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        s, x = scenario, self._input(scenario, block)
        image, out = x.image, image_of(self.layout_out, s.m, s.out_h, s.out_w, block)
        if self.special is Special.ONE_BY_ONE:
            image, out = self._flat(image), self._flat(out)
        panel = COLUMN_PANEL if self.along is Along.COLUMNS else block
        per_group, terms = s.m // s.groups, s.c // s.groups * s.k * s.k
        heavy = s.m * terms * F32_BYTES > MANY_WEIGHTS_BYTES or out.height < FEW_ROWS
        chunk = min(per_group, CHUNK_PANELS * panel) if heavy else per_group
        spec = DirectConv(
            image, out, s.k, s.stride, s.dilation, s.groups, epilogue, self.order, self.along, self.held, panel, chunk,
            not heavy, x.place.base == "workspace", self.special is Special.FIRST_LAYER,
        )  # fmt: skip
        operands = (x.place, Place("weights"), Place("out"), *epilogue_places(epilogue))
        packed = pack_panels(ordered_weights(weights, self.order, image.block), s.groups, panel)
        return Lowering((*x.stages, Stage(spec, operands)), packed, self._workspace(x))

    def _input(self, scenario: Scenario, block: int) -> Input:
        phases = scenario.stride if self.along is Along.COLUMNS else 1
        return bordered(scenario, self.layout_in, block, phases)

    def _workspace(self, x: Input) -> int:
        """With what vectors read past the copy's end."""
        return x.workspace_bytes + WORKSPACE_ALIGN if x.workspace_bytes else 0

    def _flat(self, image: Image) -> Image:
        """The same pixels as rows of a length that divides them and suits the tiles; as they were where none does."""
        pixels, most = image.height * image.width, PIECE_MOST[self.along]
        lengths = [n for n in range(PIECE_LEAST, most + 1) if pixels % n == 0]
        if self.along is Along.COLUMNS:
            lengths.sort(key=lambda n: (-(-n // PIECE_LANES) * PIECE_LANES / n, -n), reverse=True)
        if not lengths and pixels > most:
            return image
        width = lengths[-1] if lengths else pixels
        return replace(image, height=pixels // width, width=width)
