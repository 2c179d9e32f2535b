"""Sizes of Winograd convolutions: views of images in memory, the grid of tiles."""

from dataclasses import dataclass
from math import ceil, log2

from mavcg.graph import DTYPES
from mavcg.kernels.gemm.loop_shape import vector_lanes
from mavcg.kernels.primitives.common import Image
from mavcg.kernels.primitives.winograd.matrices import Filtering, filtering, operations_of
from mavcg.specs.kernel import Machine, View
from mavcg.specs.kernel_symbol import window_text
from mavcg.specs.primitive import Layout
from mavcg.specs.serialize import spec_format

MOST_VECTOR = 64  # size of the longest vector of any machine, in bytes
# Maximum tiles that a block's last register tile may compute past its end: the most pixels of any register tile.
SLACK_TILES = 32


@spec_format("located_view")
@dataclass(frozen=True)
class Located:
    """A view of an N, H, W, C image, with or without blocks of channels; strides are in elements.

    block: channels of a CHWc block; 0 without blocks. With blocks the view's last stride is the one within a block, 1,
    block_step is the distance between blocks, and the last block is padded to its size.
    """

    view: View
    block: int = 0
    block_step: int = 0

    @property
    def channels(self) -> int:
        """Number of channels of the image, without the padding of the last block."""
        return self.view.shape[3]

    @property
    def layout_text(self) -> str:
        """Name of the layout in kernel symbols, such as chwc8."""
        if self.block:
            return f"chwc{self.block}"
        return "nhwc" if self.along_channels else "nchw"

    @property
    def stored_channels(self) -> int:
        """Number of channels in memory, including the padding of the last block."""
        return -(-self.channels // self.block) * self.block if self.block else self.channels

    @property
    def along_channels(self) -> bool:
        """True if channels are contiguous in memory."""
        return self.view.strides[3] == 1 or self.channels == 1


def view_in_layout(image: Image) -> Located:
    """Return the view of a dense image as a batch of one."""
    strides = (image.elements, image.row_step, image.column_step, image.channel_step)
    view = View("f32", (1, image.height, image.width, image.channels), strides)
    return Located(view, image.block, image.block_step) if image.layout is Layout.CHWC else Located(view)


@spec_format("winograd_tiles")
@dataclass(frozen=True)
class Tiles:
    """The cut of the outputs into tiles, and the sizes that follow.

    m: outputs of a tile along a row. k: taps of the filter along a row. two_d: tiles are m x m with t * t products;
    else
    1 x m with t products, and the sums also run over the filter's rows, filter_rows or k of them. pad: (rows above,
    columns left) of zeros; those below and right follow from the size of the output. lanes: output channels of a panel.
    dtype: of images, weights and planes, "f32" or "f16"; f16 transforms compute in f16.
    """

    m: int
    k: int
    two_d: bool
    pad: tuple[int, int]
    in_h: int
    in_w: int
    in_ch: int
    out_h: int
    out_w: int
    out_ch: int
    lanes: int
    filter_rows: int | None = None
    dtype: str = "f32"

    @property
    def item_bytes(self) -> int:
        """Size of an element, in bytes."""
        return DTYPES[self.dtype].itemsize

    @property
    def type_text(self) -> str:
        """The end of a kernel's family that names the type."""
        return "" if self.dtype == "f32" else f"_{self.dtype}"

    def vector_lanes(self, machine: Machine) -> int:
        """Return the lanes of the machine's vectors of elements."""
        return vector_lanes(machine, self.dtype)

    @property
    def window_text(self) -> str:
        """Size of the filter in kernel symbols, such as 3x3x16s1."""
        return window_text((self.k_h, self.k, self.in_ch), (1,))

    @property
    def filtering(self) -> Filtering:
        """The matrices of the transforms."""
        return filtering(self.m, self.k)

    @property
    def input_scale(self) -> float:
        """A power of two that f16 inputs are multiplied by, and outputs divided by, so that no transform overflows."""
        if self.dtype != "f16":
            return 1.0
        largest = float(max(sum(map(abs, row)) for row in self.filtering.inputs))
        return 2.0 ** -ceil((1 + self.two_d) * log2(largest))

    @property
    def k_h(self) -> int:
        """Number of rows of the filter."""
        return self.filter_rows or self.k

    @property
    def t(self) -> int:
        """Number of inputs of a tile along a row."""
        return self.m + self.k - 1

    @property
    def planes(self) -> int:
        """Number of products of a tile, each in a plane of its own."""
        return self.t * self.t if self.two_d else self.t

    @property
    def m_h(self) -> int:
        """Number of rows of outputs of a tile."""
        return self.m if self.two_d else 1

    @property
    def t_h(self) -> int:
        """Number of rows of inputs of a tile that are transformed together."""
        return self.t if self.two_d else 1

    @property
    def taps(self) -> int:
        """Number of rows of the filter that the sums run over."""
        return 1 if self.two_d else self.k_h

    @property
    def patch_bytes(self) -> int:
        """Size of the scratch for a copy of a tile, enough for any machine's vectors, in bytes."""
        return self.t_h * self.t * MOST_VECTOR

    @property
    def terms(self) -> int:
        """Number of terms of each sum."""
        return self.taps * self.in_ch

    @property
    def rows(self) -> int:
        """Number of rows of tiles."""
        return -(-self.out_h // self.m_h)

    @property
    def across(self) -> int:
        """Number of tiles of a row."""
        return -(-self.out_w // self.m)

    @property
    def count(self) -> int:
        """Number of tiles of an image."""
        return self.rows * self.across

    @property
    def unit(self) -> int:
        """Number of tiles of a row of work: 1, or a whole row of tiles unless two_d."""
        return 1 if self.two_d else self.across

    @property
    def panels(self) -> int:
        """Number of panels of `lanes` output channels."""
        return -(-self.out_ch // self.lanes)

    @property
    def panel_bytes(self) -> int:
        """Size of the weights of a panel in a plane, in bytes."""
        return self.terms * self.lanes * self.item_bytes

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates of the products of an image."""
        return self.planes * self.count * self.terms * self.out_ch

    @property
    def input_operations(self) -> int:
        """Number of additions and multiply-adds that transform the inputs of an image's tiles, as they are emitted."""
        tiles = (self.rows + self.taps - 1) * self.across
        passes = 2 * self.t if self.two_d else 1
        return tiles * self.in_ch * passes * len(operations_of(self.filtering.inputs).operations)

    @property
    def output_operations(self) -> int:
        """The same of the inverse transform of an image's sums."""
        passes = self.t + self.m if self.two_d else 1
        return self.count * self.out_ch * passes * len(operations_of(self.filtering.inverse).operations)
