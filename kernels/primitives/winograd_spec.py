"""What decides a Winograd convolution's code: its tiles, where everything lies, and the specs of its kernels."""

from dataclasses import dataclass

from mavcg.kernel import KernelSpec, View
from mavcg.kernels.primitives.common import Image
from mavcg.kernels.primitives.winograd_matrices import Filtering, filtering
from mavcg.primitive import F32_BYTES, Layout

LINE = 64  # bytes of a cache line
MOST_VECTOR = 64  # bytes of the longest vector that a machine has
# A level-1 cache's sets repeat every 4096 bytes or fewer: neighbouring planes begin in different ones.
SETS_REPEAT = 4096
# Tiles that the last register tile of a block may compute beyond it: no machine's has more pixels.
SLACK_TILES = 32


@dataclass(frozen=True)
class Located:
    """An image of N, H, W, C and where its elements lie; strides are in elements.

    block: 0, or channels of a block of CHWc: view's last stride is then that inside a block, 1, and block_step leads
    from a block to the next; channels that fill the last block are there.
    """

    view: View
    block: int = 0
    block_step: int = 0

    @property
    def channels(self) -> int:
        """That mean something."""
        return self.view.shape[3]

    @property
    def stored_channels(self) -> int:
        """That are in memory, with those that fill the last block."""
        return -(-self.channels // self.block) * self.block if self.block else self.channels

    @property
    def along_channels(self) -> bool:
        """Whether neighbouring channels are neighbours in memory."""
        return self.view.strides[3] == 1 or self.channels == 1


def located(image: Image) -> Located:
    """A dense image in its layout, as a batch of one."""
    strides = (image.elements, image.row_step, image.column_step, image.channel_step)
    view = View("f32", (1, image.height, image.width, image.channels), strides)
    return Located(view, image.block, image.block_step) if image.layout is Layout.CHWC else Located(view)


@dataclass(frozen=True)
class Tiles:
    """How outputs are cut into tiles.

    m: outputs of a tile along a row; k: taps of the filter along a row, and of its column. two_d: tiles are m x m, and
    products t * t; else 1 x m with t products, and the sums run over the filter's rows too. pad: zeros above and left
    of the input; those below and right are as many as the output wants.
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

    @property
    def filtering(self) -> Filtering:
        """The matrices."""
        return filtering(self.m, self.k)

    @property
    def t(self) -> int:
        """Inputs of a tile along a row."""
        return self.m + self.k - 1

    @property
    def planes(self) -> int:
        """Products of a tile."""
        return self.t * self.t if self.two_d else self.t

    @property
    def m_h(self) -> int:
        """Rows of outputs of a tile."""
        return self.m if self.two_d else 1

    @property
    def t_h(self) -> int:
        """Rows of inputs of a tile that are transformed together."""
        return self.t if self.two_d else 1

    @property
    def taps(self) -> int:
        """Rows of the filter that the sum runs over."""
        return 1 if self.two_d else self.k

    @property
    def patch_bytes(self) -> int:
        """Scratch for a tile that needs a copy, of vectors of any machine."""
        return self.t_h * self.t * MOST_VECTOR

    @property
    def terms(self) -> int:
        """Of each sum."""
        return self.taps * self.in_ch

    @property
    def rows(self) -> int:
        """Rows of tiles."""
        return -(-self.out_h // self.m_h)

    @property
    def across(self) -> int:
        """Tiles of a row."""
        return -(-self.out_w // self.m)

    @property
    def count(self) -> int:
        """Tiles of an image."""
        return self.rows * self.across

    @property
    def unit(self) -> int:
        """Tiles that are transformed together: by rows only, whole rows of them."""
        return 1 if self.two_d else self.across

    @property
    def panels(self) -> int:
        """Panels of `lanes` output channels."""
        return -(-self.out_ch // self.lanes)

    @property
    def panel_bytes(self) -> int:
        """Of the weights of a panel in a plane."""
        return self.terms * self.lanes * F32_BYTES

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the products of an image."""
        return self.planes * self.count * self.terms * self.out_ch


@dataclass(frozen=True)
class Planes:
    """A transformed image: of each plane, of each tile, channels. `extra` tiles may be written or read beyond."""

    count: int
    tiles: int
    channels: int
    extra: int = 0

    @property
    def pitch(self) -> int:
        """Bytes from a tile to the next: whole cache lines, and not such that all tiles lie in the same sets."""
        pitch = -(-self.channels * F32_BYTES // LINE) * LINE
        return pitch + LINE if pitch % (SETS_REPEAT // 4) == 0 else pitch

    @property
    def plane(self) -> int:
        """Bytes from a plane to the next: an odd number of lines."""
        lines = self.tiles * self.pitch // LINE
        return (lines + 1 - lines % 2) * LINE

    @property
    def bytes(self) -> int:
        """Of all."""
        return self.count * self.plane + self.extra * self.pitch


def transformed(tiles: Tiles, count: int, extra: int = 0) -> Planes:
    """Inputs of `count` tiles; by rows only, of the rows of tiles below too that their filters reach."""
    return Planes(tiles.planes, count + (tiles.taps - 1) * tiles.across, tiles.in_ch, extra)


def products(tiles: Tiles, count: int, extra: int = 0) -> Planes:
    """Sums of `count` tiles, of all panels."""
    return Planes(tiles.planes, count, tiles.panels * tiles.lanes, extra)


@dataclass(frozen=True)
class Winograd(KernelSpec):
    """act(bias + convolution + residual) of f32 images, tile by tile in one kernel.

    block: tiles that are transformed, multiplied and transformed back together (where not two_d whole rows of them).
    Operands: x, weights [planes, panels, terms, lanes], out, then bias and residual as far as there are any. A row of
    work is a tile; by rows only, a row of them.
    """

    tiles: Tiles
    x: Located
    out: Located
    residual: Located | None
    block: int
    bias: bool
    act: str
    act_args: tuple[float, ...]

    @property
    def family(self) -> str:
        dimensions = 2 if self.tiles.two_d else 1
        return f"winograd_{dimensions}d_f{self.tiles.m}_k{self.tiles.k}"

    @property
    def rows(self) -> int:
        return self.out.view.shape[0] * (self.tiles.count // self.tiles.unit) if self.out.view.elements else 0

    @property
    def shared_rows(self) -> int:
        return -(-self.block // self.tiles.unit)

    @property
    def inputs(self) -> Planes:
        """In the scratch, behind the patch."""
        return transformed(self.tiles, self.block, SLACK_TILES)

    @property
    def sums(self) -> Planes:
        """In the scratch, behind the inputs."""
        return products(self.tiles, self.block, SLACK_TILES)

    @property
    def scratch_bytes(self) -> int:
        return self.tiles.patch_bytes + self.inputs.bytes + self.sums.bytes

    @property
    def work(self) -> int:
        return 2 * self.out.view.shape[0] * self.tiles.macs


# Elementary operations that a transform makes of a number of a plane, about: additions, a load and a store.
TRANSFORM_WORK = 8


@dataclass(frozen=True)
class WinogradInput(KernelSpec):
    """All tiles' inputs transformed. Operands: x, inputs. A row of work is a tile; by rows only, a row of them."""

    tiles: Tiles
    x: Located

    @property
    def family(self) -> str:
        return f"winograd_input_f{self.tiles.m}_k{self.tiles.k}"

    @property
    def inputs(self) -> Planes:
        """What is written."""
        return transformed(self.tiles, self.tiles.count)

    @property
    def rows(self) -> int:
        return self.inputs.tiles // self.tiles.unit if self.x.view.elements else 0

    @property
    def scratch_bytes(self) -> int:
        return self.tiles.patch_bytes

    @property
    def work(self) -> int:
        return TRANSFORM_WORK * self.inputs.tiles * self.inputs.count * self.tiles.in_ch


@dataclass(frozen=True)
class WinogradProducts(KernelSpec):
    """All tiles' products. Operands: inputs, weights, sums. A row of work is a chunk of a plane's output channels."""

    tiles: Tiles
    chunk: int

    @property
    def family(self) -> str:
        return f"winograd_products_f{self.tiles.m}_k{self.tiles.k}"

    @property
    def inputs(self) -> Planes:
        """What is read."""
        return transformed(self.tiles, self.tiles.count)

    @property
    def sums(self) -> Planes:
        """What is written."""
        return products(self.tiles, self.tiles.count)

    @property
    def rows(self) -> int:
        return self.tiles.planes * -(-self.tiles.out_ch // self.chunk)

    @property
    def work(self) -> int:
        return 2 * self.tiles.macs


@dataclass(frozen=True)
class WinogradOutput(KernelSpec):
    """All tiles' sums transformed back, with bias, residual and activation.

    Operands: sums, out, then bias and residual as far as there are any. A row of work is a tile; by rows only, a row
    of them.
    """

    tiles: Tiles
    out: Located
    residual: Located | None
    bias: bool
    act: str
    act_args: tuple[float, ...]

    @property
    def family(self) -> str:
        return f"winograd_output_f{self.tiles.m}_k{self.tiles.k}"

    @property
    def sums(self) -> Planes:
        """What is read."""
        return products(self.tiles, self.tiles.count)

    @property
    def rows(self) -> int:
        return self.tiles.count // self.tiles.unit if self.out.view.elements else 0

    @property
    def scratch_bytes(self) -> int:
        return self.tiles.patch_bytes

    @property
    def work(self) -> int:
        return TRANSFORM_WORK * self.sums.tiles * self.sums.count * self.tiles.out_ch
