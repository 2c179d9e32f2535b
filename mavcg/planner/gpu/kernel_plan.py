"""Plans of kernels: a layer's tile in a block's shared memory and registers, and the blocks that cover the layer."""

from dataclasses import dataclass
from math import prod

from mavcg.planner.gpu.gpu_layer import WORD_BYTES, GpuLayer
from mavcg.planner.layer_model.tiling import Dataflow, Tile, Tiling

PRODUCT_LANES = 32  # threads that sum one channel of a fully connected layer: ProductTile::LANES of the kernel


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True)
class ConvKernel:
    """A convolution by tiles (csrc/gpu_convolution.cuh). tile_ic: in words; rm, rn: channels and pixels of a thread.

    stationary: the operand that stays while `inner` tiles of the others pass. splits: blocks that share a sum.
    stages: tiles of the moving operands in shared memory, one of them at work: 2 is double buffering.
    min_blocks: of a multiprocessor at once; it bounds the registers.
    """

    layer: GpuLayer
    tile_oc: int
    tile_ic: int
    tile_oh: int
    tile_ow: int
    rm: int
    rn: int
    threads_oc: int
    threads_pixels: int
    stationary: Dataflow = Dataflow.OUTPUT
    inner: int = 1
    splits: int = 1
    stages: int = 1
    min_blocks: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.threads_oc * self.threads_pixels

    @property
    def rows_columns(self) -> tuple[int, int]:
        """Rows and columns of a tile of the input, with halo."""
        c = self.layer.conv
        return (
            (self.tile_oh - 1) * c.stride[0] + (c.kh - 1) * c.dilation[0] + 1,
            (self.tile_ow - 1) * c.stride[1] + (c.kw - 1) * c.dilation[1] + 1,
        )

    @property
    def input_words(self) -> int:
        """Words of a tile of the input."""
        return _up(self.tile_ic * prod(self.rows_columns), 4)

    @property
    def weight_words(self) -> int:
        """Words of a tile of packed weights."""
        return _up(self.tile_ic * self.layer.conv.kh * self.layer.conv.kw * self.tile_oc, 4)

    @property
    def reductions(self) -> int:
        """Tiles along the input's channels."""
        return -(-self.layer.ic_words // self.tile_ic)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        once = self.reductions == 1
        inputs = 1 if once and self.stationary is Dataflow.INPUT else self.stages
        filters = 1 if once and self.stationary is Dataflow.WEIGHT else self.stages
        return WORD_BYTES * (self.input_words * inputs + self.weight_words * filters)

    @property
    def oc_tiles(self) -> int:
        """Tiles along the output's channels."""
        return -(-self.layer.conv.oc // self.tile_oc)

    @property
    def pixel_tiles(self) -> int:
        """Tiles of rows and columns of the output."""
        return -(-self.layer.conv.oh // self.tile_oh) * -(-self.layer.conv.ow // self.tile_ow)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks: pixels, groups and channels, splits."""
        pixels, channels = self.pixel_tiles, self.oc_tiles
        if self.stationary is Dataflow.WEIGHT:
            pixels = -(-pixels // self.inner)
        if self.stationary is Dataflow.INPUT:
            channels = -(-channels // self.inner)
        return pixels, self.layer.conv.groups * channels, self.splits

    @property
    def partial_bytes(self) -> int:
        """Bytes of sums that are not complete: those of splits, or of tiles that give way to others."""
        c = self.layer.conv
        if self.splits == 1 and (self.inner == 1 or self.reductions == 1):
            return 0
        return self.splits * c.output_elements * 4

    @property
    def tiling(self) -> Tiling:
        """The tile as the planner has it, in elements, and its dataflow."""
        c = self.layer.conv
        ic = min(self.tile_ic * self.layer.pack, c.ic)
        return Tiling(
            Tile(min(self.tile_oc, c.oc), ic, min(self.tile_oh, c.oh), min(self.tile_ow, c.ow), c.kh, c.kw),
            self.stationary,
        )


@dataclass(frozen=True)
class ProductKernel:
    """A fully connected layer (csrc/gpu_fully_connected.cuh). rm: channels of a warp; threads_oc: warps of a block."""

    layer: GpuLayer
    tile_ic: int
    rm: int
    threads_oc: int
    splits: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return PRODUCT_LANES * self.threads_oc

    @property
    def tile_oc(self) -> int:
        """Channels of a block."""
        return self.rm * self.threads_oc

    @property
    def reductions(self) -> int:
        """Tiles along the input's channels."""
        return -(-self.layer.ic_words // self.tile_ic)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: the vector's tile and a sum of each thread and channel."""
        return WORD_BYTES * (_up(self.tile_ic, 4) + self.rm * self.threads)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks: channels, groups, splits."""
        return -(-self.layer.conv.oc // self.tile_oc), self.layer.conv.groups, self.splits

    @property
    def partial_bytes(self) -> int:
        """Bytes of the sums of all splits."""
        return self.splits * self.layer.conv.output_elements * 4 if self.splits > 1 else 0

    @property
    def tiling(self) -> Tiling:
        """The tile as the planner has it."""
        c = self.layer.conv
        return Tiling(
            Tile(min(self.tile_oc, c.oc), min(self.tile_ic * self.layer.pack, c.ic), 1, 1, 1, 1), Dataflow.OUTPUT
        )


@dataclass(frozen=True)
class WindowKernel:
    """A depthwise convolution or a pooling (csrc/gpu_windows.cuh). tile_c: words of channels; rn: pixels a thread."""

    layer: GpuLayer
    tile_c: int
    tile_oh: int
    tile_ow: int
    threads_pixels: int
    rn: int
    splits: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.threads_pixels * self.tile_c

    @property
    def channel_words(self) -> int:
        """Words of one pixel of the tensor."""
        return -(-self.layer.conv.groups // self.layer.pack)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: a tile of the input, and weights."""
        c = self.layer.conv
        rows = (self.tile_oh - 1) * c.stride[0] + (c.kh - 1) * c.dilation[0] + 1
        columns = (self.tile_ow - 1) * c.stride[1] + (c.kw - 1) * c.dilation[1] + 1
        filters = c.kh * c.kw if self.layer.kind == "conv" else 0
        return WORD_BYTES * self.tile_c * (rows * columns + filters)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks: tiles of pixels, words of channels."""
        c = self.layer.conv
        return -(-c.oh // self.tile_oh) * -(-c.ow // self.tile_ow), -(-self.channel_words // self.tile_c), 1

    @property
    def partial_bytes(self) -> int:
        """Bytes of incomplete sums: none, a window is one thread's."""
        return 0

    @property
    def tiling(self) -> Tiling:
        """The tile as the planner has it, of one group."""
        c = self.layer.conv
        return Tiling(Tile(1, 1, min(self.tile_oh, c.oh), min(self.tile_ow, c.ow), c.kh, c.kw), Dataflow.OUTPUT)


ELEMENTWISE_THREADS = 256


@dataclass(frozen=True)
class ElementwiseKernel:
    """An element-wise operator (csrc/gpu_elementwise.cuh): four words of a thread at a time."""

    layer: GpuLayer
    splits: int = 1

    @property
    def words(self) -> int:
        """Words of the tensor."""
        conv = self.layer.conv
        return -(-conv.groups // self.layer.pack) * conv.oh * conv.ow

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return ELEMENTWISE_THREADS

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: none, nothing is read twice."""
        return 0

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks: enough for the tensor, or for the chip several times."""
        return max(1, min(4096, -(-self.words // (4 * ELEMENTWISE_THREADS)))), 1, 1

    @property
    def partial_bytes(self) -> int:
        """Bytes of incomplete sums: none."""
        return 0

    @property
    def tiling(self) -> Tiling:
        """The whole tensor: no tile is worth keeping."""
        conv = self.layer.conv
        return Tiling(Tile(1, 1, conv.oh, conv.ow, 1, 1), Dataflow.OUTPUT)


Kernel = ConvKernel | ProductKernel | WindowKernel | ElementwiseKernel
