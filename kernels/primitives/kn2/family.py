"""Primitives of the kn2 family: a K x K convolution as the sum of K x K products of one tap's weights with the image.

kn2row has vectors along pixels (CHW, HCW), kn2col along channels (HWC, CHWc). The accumulating form adds each tap's
product in place to its outputs and needs no workspace. The other form computes the K * K partial results of all pixels
in one product; a second stage adds them, each shifted by its tap. Stride 1 only.
Source: Vasudevan, Anderson and Gregg, "Parallel Multi Channel Convolution using General Matrix Multiplication" (2017).
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mavcg.kernels.primitives.common import (
    PANEL,
    Image,
    align_workspace,
    epilogue_operand_places,
    image_of,
    pack_panels,
    panels_shape,
)
from mavcg.kernels.primitives.kn2.shift import ShiftedSum, emit_shifted_sum
from mavcg.kernels.primitives.kn2.taps import TapProducts, emit_tap_products
from mavcg.kernels.primitives.matrix_product import STRIP_PIXELS, blocks_within_groups
from mavcg.specs.kernel import Array
from mavcg.specs.primitive import F32_BYTES, Epilogue, Layout, Lowering, Primitive, Scenario, Stage, StageOperand


def as_one_row(scenario: Scenario) -> Scenario:
    """Return the scenario with its pixels in rows of about STRIP_PIXELS.

    With a single tap and no border, the outputs do not depend on where rows end.
    """
    pixels = scenario.h * scenario.w
    widths = [n for n in range(PANEL, STRIP_PIXELS + 1) if pixels % n == 0]
    # The longest of the lengths that leave the fewest lanes of last vectors unused.
    best = max(widths, key=lambda n: (n / (-(-n // 8) * 8), n), default=scenario.w)
    width = pixels if pixels <= STRIP_PIXELS else best
    return replace(scenario, h=pixels // width, w=width)


@dataclass(frozen=True)
class Kn2(Primitive):
    """A convolution as a sum of products of single taps.

    accumulating: taps are added to the output one by one; else K * K partial results are summed by a second stage.
    """

    accumulating: bool

    @property
    def family(self) -> str:
        return "kn2"

    @property
    def stem(self) -> str:
        return f"{'kn2row' if self.layout_out.planar else 'kn2col'}_{'acc' if self.accumulating else 'full'}"

    def computes(self, scenario: Scenario) -> bool:
        """Return True for stride 1, except where CHWc blocks span two groups."""
        return scenario.strides == (1, 1) and blocks_within_groups(scenario, self.layout_in, self.layout_out)

    def _partial(self, s: Scenario) -> Image:
        """Return the image of the partial results: K * K * M channels for each pixel of the input."""
        return image_of(self.layout_out, s.taps * s.m, s.h, s.w, 1)

    def workspace_bytes(self, scenario: Scenario) -> int:
        return 0 if self.accumulating else align_workspace(self._partial(scenario).elements * F32_BYTES)

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        s = scenario
        even = Layout.HCW not in (self.layout_in, self.layout_out)
        s = as_one_row(s) if even and s.taps == 1 and s.pads == (0, 0) else s
        x = image_of(self.layout_in, s.c, s.h, s.w, block)
        out = image_of(self.layout_out, s.m, s.out_h, s.out_w, block)
        operands = (StageOperand("weights"), StageOperand("out"), *epilogue_operand_places(epilogue))
        if self.accumulating:
            spec = TapProducts(s, x, out, True, epilogue)
            stage = Stage(spec, (StageOperand("x"), *operands))
            return Lowering((stage,), partial(self._pack, spec, weights), self._packed_shape(spec))
        products, image = StageOperand("workspace"), self._partial(s)
        flat = as_one_row(s) if even else s
        x = replace(x, height=flat.h, width=flat.w)
        spec = TapProducts(s, x, replace(image, height=flat.h, width=flat.w), False, Epilogue())
        added = ShiftedSum(s, image, out, epilogue)
        return Lowering(
            (
                Stage(spec, (StageOperand("x"), StageOperand("weights"), products)),
                Stage(added, (products, *operands[1:])),
            ),
            partial(self._pack, spec, weights),
            self._packed_shape(spec),
            self.workspace_bytes(scenario),
        )

    def _packed_shape(self, spec: TapProducts) -> tuple[int, ...]:
        s = spec.scenario
        if self.layout_out.planar:
            return s.taps, s.m, spec.terms
        return s.taps, *panels_shape(s.m, spec.terms, s.groups, PANEL)

    def _pack(self, spec: TapProducts, weights: Array) -> Array:
        s = spec.scenario
        taps = np.asarray(weights, np.float32).transpose(2, 3, 0, 1).reshape(s.taps, s.m, -1)
        filled = np.zeros((s.taps, s.m, spec.terms), np.float32)
        filled[:, :, : taps.shape[2]] = taps
        if self.layout_out.planar:
            return filled
        return np.stack([pack_panels(tap, s.groups, PANEL) for tap in filled])


def _primitives() -> tuple[Primitive, ...]:
    chw, hcw, hwc, chwc = Layout.CHW, Layout.HCW, Layout.HWC, Layout.CHWC
    row = [(chw, chw), (hcw, hcw), (chw, hcw), (hcw, chw)]
    column = [(hwc, hwc), (chw, hwc), (hcw, hwc), (chwc, hwc)]
    blocked = [(chwc, chwc), (hwc, chwc)]
    return (
        *(Kn2(i, o, accumulating=True) for i, o in (*row, *column, *blocked)),
        *(Kn2(i, o, accumulating=False) for i, o in (row[0], row[1], column[0], column[1], column[3])),
    )


PRIMITIVES: tuple[Primitive, ...] = _primitives()
EMIT = {TapProducts: emit_tap_products, ShiftedSum: emit_shifted_sum}
