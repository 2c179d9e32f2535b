"""Compute each instruction on int8 arrays [rows, columns, channels], as the manual's section on semantics defines."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from mavcg.accelerators.fixed_point import shift_round, wrap32
from mavcg.accelerators.isa.forms import ELTWISE
from mavcg.graph import Array

Values = Mapping[str, int]
_EXACT_F32 = 1 << 24


def finish(v: Values, sums: Array, shift: Array | int, rounding: str) -> Array:
    """Shift sums, multiply negative sums by the slope, add the zero point, and saturate to lo..hi.

    v: the instruction's fields. Returns: int8.
    """
    shifted = shift_round(sums, shift, rounding)
    if v["leaky"]:
        negative = shift_round(sums * v["slope"], np.asarray(shift) + 8, rounding)
        shifted = np.where(sums < 0, negative, shifted)
    return np.asarray(np.clip(shifted + v["zero"], v["lo"], v["hi"]).astype(np.int8))


def _window(v: Values, x: Array, outside: int) -> Iterator[tuple[int, int, Array]]:
    """Yield each position in the window with the elements that all windows have there; `outside` beyond the tile."""
    rows = np.arange(v["out_rows"]) * v["stride_rows"] - v["pad_top"]
    columns = np.arange(v["out_columns"]) * v["stride_columns"] - v["pad_left"]
    for row in range(v["kernel_rows"]):
        for column in range(v["kernel_columns"]):
            r, c = rows + row * v["dilation_rows"], columns + column * v["dilation_columns"]
            yield row, column, _pick_pixels(x, r, c, outside)


def _pick_pixels(x: Array, rows: Array, columns: Array, outside: int) -> Array:
    """Return the pixels x[rows, columns], with `outside` for an index beyond x or -1 (not an integer)."""
    inside_r, inside_c = (rows >= 0) & (rows < x.shape[0]), (columns >= 0) & (columns < x.shape[1])
    if inside_r.all() and inside_c.all():
        return np.asarray(x[np.ix_(rows, columns)])
    seen = np.full((len(rows), len(columns), x.shape[2]), outside, x.dtype)
    seen[np.ix_(inside_r, inside_c)] = x[np.ix_(rows[inside_r], columns[inside_c])]
    return seen


def _transposed_window(v: Values, x: Array) -> Iterator[tuple[int, int, Array]]:
    """Yield each position of the kernel with the inputs that contribute to each output there, and 0 where none does."""

    def sources(length: int, pad: int, offset: int, stride: int) -> Array:
        at = np.arange(length) + pad - offset
        return np.where(at % stride == 0, at // stride, -1)

    for row in range(v["kernel_rows"]):
        rows = sources(v["out_rows"], v["pad_top"], row * v["dilation_rows"], v["stride_rows"])
        for column in range(v["kernel_columns"]):
            offset = column * v["dilation_columns"]
            columns = sources(v["out_columns"], v["pad_left"], offset, v["stride_columns"])
            yield row, column, _pick_pixels(x, rows, columns, 0)


def convolution_sums(mode: str, v: Values, x: Array, weights: Array) -> Array:
    """Return the sums of products as int64, [out_rows, out_columns, out_channels], without bias.

    x: int8 [rows, columns, channels]. weights: int8 [out_channels, kernel_rows, kernel_columns, channels]; 1 channel
    for depthwise.
    """
    terms = weights.shape[1] * weights.shape[2] * weights.shape[3]
    kind = np.float32 if terms * 128 * 128 < _EXACT_F32 else np.float64  # sums of either are exact
    x, weights = x.astype(kind), weights.astype(kind)
    total = np.zeros((v["out_rows"], v["out_columns"], v["out_channels"]), kind)
    window = _transposed_window(v, x) if mode == "transposed" else _window(v, x, v["outside"])
    for row, column, seen in window:
        tap = weights[:, row, column, :]
        total += seen * tap[:, 0] if mode == "depthwise" else np.matmul(seen, tap.T)
    return total.astype(np.int64)


def convolution_result(
    v: Values, sums: Array, start: Array, scale: tuple[Array, Array], rounding: str
) -> tuple[Array, Array]:
    """Return the 32-bit sums that begin at `start` (bias or earlier sums), and the int8 result.

    scale: shift and multiplier of each output channel.
    """
    total = wrap32(sums + start)
    return total, finish(v, total * scale[1], scale[0], rounding)


def pool(mode: str, v: Values, x: Array, rounding: str) -> Array:
    """Return the maximum or average of each window; positions outside of the tile do not count."""
    if mode == "max":
        greatest = np.full((v["out_rows"], v["out_columns"], v["channels"]), -128, np.int8)
        for _, _, seen in _window(v, x, -128):
            np.maximum(greatest, seen, out=greatest)
        return finish(v, greatest.astype(np.int64), v["shift"], rounding)
    total = np.zeros((v["out_rows"], v["out_columns"], v["channels"]), np.int64)
    for _, _, seen in _window(v, x.astype(np.int64) - v["from_zero"], 0):
        total += seen
    return finish(v, total * v["multiplier"], v["shift"], rounding)


_ELTWISE: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "copy": lambda a, _: a,
}


def eltwise(v: Values, first: Array, second: Array, rounding: str) -> Array:
    """Combine two tiles element by element."""
    a, b = (
        (x.astype(np.int64) - v[f"{name}_zero"]) * (v[f"{prefix}multiplier"] or 1) << v[f"{prefix}left"]
        for x, name, prefix in ((first, "from", ""), (second, "second", "second_"))
    )
    return finish(v, _ELTWISE[ELTWISE[v["op"]]](a, b), v["shift"], rounding)


def upsample(v: Values, x: Array, rounding: str) -> Array:
    """Repeat pixels (nearest neighbour)."""
    rows = (v["phase_row"] + np.arange(v["out_rows"])) // v["factor_rows"]
    columns = (v["phase_column"] + np.arange(v["out_columns"])) // v["factor_columns"]
    return finish(v, x[np.ix_(rows, columns)].astype(np.int64), v["shift"], rounding)


def reorganise(v: Values, x: Array, rounding: str) -> Array:
    """Move blocks of pixels to channels (space to depth), in the order block row, block column, channel."""
    rows, columns, fr, fc = v["out_rows"], v["out_columns"], v["factor_rows"], v["factor_columns"]
    moved = x.reshape(rows, fr, columns, fc, -1).transpose(0, 2, 1, 3, 4).reshape(rows, columns, -1)
    return finish(v, moved.astype(np.int64), v["shift"], rounding)
