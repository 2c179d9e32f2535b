"""Windows of a convolution or pool over an input tile: which input each position meets, along one axis."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth import Module, Signal, signed

from mavcg.accelerators.rtl.sizes import ADDRESS_BITS

# Rows or columns, counted from the tile's first: 2^20 windows with a stride of up to 2^10.
POSITION_BITS = 32


@dataclass(frozen=True)
class WindowDistances:
    """Words between windows, between positions of a window, and from the tile's begin to its padding, by axis."""

    stride: Mapping[str, Any]
    dilation: Mapping[str, Any]
    pad: Mapping[str, Any]


@dataclass(frozen=True)
class AxisWindows:
    """The position of a window's element along an axis.

    begin, next_position, next_window: to be set to 1 to begin, to go to the next position of the kernel (after the last
    one to the first), and to go to the next window (after the last one to the first) with it. at: row or column of the
    tile; offset: its words. inside: it lies in the tile. kernel_begins, kernel_ends: at the first and last position.
    windows_left: windows of the result from this one on.
    """

    begin: Any
    next_position: Any
    next_window: Any
    at: Any
    offset: Any
    inside: Any
    kernel_begins: Any
    kernel_ends: Any
    windows_left: Any


def window_distances(m: Module, name: str, v: Mapping[str, Any]) -> WindowDistances:
    """Return the distances, of which those of rows are valid two cycles after the instruction."""
    row = {}
    for kind, field in (("stride", "stride_rows"), ("dilation", "dilation_rows"), ("pad", "pad_top")):
        row[kind] = Signal(ADDRESS_BITS, name=f"{name}_{kind}_words")
        m.d.sync += row[kind].eq((v["from_row"] * v[field])[:ADDRESS_BITS])
    return WindowDistances(
        {"row": row["stride"], "column": v["stride_columns"]},
        {"row": row["dilation"], "column": v["dilation_columns"]},
        {"row": row["pad"], "column": v["pad_left"]},
    )


def window_axis(
    m: Module, name: str, v: Mapping[str, Any], axis: str, distances: WindowDistances, windows: int = 1
) -> AxisWindows:
    """Build the counters of an axis, "row" or "column". windows: so many windows are visited together."""
    begin, position, window = (Signal(name=f"{name}_{part}") for part in ("begin", "next", "next_window"))
    at, window_at, count = (
        Signal(signed(POSITION_BITS), name=f"{name}_at"),
        Signal(signed(POSITION_BITS), name=f"{name}_window_at"),
        Signal(10, name=f"{name}_count"),
    )
    offset, window_offset = (Signal(ADDRESS_BITS, name=f"{name}_{part}") for part in ("offset", "window_offset"))
    left = Signal(20, name=f"{name}_windows_left")
    pad = v["pad_top"] if axis == "row" else v["pad_left"]
    first, first_offset = -pad, -distances.pad[axis]
    ends = count == 1
    with m.If(begin):
        m.d.sync += [one.eq(first) for one in (at, window_at)] + [
            one.eq(first_offset) for one in (offset, window_offset)
        ]
        m.d.sync += [count.eq(v[f"kernel_{axis}s"]), left.eq(v[f"out_{axis}s"])]
    with m.Elif(window):
        following, following_offset = (
            window_at + v[f"stride_{axis}s"] * windows,
            window_offset + distances.stride[axis] * windows,
        )
        m.d.sync += [one.eq(following) for one in (at, window_at)]
        m.d.sync += [one.eq(following_offset) for one in (offset, window_offset)]
        m.d.sync += [count.eq(v[f"kernel_{axis}s"]), left.eq(left - windows)]
        with m.If(left <= windows):
            m.d.sync += [one.eq(first) for one in (at, window_at)]
            m.d.sync += [one.eq(first_offset) for one in (offset, window_offset)]
            m.d.sync += left.eq(v[f"out_{axis}s"])
    with m.Elif(position):
        m.d.sync += [at.eq(at + v[f"dilation_{axis}s"]), offset.eq(offset + distances.dilation[axis])]
        m.d.sync += count.eq(count - 1)
        with m.If(ends):
            m.d.sync += [at.eq(window_at), offset.eq(window_offset), count.eq(v[f"kernel_{axis}s"])]
    inside = (at >= 0) & (at < v[f"{axis}s"])
    return AxisWindows(begin, position, window, at, offset, inside, count == v[f"kernel_{axis}s"], ends, left)
