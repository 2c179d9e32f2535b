"""Ranges that tiles need: exactly the positions that the windows of their results touch."""

from hypothesis import given
from hypothesis import strategies as st

from mavcg.accelerators.fusion.intervals import hull, needed_range, needed_ranges, tile_ranges
from mavcg.accelerators.shapes import result_shape
from mavcg.accelerators.xgraph import XGraph, XNode

SMALL = st.integers(1, 3)


@given(
    st.sampled_from(["conv", "max_pool", "deconv", "upsample", "reorganise", "eltwise"]),
    SMALL,
    SMALL,
    SMALL,
    st.integers(0, 2),
    st.integers(1, 9),
    st.data(),
)
def test_ranges_have_what_windows_touch(
    kind: str, kernel: int, stride: int, dilation: int, pad: int, extra: int, data: st.DataObject
) -> None:
    span = dilation * (kernel - 1) + 1
    pad, length = min(pad, span - 1), extra + span
    factor = stride if kind in ("upsample", "reorganise") else 1
    length *= factor
    node = XNode(
        "y",
        kind,
        ("x",),
        (1, 1, 1, 1),
        (kernel, kernel),
        (stride, stride),
        (dilation, dilation),
        (pad,) * 4,
        op="copy",
        factor=(factor, factor),
    )
    made = result_shape(XGraph("g", (), ()), node, [(1, length, length, 1)])[1]
    low = data.draw(st.integers(0, made - 1))
    high = data.draw(st.integers(low + 1, made))

    def positions(out: int) -> set[int]:
        if kind in ("conv", "max_pool"):
            return {out * stride - pad + k * dilation for k in range(kernel)}
        if kind == "deconv":
            return {i for i in range(length) for k in range(kernel) if i * stride + k * dilation - pad == out}
        if kind == "reorganise":
            return set(range(out * factor, (out + 1) * factor))
        return {out // factor}

    inside = {i for out in range(low, high) for i in positions(out) if 0 <= i < length}
    first, end = needed_range(node, 0, (low, high), length)

    assert inside <= set(range(first, end))
    if kind != "deconv" and inside:
        assert (first, end) == (min(inside), max(inside) + 1)
    if kind == "deconv" and inside:  # taps that lie between positions need nothing; the range may begin with them
        assert first >= min(inside) - dilation * kernel and end <= max(inside) + 1 + dilation * kernel


def test_ranges_of_a_group() -> None:
    nodes = (
        XNode("a", "conv", ("x",), (1, 8, 8, 1), (3, 3), pads=(1, 1, 1, 1)),
        XNode("b", "max_pool", ("a",), (1, 4, 4, 1), (2, 2), (2, 2)),
    )
    lengths = {"x": 8, "a": 8, "b": 4}

    assert needed_ranges(nodes, {"b": (0, 2)}, lengths, 0) == {"b": (0, 2), "a": (0, 4), "x": (0, 5)}
    assert needed_ranges(nodes, {"b": (2, 4)}, lengths, 0) == {"b": (2, 4), "a": (4, 8), "x": (3, 8)}


def test_tiles_and_hulls() -> None:
    assert tile_ranges(10, 4) == [(0, 4), (4, 8), (8, 10)]
    assert hull(None, (1, 2)) == hull((0, 0), (1, 2)) == hull((1, 2), (3, 3)) == (1, 2)
    assert hull((1, 2), (5, 6)) == (1, 6)


def test_a_tile_that_a_result_does_not_reach_needs_nothing_of_its_inputs() -> None:
    """A sum with its global average beside a larger result: the average has one row, in the first tile."""
    total = XNode("total", "eltwise", ("other", "conv"), (1, 32, 32, 8), op="add")
    mean = XNode("mean", "avg_pool", ("total",), (1, 1, 1, 8), kernel=(32, 32))
    lengths = {"other": 32, "conv": 32, "total": 32, "mean": 1}

    ranges = needed_ranges([total, mean], {"conv": (4, 8), "mean": (1, 1)}, lengths, 0)

    assert ranges == {"conv": (4, 8), "mean": (1, 1), "total": (0, 0), "other": (0, 0)}
