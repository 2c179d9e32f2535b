"""Specs of the stages of an fft convolution: transforms of rows, a product per coefficient, inverse transforms.

Rows wider than a transform are cut into tiles whose inputs overlap (overlap-save). For output row y, coefficient f and
tile, Y[m] = sum over ky, c of X[y + ky, c] * conj(W[m, ky, c]). That is one product of real matrices for each f: every
row of X is stored twice, as (re, im) and (im, -re), whose products with W's (re, im) are Y's real and imaginary part.
"""

from dataclasses import dataclass
from math import log2

import numpy as np

from mavcg.kernels.primitives.common import MOST_BLOCK, PANEL, Image, align_workspace, pack_panels, transpose_work
from mavcg.specs.kernel import Array, KernelSpec, Machine
from mavcg.specs.kernel_symbol import shape_text, sizes_text
from mavcg.specs.primitive import F32_BYTES, Epilogue, Scenario
from mavcg.specs.serialize import spec_format
from mavcg.specs.work_counts import OperandBytes, TileProduct, VectorWork, WeightReads, WorkCounts, vector_work


@spec_format("fft_transforms")
@dataclass(frozen=True)
class Transforms:
    """The sizes of a stride-1 convolution by transforms of `length` pixels of a row.

    Transformed inputs: [coefficients, groups, tiles, padded rows, 2, 2, C / groups], each complex number twice as
    above. Outputs before the inverse transform: [coefficients, groups, tiles, output rows, 2 (re, im), M / groups].
    """

    scenario: Scenario
    length: int

    @property
    def coefficients(self) -> int:
        """Number of coefficients of a transform that are kept."""
        return self.length // 2 + 1

    @property
    def tile(self) -> int:
        """Valid outputs of a transform; the others wrap around to the other end of the row."""
        return self.length - self.scenario.dilation * (self.scenario.k - 1)

    @property
    def tiles(self) -> int:
        """Number of tiles of a row."""
        return -(-self.scenario.out_w // self.tile)

    @property
    def in_rows(self) -> int:
        """Number of rows of the padded image."""
        return self.scenario.h + 2 * self.scenario.pad

    @property
    def in_channels(self) -> int:
        """Number of input channels of a group."""
        return self.scenario.c // self.scenario.groups

    @property
    def out_channels(self) -> int:
        """Number of output channels of a group."""
        return self.scenario.m // self.scenario.groups

    @property
    def in_row_bytes(self) -> int:
        """Size of a row of a tile of inputs, one coefficient, in bytes."""
        return 4 * self.in_channels * F32_BYTES

    @property
    def out_row_bytes(self) -> int:
        """Size of a row of a tile of outputs, one coefficient, in bytes."""
        return 2 * self.out_channels * F32_BYTES

    @property
    def in_bytes(self) -> int:
        """Size of one coefficient's inputs, in bytes."""
        return self.scenario.groups * self.tiles * self.in_rows * self.in_row_bytes

    @property
    def out_bytes(self) -> int:
        """Size of one coefficient's outputs, in bytes."""
        return self.scenario.groups * self.tiles * self.scenario.out_h * self.out_row_bytes

    @property
    def workspace_bytes(self) -> int:
        """Size of inputs and outputs in the workspace, in bytes."""
        return self.outputs_at + align_workspace(self.coefficients * self.out_bytes)

    @property
    def operand_bytes(self) -> tuple[OperandBytes, OperandBytes]:
        """The bytes of transformed inputs and of outputs; all are touched, twice, between two uses."""
        sides = [self.coefficients * size for size in (self.in_bytes, self.out_bytes)]
        return OperandBytes(sides[0], 2 * sum(sides)), OperandBytes(sides[1], 2 * sum(sides))

    def butterflies(self, rows: int) -> tuple[VectorWork, ...]:
        """Return the work of transforming so many rows of all channels and tiles."""
        return vector_work(("butterfly", self.tiles * rows * self.length * log2(self.length)))

    @property
    def outputs_at(self) -> int:
        """Offset of the outputs in the workspace, in bytes."""
        return align_workspace(self.coefficients * self.in_bytes)


def transformed_weights(transforms: Transforms, weights: Array) -> Array:
    """Transform and pack weights [M, C / groups, K, K]: the coefficients of each row of taps, divided by `length`.

    Returns: [coefficients, groups, panels, K * 2 * C / groups, PANEL], f32.

    Terms are in order of row of taps, part (re, im), channel. Coefficients 0 and length / 2 are real: their terms are
    in order of row of taps and channel, followed by zeros.
    """
    s, n = transforms.scenario, transforms.length
    spread = np.zeros((s.m, transforms.in_channels, s.k, n))
    spread[..., : s.dilation * (s.k - 1) + 1 : s.dilation] = weights
    spectrum = (np.fft.rfft(spread) / n).transpose(3, 0, 2, 1)  # [coefficients, M, ky, C]
    rows = np.stack((spectrum.real, spectrum.imag), axis=3).reshape(transforms.coefficients, s.m, -1)
    for number in (0, -1):
        rows[number] = 0
        rows[number, :, : rows.shape[2] // 2] = spectrum[number].real.reshape(s.m, -1)
    return np.stack([pack_panels(row.astype(np.float32), s.groups, PANEL) for row in rows])


@spec_format("fft_forward")
@dataclass(frozen=True)
class ForwardRows(KernelSpec):
    """The transform of the rows of x. Operands: x, transformed inputs. A row of work is a row of the padded image."""

    transforms: Transforms
    x: Image

    @property
    def family(self) -> str:
        return "fft_rows_f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(self.x.layout_text, self.x.sizes_text, f"k{self.transforms.length}")

    @property
    def rows(self) -> int:
        return self.transforms.in_rows

    @property
    def scratch_bytes(self) -> int:
        return self.transforms.length * MOST_BLOCK * F32_BYTES

    @property
    def work(self) -> int:
        t = self.transforms
        return t.in_rows * t.tiles * t.scenario.c * t.length * t.length.bit_length()

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        t = self.transforms
        vectors = (*t.butterflies(t.in_rows * self.x.channels), *transpose_work(self.x, False))
        return WorkCounts(vectors=vectors, read=self.x.operand_bytes, written=t.operand_bytes[0])


@spec_format("fft_products")
@dataclass(frozen=True)
class CoefficientProducts(KernelSpec):
    """The matrix products of all coefficients. Operands: inputs, weights, outputs. A row of work: a group's
    coefficient."""

    transforms: Transforms

    @property
    def family(self) -> str:
        return "fft_products_f32"

    @property
    def symbol_shape(self) -> str:
        s = self.transforms.scenario
        return shape_text(sizes_text(s.out_h, s.out_w, s.m), f"k{self.transforms.length}", s.window_text)

    @property
    def rows(self) -> int:
        return self.transforms.coefficients * self.transforms.scenario.groups

    @property
    def disjoint_reads(self) -> bool:
        return True

    @property
    def multiply_adds(self) -> int:
        t, s = self.transforms, self.transforms.scenario
        # Coefficients 0 and length / 2 are real, so that they count as one.
        return (t.coefficients - 1) * t.tiles * 2 * s.out_h * s.m * 2 * t.in_channels * s.k

    @property
    def work(self) -> int:
        t, s = self.transforms, self.transforms.scenario
        return 2 * t.coefficients * t.tiles * s.out_h * 2 * s.m * s.k * 2 * t.in_channels

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        t, s = self.transforms, self.transforms.scenario
        terms = 2 * t.in_channels * s.k
        # Coefficients 0 and length / 2 are real, so that they count as one.
        times = t.tiles * s.groups * (t.coefficients - 1)
        return WorkCounts(
            products=(TileProduct("product_fft", 2 * s.out_h, t.out_channels, terms, times),),
            read=t.operand_bytes[0],
            written=t.operand_bytes[1],
            weights=WeightReads(t.coefficients * terms * s.m * F32_BYTES, divided=True),
        )


@spec_format("fft_inverse")
@dataclass(frozen=True)
class InverseRows(KernelSpec):
    """act(bias + inverse transform of outputs + residual); operands: outputs, out, bias?, residual?.

    A row of work is a row of output.
    """

    transforms: Transforms
    out: Image
    epilogue: Epilogue

    @property
    def family(self) -> str:
        return "fft_inverse_rows_f32"

    @property
    def symbol_shape(self) -> str:
        return shape_text(self.out.layout_text, self.out.sizes_text, f"k{self.transforms.length}")

    @property
    def rows(self) -> int:
        return self.out.height

    @property
    def scratch_bytes(self) -> int:
        return 2 * self.transforms.length * MOST_BLOCK * F32_BYTES

    @property
    def work(self) -> int:
        t = self.transforms
        return self.out.height * t.tiles * self.out.channels * t.length * t.length.bit_length()

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        t = self.transforms
        vectors = (*t.butterflies(self.out.height * self.out.channels), *transpose_work(self.out, False))
        return WorkCounts(vectors=vectors, read=t.operand_bytes[1], written=self.out.operand_bytes)
