"""Plan of a convolution's kernel: its tile in a block's shared memory and registers, and the grid of blocks."""

from dataclasses import dataclass
from math import prod

from mavcg.accelerators.gpu.gpu_layer import WORD_BYTES, GpuLayer, round_up
from mavcg.cost.layer import Dataflow, Tile, Tiling


@dataclass(frozen=True)
class ConvKernel:
    """A tiled convolution (csrc/gpu_convolution.cuh).

    tile_oc, tile_oh, tile_ow: of the output. tile_ic: in words. rm, rn: channels and pixels per thread. stationary: the
    operand that stays while `inner` tiles of the others pass. splits: blocks that share a sum. stages: tiles of the
    moving operands in shared memory, one of them in use; 2 is double buffering. min_blocks: resident blocks per
    multiprocessor, which bounds the registers of a thread.
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
        """Threads per block."""
        return self.threads_oc * self.threads_pixels

    @property
    def rows_columns(self) -> tuple[int, int]:
        """Rows and columns of an input tile, with halo."""
        c = self.layer.conv
        return (
            (self.tile_oh - 1) * c.stride[0] + (c.kh - 1) * c.dilation[0] + 1,
            (self.tile_ow - 1) * c.stride[1] + (c.kw - 1) * c.dilation[1] + 1,
        )

    @property
    def input_words(self) -> int:
        """Words of an input tile."""
        return round_up(self.tile_ic * prod(self.rows_columns), 4)

    @property
    def weight_words(self) -> int:
        """Words of a tile of packed weights."""
        return round_up(self.tile_ic * self.layer.conv.kh * self.layer.conv.kw * self.tile_oc, 4)

    @property
    def reductions(self) -> int:
        """Tiles along the input channels."""
        return -(-self.layer.ic_words // self.tile_ic)

    @property
    def shared_bytes(self) -> int:
        """Shared memory per block, in bytes."""
        once = self.reductions == 1
        inputs = 1 if once and self.stationary is Dataflow.INPUT else self.stages
        filters = 1 if once and self.stationary is Dataflow.WEIGHT else self.stages
        return WORD_BYTES * (self.input_words * inputs + self.weight_words * filters)

    @property
    def oc_tiles(self) -> int:
        """Tiles along the output channels."""
        return -(-self.layer.conv.oc // self.tile_oc)

    @property
    def pixel_tiles(self) -> int:
        """Tiles of output rows and columns."""
        return -(-self.layer.conv.oh // self.tile_oh) * -(-self.layer.conv.ow // self.tile_ow)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Number of blocks along (pixels, groups and channels, splits)."""
        pixels, channels = self.pixel_tiles, self.oc_tiles
        if self.stationary is Dataflow.WEIGHT:
            pixels = -(-pixels // self.inner)
        if self.stationary is Dataflow.INPUT:
            channels = -(-channels // self.inner)
        return pixels, self.layer.conv.groups * channels, self.splits

    @property
    def partial_bytes(self) -> int:
        """Bytes of the buffer of partial sums, which splits and interrupted reductions need; 0 if every sum stays in
        registers."""
        c = self.layer.conv
        if self.splits == 1 and (self.inner == 1 or self.reductions == 1):
            return 0
        return self.splits * c.output_elements * 4

    @property
    def tiling(self) -> Tiling:
        """The kernel's tile in elements, and its dataflow, as the planner represents them."""
        c = self.layer.conv
        ic = min(self.tile_ic * self.layer.pack, c.ic)
        return Tiling(
            Tile(min(self.tile_oc, c.oc), ic, min(self.tile_oh, c.oh), min(self.tile_ow, c.ow), c.kh, c.kw),
            self.stationary,
        )
