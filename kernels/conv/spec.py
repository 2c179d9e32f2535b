"""Specs of convolutions of floats, everything that decides their code except the core."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeVar

from mavcg.graph import DTYPES
from mavcg.kernels.gemm.product_types import product_type
from mavcg.kernels.gemm.register_tile import plain_rows
from mavcg.kernels.gemm.tile import Sum, merge_levels
from mavcg.specs.kernel import Machine, View, Words
from mavcg.specs.row_kernel import RowProducts
from mavcg.specs.serialize import spec_format
from mavcg.specs.sums_of_products import SumSizes, SumsOfProducts, TilingRules, Window
from mavcg.specs.work_counts import OperandBytes, TileProduct, WeightReads, WorkCounts

# With fewer rows of pixels than this, threads share the output channels instead.
FEW_ROWS = 4
RUN_PIXELS = 64  # pixels of a run of single ones, whose inputs then stay in a level-1 cache
# Pixels of a row which are fewer than a register tile of three or four vectors of channels may have: in rows of four
# by four vectors such a layer takes 1.16 to 1.3 times as long as in a library of one size, and not if tiles continue in
# the next row (2026-12-01, 5d4cfa64, Intel Xeon with AMX (sapphirerapids)).
NARROW_ROW = 4
MANY_WEIGHTS = 1 << 18  # bytes of weights from which on a level-2 cache does not keep them from row to row


Conv = TypeVar("Conv", bound="Convolution")


class Convolution(RowProducts):
    """Base of the specs of convolutions of all types: how their work is cut into rows.

    groups: number of channel groups. lanes: output channels of a panel of packed weights.
    """

    groups: int
    lanes: int

    @property
    def window(self) -> Window:
        return replace(super().window, groups=self.groups)

    @property
    def free_rows(self) -> bool:
        """True if a run computes only the first rows, as many as it has (docs/lengths.md)."""
        return False

    @property
    def single_pixels(self) -> bool:
        return self.free_rows and super().single_pixels

    @property
    def short_rows(self) -> bool:
        """True if register tiles continue in the next row, as a run sets how long rows are."""
        return False

    @property
    def run_pixels(self) -> int:
        """Pixels among which register tiles are chosen: those of a row, or of several rows of a single one."""
        return min(RUN_PIXELS, self.pixel_rows) if self.single_pixels else self.out.shape[2]

    @property
    def in_runs(self: "Conv") -> "Conv":
        """The same work in rows of run_pixels, for which macro-tiles of single pixels are planned; the last row may be
        longer than the rest of the pixels."""
        pixels, reach = self.run_pixels, (self.kernel[0] - 1) * self.dilation[0]

        def rows(view: View, step: int = 1, more: int = 0) -> View:
            """Return a view in rows of the pixels that a run reads or writes, `step` for each output, and `more`."""
            _, row, _, channel = view.strides
            shape = (1, -(-self.pixel_rows // pixels), (pixels - 1) * step + 1 + more, view.shape[3])
            return View(view.dtype, shape, (0, row * pixels * step, row, channel))

        changed: dict[str, Any] = {"x": rows(self.x, self.stride[0], reach), "out": rows(self.out)}
        changed |= {name: (1, getattr(self, name)[0]) for name in ("kernel", "stride", "dilation")}
        if (residual := getattr(self, "residual", None)) is not None:
            changed["residual"] = rows(residual)
        return replace(self, **changed)

    @property
    def in_channels(self) -> int:
        """Number of input channels of a group."""
        return self.x.shape[3] // self.groups

    @property
    def summed_channels(self) -> int:
        return self.in_channels

    @property
    def out_channels(self) -> int:
        """Number of output channels of a group."""
        return self.out.shape[3] // self.groups

    @property
    def panels(self) -> int:
        """Number of panels of a group."""
        return -(-self.out_channels // self.lanes)

    @property
    @abstractmethod
    def weight_bytes(self) -> int:
        """Size of the packed weights, in bytes."""

    @property
    def by_channels(self) -> bool:
        """True if work is cut along the output channels, because weights have more bytes than images.

        Only pixels of x that a window reads count: with a stride longer than the filter that is a part of x.
        """
        if self.free_rows:
            return False
        enough = self.groups * self.panels >= FEW_ROWS
        seen = min(self.x.elements, self.pixel_rows * self.out.shape[2] * prod(self.kernel) * self.x.shape[3])
        images = seen * DTYPES[self.x.dtype].itemsize + self.out.elements * DTYPES[self.out.dtype].itemsize
        heavy = self.weight_bytes > max(MANY_WEIGHTS, images)
        return enough and (heavy or self.pixel_rows < FEW_ROWS)

    @property
    def products(self) -> SumsOfProducts:
        n, height, width, _ = self.x.shape
        read, stride = (n * height, width), self.stride
        if self.kernel == (1, 1):  # only the pixels at multiples of the stride are read
            read, stride = (self.pixel_rows, self.out.shape[2]), (1, 1)
        sizes = SumSizes(
            self.out_channels, self.in_channels, self.pixel_rows, self.out.shape[2], *read, self.x.item_bytes
        )
        return SumsOfProducts(sizes, replace(self.window, stride=stride), self.tiling_rules)

    @property
    def tiling_rules(self) -> TilingRules:
        """The ways in which macro-tiles may cut the convolution."""
        return TilingRules(self.lanes, row_blocks=True)

    @property
    def rows(self) -> int:
        if 0 in self.out.shape:
            return 0
        return self.groups * self.panels if self.by_channels else self.pixel_rows


@spec_format("conv2d")
@dataclass(frozen=True)
class Conv2d(Convolution):
    """act(bias + convolution + residual) of images of floats, computed as implicit GEMM.

    x, out, residual: N, H, W, C, of f32 or f16, as the weights are; the bias is f32. kernel, stride, dilation: (height,
    width). packed: weights are packed in panels of `lanes` channels, [groups, panels, KH, KW, C/groups, lanes], else
    [O, KH, KW, C/groups] as in the graph. stored: type of packed weights in memory, if it is not that of x: f16, bf16
    or i8 for f32, which are converted when they are loaded; with i8, the bias is [2, O], biases and scales. terms:
    neighbouring terms of a step: of bf16 2 in pairs, 4 in matrices, 16 to 32 in blocks; packed weights keep them
    together, of blocks each two. free_rows: as in Convolution. words: lengths and strides of the images' height and
    width that a run sets. Operands: x, weights, out, bias?, residual?, words.
    A row of work is a row of output pixels, or, where by_channels, a panel of `lanes` output channels of a group.
    """

    x: View
    out: View
    residual: View | None
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    lanes: int
    bias: bool
    packed: bool
    act: str
    act_args: tuple[float, ...]
    stored: str = ""
    terms: int = 1
    free_rows: bool = False
    words: Words = ()

    @property
    def single_pixels(self) -> bool:
        return super().single_pixels and not self.words

    @property
    def short_rows(self) -> bool:
        """True if register tiles continue in the next row, as no cache keeps the weights from row to row: a run sets
        how long rows are, or how many there are of a few pixels each."""
        if self.weight_bytes < MANY_WEIGHTS or self.single_pixels:
            return False
        narrow = self.free_rows and self.product_type == "f32" and 0 < self.out.shape[2] <= NARROW_ROW
        return narrow or any(path == "out.shape.2" for path, _ in self.words)

    @property
    def product_type(self) -> str:
        """Type of products: that of x, or of pairs, matrices or blocks of bf16."""
        return product_type(self.x.dtype, self.terms)

    @property
    def tile_type(self) -> str:
        """Type by which register tiles are chosen: that of products, or of f32 weights in 8 bits, which are widened."""
        return self.stored if self.stored == "i8" else self.product_type

    @property
    def family(self) -> str:
        stored = f"_{self.stored}_weights" if self.stored else ""
        return f"conv2d_{self.x.dtype}{stored}" if self.packed else f"conv2d_{self.x.dtype}_unpacked"

    @property
    def weight_item_bytes(self) -> int:
        """Size of a weight in memory, in bytes."""
        return DTYPES[self.stored or self.x.dtype].itemsize

    @property
    def products(self) -> SumsOfProducts:
        whole = super().products
        return replace(whole, sizes=replace(whole.sizes, weight_item_bytes=self.weight_item_bytes))

    @property
    def tiling_rules(self) -> TilingRules:
        row_bytes = self.out.shape[2] * self.stride[1] * self.stride[0] * self.x.shape[3] * self.item_bytes
        rows = None if self.by_channels else plain_rows(row_bytes)
        return replace(
            super().tiling_rules,
            packed=self.packed,
            residual=self.residual is not None,
            plain_rows=rows,
            partial_sums=self.x.dtype == "f32",
            shared_prefetch=self.packed,
            step_terms=self.terms,
        )

    @property
    def panel_channels(self) -> int:
        return self.lanes if self.packed else 0

    @property
    def weight_bytes(self) -> int:
        channels = self.groups * self.panels * self.lanes
        return channels * self.window.taps * self.in_channels * self.weight_item_bytes

    def counts(self, machine: Machine, weight_bytes: float) -> WorkCounts:
        pixels, terms = self.run_pixels, self.in_channels * self.window.taps
        times = self.out.shape[2] * self.pixel_rows // pixels * self.groups
        return WorkCounts(
            products=(TileProduct("product_implicit", pixels, self.out_channels, terms, times),),
            read=OperandBytes(self.x.elements * self.item_bytes),
            written=OperandBytes(self.out.elements * self.out.item_bytes),
            weights=WeightReads(self.out.shape[3] * terms * self.weight_item_bytes),
        )


def conv_sum(spec: Conv2d) -> Sum:
    """Return the loops of a sum: rows of taps, taps, input channels; contiguous ones are merged into one level.

    A term of products of pairs, matrices or blocks is several bf16.
    """
    (_, row, col, _), size = spec.x.strides, spec.item_bytes
    step = size * spec.terms
    return merge_levels(
        [
            (spec.kernel[0], spec.dilation[0] * row * size),
            (spec.kernel[1], spec.dilation[1] * col * size),
            (spec.in_channels // spec.terms, step),
        ],
        step,
    )
