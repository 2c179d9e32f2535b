"""Primitives of the im2 family: the patches of the image as a matrix, then one matrix product.

im2col after Chellapilla, Puri and Simard, "High Performance Convolutional Neural Networks for Document Processing"
(2006); im2col, im2row and transposed operands as in Anderson and Gregg (CGO 2018). Where output pixels are contiguous
(CHW, HCW) vectors run along pixels and weights are scalars; where output channels are contiguous (HWC, CHWc) vectors
run along channels and inputs are scalars. With strips, a thread builds the matrix of a few pixels and multiplies it.
"""

from dataclasses import dataclass

import numpy as np

from mavcg.kernels.primitives.common import (
    PANEL,
    align_workspace,
    epilogue_operand_places,
    image_of,
    pack_panels,
    panels_shape,
)
from mavcg.kernels.primitives.im2.patch_copy import PatchMatrix, emit_patch_matrix
from mavcg.kernels.primitives.im2.patches import Patches
from mavcg.kernels.primitives.im2.stages import PatchProduct, emit_patch_product
from mavcg.kernels.primitives.matrix_product import blocks_within_groups
from mavcg.specs.kernel import Array
from mavcg.specs.primitive import Epilogue, Layout, Lowering, Primitive, Scenario, Stage, StageOperand


@dataclass(frozen=True)
class Im2(Primitive):
    """A convolution by im2col or im2row.

    columns: im2col, else im2row. transposed: the scalar operand is transposed, that is the weights if vectors run along
    pixels, else the patches. strips: patches are copied for a few pixels at a time.
    """

    columns: bool
    transposed: bool = False
    strips: bool = False

    @property
    def family(self) -> str:
        return "im2"

    @property
    def stem(self) -> str:
        parts = ["im2col" if self.columns else "im2row", "t" * self.transposed, "strips" * self.strips]
        return "_".join(filter(None, parts))

    def computes(self, scenario: Scenario) -> bool:
        """Return True for every scenario, except where CHWc blocks span two groups."""
        return blocks_within_groups(scenario, self.layout_in, self.layout_out)

    def _patches(self, scenario: Scenario, block: int) -> Patches:
        block = block if self.layout_in is Layout.CHWC else 1
        return Patches(scenario, self.layout_in, block, self.columns, scenario.out_h * scenario.out_w)

    def workspace_bytes(self, scenario: Scenario) -> int:
        return 0 if self.strips else align_workspace(self._patches(scenario, 1).matrix_bytes)

    def lower_image(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        s, patches = scenario, self._patches(scenario, block)
        out = image_of(self.layout_out, s.m, s.out_h, s.out_w, block)
        along_pixels = self.layout_out.planar
        spec = PatchProduct(patches, out, self.transposed and along_pixels, self.strips, epilogue)
        in_panels = self.transposed or not along_pixels

        def pack_weights() -> Array:
            ordered = weights.transpose(0, 2, 3, 1) if patches.taps_first else weights
            matrix = np.ascontiguousarray(ordered.reshape(s.m, -1), np.float32)
            return pack_panels(matrix, s.groups, PANEL) if in_panels else matrix

        terms = s.c // s.groups * s.taps
        shape = panels_shape(s.m, terms, s.groups, PANEL) if in_panels else (s.m, terms)
        operands = (StageOperand("weights"), StageOperand("out"), *epilogue_operand_places(epilogue))
        if self.strips:
            return Lowering((Stage(spec, (StageOperand("x"), *operands)),), pack_weights, shape)
        matrix_stage = Stage(PatchMatrix(patches), (StageOperand("x"), StageOperand("workspace")))
        product = Stage(spec, (StageOperand("workspace"), *operands))
        return Lowering((matrix_stage, product), pack_weights, shape, self.workspace_bytes(s))


def _primitives() -> tuple[Primitive, ...]:
    chw, hcw, hwc, chwc = Layout.CHW, Layout.HCW, Layout.HWC, Layout.CHWC
    along = [(chw, chw), (hcw, hcw), (chw, hcw), (hcw, chw), (hwc, chw), (chwc, chw)]
    across = [(hwc, hwc), (chw, hwc), (hcw, hwc), (chwc, hwc), (chwc, chwc), (hwc, chwc), (chw, chwc)]
    return (
        *(Im2(i, o, columns=True, transposed=t) for i, o in along for t in (False, True)),
        *(Im2(i, o, columns=True, transposed=t, strips=True) for i, o in along[:4] for t in (False, True)),
        *(Im2(i, o, columns=False) for i, o in across),
        *(Im2(i, o, columns=False, strips=True) for i, o in across),
        *(Im2(i, o, columns=True, transposed=True) for i, o in ((chw, hwc), (hcw, hwc), (chw, chwc))),
    )


PRIMITIVES: tuple[Primitive, ...] = _primitives()
EMIT = {PatchMatrix: emit_patch_matrix, PatchProduct: emit_patch_product}
