"""Specs of direct convolutions, and the base of those whose outputs each read a window of a bordered image.

Vectors run along the output channels or along the columns of the output; loops.py emits them.
"""

from dataclasses import dataclass
from enum import StrEnum

from mavcg.kernels.primitives.common import Image, transpose_work
from mavcg.kernels.primitives.direct.terms import TermOrder
from mavcg.specs.kernel import KernelSpec, Machine
from mavcg.specs.kernel_symbol import shape_text
from mavcg.specs.packed_constant import WeightParts
from mavcg.specs.primitive import F32_BYTES, AxisWindow, Epilogue
from mavcg.specs.serialize import spec_format
from mavcg.specs.sums_of_products import Window
from mavcg.specs.work_counts import TileProduct, WeightReads, WorkCounts


class ImageKernel(KernelSpec):
    """A kernel from an image with its border to an image.

    kernel, stride, dilation: window along a column. across: the window along a row; None: the same.
    """

    x: Image
    out: Image
    kernel: int
    stride: int
    dilation: int
    across: AxisWindow | None

    @property
    def window_across(self) -> AxisWindow:
        """The window along a row of the bordered image."""
        return self.across or AxisWindow(self.kernel, self.stride, 0, self.dilation)

    @property
    def window(self) -> Window:
        """The window of an output."""
        row = self.window_across
        return Window((self.kernel, row.k), (self.stride, row.stride), (self.dilation, row.dilation))

    @property
    def in_channels(self) -> int | None:
        """Number of input channels that an output sums; None if it reads its own channel only."""
        return None

    @property
    def terms(self) -> int:
        """Number of terms of each sum."""
        return self.window.taps * (1 if self.in_channels is None else self.in_channels)

    @property
    def symbol_shape(self) -> str:
        window = self.window.text(self.in_channels)
        return shape_text(self.x.layout_text, self.out.layout_text, self.out.sizes_text, window)

    @property
    def multiply_adds(self) -> int:
        return self.out.channels * self.out.height * self.out.width * self.terms

    @property
    def work(self) -> int:
        return 2 * self.multiply_adds


class GroupedImageKernel(ImageKernel):
    """An image kernel whose outputs sum all input channels of their group."""

    groups: int

    @property
    def window(self) -> Window:
        down = super().window
        return Window(down.kernel, down.stride, down.dilation, self.groups)

    @property
    def in_channels(self) -> int:
        """Number of input channels of a group."""
        return self.x.channels // self.groups

    @property
    def out_channels(self) -> int:
        """Number of output channels of a group."""
        return self.out.channels // self.groups


@spec_format("vector_axis")
class VectorAxis(StrEnum):
    """The dimension of the output that the lanes of a vector run along."""

    CHANNELS = "channels"
    COLUMNS = "columns"


@spec_format("held_outputs")
class TileExtent(StrEnum):
    """The extent of a register tile: several scalars and vectors, one scalar, or one vector."""

    BOTH = "both"
    ONE_SCALAR = "one scalar"
    ONE_VECTOR = "one vector"


@spec_format("direct_conv2d")
@dataclass(frozen=True)
class DirectConv(GroupedImageKernel):
    """act(bias + convolution + residual) of f32 images; operands: x, weights, out, bias?, residual?.

    x: with its border, and in phases by the stride if vectors run along columns. weights: packed in panels of `panel`
    channels, [groups, panels, terms, panel], the terms in `order`. chunk: output channels of a row of work, whole
    panels or all of a group; a row of work is a chunk of a row of outputs. rows_outer: rows of work are numbered row by
    row, else chunk by chunk. slack: up to a vector may be read past the end of x. across: the window along a row; None:
    as given by kernel, stride and dilation.
    """

    x: Image
    out: Image
    kernel: int
    stride: int
    dilation: int
    groups: int
    epilogue: Epilogue
    order: TermOrder
    along: VectorAxis
    tile_extent: TileExtent
    panel: int
    chunk: int
    rows_outer: bool
    slack: bool
    long_unroll: bool = False
    across: AxisWindow | None = None

    @property
    def family(self) -> str:
        return f"direct_{self.along}_f32"

    @property
    def chunks(self) -> int:
        """Number of chunks of output channels of a group."""
        return -(-self.out_channels // self.chunk)

    @property
    def panel_bytes(self) -> int:
        """Size of a panel of packed weights, in bytes."""
        return self.terms * self.panel * F32_BYTES

    @property
    def group_bytes(self) -> int:
        """Size of a group's packed weights, in bytes."""
        return -(-self.out_channels // self.panel) * self.panel_bytes

    @property
    def rows(self) -> int:
        return self.groups * self.chunks * self.out.height

    @property
    def weight_parts(self) -> WeightParts:
        parts = self.groups * self.chunks
        return WeightParts(parts) if self.rows_outer else WeightParts(parts, parts, self.chunks)

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        out, in_columns = self.out, self.along is VectorAxis.COLUMNS
        rows, columns = (self.out_channels, out.width) if in_columns else (out.width, self.out_channels)
        one_row, one_vector = (self.tile_extent is extent for extent in (TileExtent.ONE_SCALAR, TileExtent.ONE_VECTOR))
        product = TileProduct(
            self._product_name,
            rows,
            columns,
            self.terms,
            out.height * self.groups,
            1 if one_row else None,
            1 if one_vector else None,
        )
        size = out.channels * self.terms * F32_BYTES
        return WorkCounts(
            products=(product,),
            vectors=transpose_work(out, in_columns),
            read=self.x.operand_bytes,
            written=out.operand_bytes,
            weights=WeightReads(size, out.height) if self.rows_outer else WeightReads(size, divided=True),
        )

    @property
    def _product_name(self) -> str:
        """The constant of the products: by the tile, and by how far apart in memory successive terms of a sum are."""
        if self.along is VectorAxis.COLUMNS:
            return "product_columns" if self.tile_extent is TileExtent.BOTH else "product_columns_single"
        if self.tile_extent is not TileExtent.BOTH:
            return "product_pixel" if self.tile_extent is TileExtent.ONE_SCALAR else "product_one_vector"
        if self.order is TermOrder.CHANNELS:  # successive terms of a sum are an image's size from one another
            return "product_far_channels" if self.window.taps > 1 else "product_plane_channels"
        return "product_first" if self.long_unroll else "product_channels"
