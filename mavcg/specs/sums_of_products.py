"""Sums of products as three values: their sizes, the window of each, and the rules of macro-tiles."""

from dataclasses import dataclass
from math import prod

from mavcg.specs.kernel_symbol import window_text

Pair = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """The window of a filter. kernel, stride, dilation: (height, width). groups: of channels."""

    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    groups: int = 1

    @property
    def taps(self) -> int:
        """Number of taps."""
        return prod(self.kernel)

    def text(self, in_channels: int | None = None) -> str:
        """Return the window in a kernel's symbol. in_channels: that an output sums; None: it has one channel."""
        sizes = self.kernel if in_channels is None else (*self.kernel, in_channels)
        return window_text(sizes, self.stride, self.dilation, self.groups)


F32_BYTES = 4


@dataclass(frozen=True)
class SumSizes:
    """The sizes of a kernel's sums of products.

    out_channels, in_channels: of a group. rows, columns: output pixels; the rows of all images count. read_rows,
    read_columns: size of the part of the input that is read. item_bytes: size of an input element. weight_item_bytes:
    size of a weight in memory; 0: that of an input element.
    """

    out_channels: int
    in_channels: int
    rows: int
    columns: int
    read_rows: int = 1
    read_columns: int = 1
    item_bytes: int = F32_BYTES
    weight_item_bytes: int = 0


@dataclass(frozen=True)
class TilingRules:
    """The ways in which macro-tiles may cut a kernel, and properties of its register tiles.

    panel: output channels of a row of work that is cut along the channels. packed: weights are packed in panels.
    partial_sums: outputs can hold partial sums between blocks of terms. step_terms: terms of one step of a register
    tile. residual: a residual is added. plain_rows: rows of a block that suits any cache; None: all. channels_outer:
    without a plan, the loop over channels is the outer one. row_blocks: rows can be cut into blocks. shared_prefetch:
    register tiles can share the prefetch of the next channels' weights. single_panels: if work is cut along the
    channels, panels are computed one by one.
    """

    panel: int = 1
    packed: bool = False
    partial_sums: bool = True
    step_terms: int = 1
    residual: bool = False
    plain_rows: int | None = None
    channels_outer: bool = False
    row_blocks: bool = False
    shared_prefetch: bool = False
    single_panels: bool = False


@dataclass(frozen=True)
class SumsOfProducts:
    """A kernel's sums of products, for cache blocking and the choice of register tiles."""

    sizes: SumSizes
    window: Window = Window()
    rules: TilingRules = TilingRules()
