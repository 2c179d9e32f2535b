"""Rows (or columns) of the input that a tile of the output reads: halo, and padding at the borders."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from mavcg.cost.layer import ConvLayer


@dataclass(frozen=True, slots=True)
class InputWindow:
    """Input rows that a tile of the output reads: `length` rows from `first` on.

    before, after: rows of padding around them. A window of padding alone has length 0 and begins at 0.
    """

    first: int
    length: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """One dimension of a layer.

    out: output rows. taps: of the kernel. length: input rows without padding. before: rows of padding before them.
    """

    out: int
    taps: int
    length: int
    stride: int
    dilation: int
    before: int

    def window(self, out_first: int, out_count: int, tap_first: int, tap_count: int) -> InputWindow:
        """Return the input rows that out_count output rows read through tap_count taps of the kernel."""
        begin = out_first * self.stride + tap_first * self.dilation - self.before
        span = (out_count - 1) * self.stride + (tap_count - 1) * self.dilation + 1
        first, last = max(0, begin), min(self.length, begin + span)
        if first >= last:
            return InputWindow(0, 0, span, 0) if begin < 0 else InputWindow(0, 0, 0, span)
        return InputWindow(first, last - first, first - begin, begin + span - last)


def axes(layer: ConvLayer) -> tuple[WindowAxis, WindowAxis]:
    """Return the vertical and the horizontal axis of a layer."""
    down = WindowAxis(layer.oh, layer.kh, layer.ih, layer.stride[0], layer.dilation[0], layer.pads[0])
    across = WindowAxis(layer.ow, layer.kw, layer.iw, layer.stride[1], layer.dilation[1], layer.pads[1])
    return down, across


def cuts(length: int, part: int) -> Iterator[tuple[int, int]]:
    """Return (first, count) of each tile of a loop; the last one may be shorter."""
    return ((first, min(part, length - first)) for first in range(0, length, part))


@cache
def rows_read(axis: WindowAxis, out_part: int, tap_part: int) -> int:
    """Return the sum of the lengths of all windows of an axis in tiles of out_part outputs and tap_part taps.

    A row counts once for each window that contains it.
    """
    return sum(
        axis.window(*out, *taps).length for out in cuts(axis.out, out_part) for taps in cuts(axis.taps, tap_part)
    )
