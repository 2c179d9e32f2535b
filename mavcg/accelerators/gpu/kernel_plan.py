"""Plans of the kernels other than tiled convolutions, and the union type of all plans."""

from dataclasses import dataclass

from mavcg.accelerators.gpu.conv_kernel import ConvKernel
from mavcg.accelerators.gpu.gpu_layer import WORD_BYTES, GpuLayer, round_up
from mavcg.cost.layer import Dataflow, Tile, Tiling

PRODUCT_LANES = 32  # threads that compute one channel of a fully connected layer: ProductTile::LANES of the kernel


@dataclass(frozen=True)
class ProductKernel:
    """A fully connected layer (csrc/gpu_fully_connected.cuh). rm: channels per warp. threads_oc: warps per block."""

    layer: GpuLayer
    tile_ic: int
    rm: int
    threads_oc: int
    splits: int = 1

    @property
    def threads(self) -> int:
        """Threads per block."""
        return PRODUCT_LANES * self.threads_oc

    @property
    def tile_oc(self) -> int:
        """Output channels per block."""
        return self.rm * self.threads_oc

    @property
    def reductions(self) -> int:
        """Tiles along the input channels."""
        return -(-self.layer.ic_words // self.tile_ic)

    @property
    def shared_bytes(self) -> int:
        """Shared memory per block, in bytes: the input tile, and a sum for each thread and channel."""
        return WORD_BYTES * (round_up(self.tile_ic, 4) + self.rm * self.threads)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Number of blocks along (channels, groups, splits)."""
        return -(-self.layer.conv.oc // self.tile_oc), self.layer.conv.groups, self.splits

    @property
    def partial_bytes(self) -> int:
        """Bytes of the partial sums of all splits."""
        return self.splits * self.layer.conv.output_elements * 4 if self.splits > 1 else 0

    @property
    def tiling(self) -> Tiling:
        """The kernel's tile as the planner represents it."""
        c = self.layer.conv
        return Tiling(
            Tile(min(self.tile_oc, c.oc), min(self.tile_ic * self.layer.pack, c.ic), 1, 1, 1, 1), Dataflow.OUTPUT
        )


@dataclass(frozen=True)
class WindowKernel:
    """A depthwise convolution or a pooling (csrc/gpu_windows.cuh). tile_c: words of channels. rn: pixels per thread."""

    layer: GpuLayer
    tile_c: int
    tile_oh: int
    tile_ow: int
    threads_pixels: int
    rn: int
    splits: int = 1

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.threads_pixels * self.tile_c

    @property
    def channel_words(self) -> int:
        """Words per pixel of the tensor."""
        return -(-self.layer.conv.groups // self.layer.pack)

    @property
    def shared_bytes(self) -> int:
        """Shared memory per block, in bytes: an input tile, and weights."""
        c = self.layer.conv
        rows = (self.tile_oh - 1) * c.stride[0] + (c.kh - 1) * c.dilation[0] + 1
        columns = (self.tile_ow - 1) * c.stride[1] + (c.kw - 1) * c.dilation[1] + 1
        filters = c.kh * c.kw if self.layer.kind == "conv" else 0
        return WORD_BYTES * self.tile_c * (rows * columns + filters)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Number of blocks along (tiles of pixels, words of channels, 1)."""
        c = self.layer.conv
        return -(-c.oh // self.tile_oh) * -(-c.ow // self.tile_ow), -(-self.channel_words // self.tile_c), 1

    @property
    def partial_bytes(self) -> int:
        """Bytes of partial sums in memory: 0, because one thread computes a whole window."""
        return 0

    @property
    def tiling(self) -> Tiling:
        """The kernel's tile of one group as the planner represents it."""
        c = self.layer.conv
        return Tiling(Tile(1, 1, min(self.tile_oh, c.oh), min(self.tile_ow, c.ow), c.kh, c.kw), Dataflow.OUTPUT)


ELEMENTWISE_THREADS = 256


@dataclass(frozen=True)
class ElementwiseKernel:
    """An element-wise operator (csrc/gpu_elementwise.cuh); a thread computes four words at a time."""

    layer: GpuLayer
    splits: int = 1

    @property
    def words(self) -> int:
        """Words of the tensor."""
        conv = self.layer.conv
        return -(-conv.groups // self.layer.pack) * conv.oh * conv.ow

    @property
    def threads(self) -> int:
        """Threads per block."""
        return ELEMENTWISE_THREADS

    @property
    def shared_bytes(self) -> int:
        """Shared memory per block: 0, because no element is read twice."""
        return 0

    @property
    def grid(self) -> tuple[int, int, int]:
        """Number of blocks: one per 4 words of each thread, at most 4096, which fill any chip several times."""
        return max(1, min(4096, -(-self.words // (4 * ELEMENTWISE_THREADS)))), 1, 1

    @property
    def partial_bytes(self) -> int:
        """Bytes of partial sums in memory: 0."""
        return 0

    @property
    def tiling(self) -> Tiling:
        """The whole tensor as one tile, since nothing is reused."""
        conv = self.layer.conv
        return Tiling(Tile(1, 1, conv.oh, conv.ow, 1, 1), Dataflow.OUTPUT)


Kernel = ConvKernel | ProductKernel | WindowKernel | ElementwiseKernel
