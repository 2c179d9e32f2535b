"""Plans of the kernels that are no convolution by tiles, and what all plans of kernels have in common."""

from dataclasses import dataclass

from mavcg.planner.gpu.conv_kernel import ConvKernel
from mavcg.planner.gpu.gpu_layer import WORD_BYTES, GpuLayer, round_up
from mavcg.planner.layer_model.tiling import Dataflow, Tile, Tiling

PRODUCT_LANES = 32  # threads that sum one channel of a fully connected layer: ProductTile::LANES of the kernel


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
        return WORD_BYTES * (round_up(self.tile_ic, 4) + self.rm * self.threads)

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
