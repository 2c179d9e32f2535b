"""Patches of an image as a matrix: for each output pixel all inputs of its sum, with zeros in the border.

im2col: a row for each term of a sum, a column for each pixel. im2row: a row for each pixel, a column for each term.
"""

from dataclasses import dataclass

from mavcg.kernels.gemm.loop_shape import lanes_f32
from mavcg.kernels.primitives.common import PANEL, Image, image_of
from mavcg.specs.kernel import Machine
from mavcg.specs.primitive import F32_BYTES, Layout, Scenario
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import OperandBytes, VectorWork, vector_work


@spec_format("patches")
@dataclass(frozen=True)
class Patches:
    """The matrix of patches of `pixels` output pixels of an image.

    columns: im2col, [C * taps, padded pixels], the terms in order of channel, then tap. Else im2row, [pixels, C *
    taps], the terms in the same order, or, if channels are contiguous in the image, in order of group, tap, channel, so
    that contiguous inputs are contiguous in the matrix.
    """

    scenario: Scenario
    layout: Layout
    block: int
    columns: bool
    pixels: int

    @property
    def image(self) -> Image:
        """The image that patches are copied from."""
        s = self.scenario
        return image_of(self.layout, s.c, s.h, s.w, self.block)

    @property
    def terms(self) -> int:
        """Number of terms of a patch, of all groups."""
        return self.scenario.c * self.scenario.taps

    @property
    def group_terms(self) -> int:
        """Number of terms of each sum: the input channels of a group times the taps."""
        return self.terms // self.scenario.groups

    @property
    def taps_first(self) -> bool:
        """True if a patch's terms are in order of tap, then channel."""
        return not self.columns and self.layout in (Layout.HWC, Layout.CHWC)

    @property
    def row_bytes(self) -> int:
        """Distance from a row of the matrix to the next, in bytes."""
        return (-(-self.pixels // PANEL) * PANEL if self.columns else self.terms) * F32_BYTES

    @property
    def matrix_bytes(self) -> int:
        """Size of the matrix in bytes, with slack so that whole vectors may be read from any pixel on."""
        return (self.terms if self.columns else self.pixels) * self.row_bytes + (PANEL * F32_BYTES)

    @property
    def pixel_bytes(self) -> int:
        """Distance from a pixel to the next, in bytes."""
        return F32_BYTES if self.columns else self.row_bytes

    @property
    def term_bytes(self) -> int:
        """Distance from a term to the next, in bytes."""
        return self.row_bytes if self.columns else F32_BYTES

    @property
    def operand_bytes(self) -> OperandBytes:
        """The bytes of the matrix, without padding; it is written whole before it is read."""
        size = self.terms * self.pixels * F32_BYTES
        return OperandBytes(size, 2 * size)

    def copy_work(self, machine: Machine, pixels: int) -> tuple[VectorWork, ...]:
        """Return the work of copying the patches of so many output pixels.

        Runs of vectors are copied where neighbours in memory are neighbours in the matrix, else single elements.
        """
        s = self.scenario
        vectors = s.along.stride == 1 if self.columns else s.c // s.groups >= lanes_f32(machine)
        straight = vectors and self.layout.planar is self.columns
        return vector_work(("patch" if straight else "patch_far", self.terms * pixels))
