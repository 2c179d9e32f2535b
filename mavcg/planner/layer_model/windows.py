"""Rows (or columns) of the input that a tile of the output reads: halo, and padding at the borders."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from mavcg.planner.layer_model.layer import ConvLayer


@dataclass(frozen=True, slots=True)
class InputWindow:
    """Neighbouring rows of the input: `length` of them from `first` on. before, after: rows of padding that a tile
    of the output reads besides.

    A window that is padding and nothing else has no length and begins at 0.
    """

    first: int
    length: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """A layer along one direction. out: rows of output; taps: of the kernel; length: of input, without padding."""

    out: int
    taps: int
    length: int
    stride: int
    dilation: int
    before: int

    def window(self, out_first: int, out_count: int, tap_first: int, tap_count: int) -> InputWindow:
        """Return the rows of input that so many rows of output read through so many taps of the kernel."""
        begin = out_first * self.stride + tap_first * self.dilation - self.before
        span = (out_count - 1) * self.stride + (tap_count - 1) * self.dilation + 1
        first, last = max(0, begin), min(self.length, begin + span)
        if first >= last:
            return InputWindow(0, 0, span, 0) if begin < 0 else InputWindow(0, 0, 0, span)
        return InputWindow(first, last - first, first - begin, begin + span - last)


def axes(layer: ConvLayer) -> tuple[WindowAxis, WindowAxis]:
    """Return the two directions of a layer: down, across."""
    down = WindowAxis(layer.oh, layer.kh, layer.ih, layer.stride[0], layer.dilation[0], layer.pads[0])
    across = WindowAxis(layer.ow, layer.kw, layer.iw, layer.stride[1], layer.dilation[1], layer.pads[1])
    return down, across


def cuts(length: int, part: int) -> Iterator[tuple[int, int]]:
    """Return (first, count) of each tile of a loop; the last one may be shorter."""
    return ((first, min(part, length - first)) for first in range(0, length, part))


@cache
def rows_read(axis: WindowAxis, out_part: int, tap_part: int) -> int:
    """Return the number of rows of input in all windows of an axis that is cut into such tiles: a row counts as often
    as a window has it."""
    return sum(
        axis.window(*out, *taps).length for out in cuts(axis.out, out_part) for taps in cuts(axis.taps, tap_part)
    )
