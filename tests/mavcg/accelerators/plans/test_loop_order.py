"""Traffic with halo against loops that are walked one by one, and against equation 6.1 where that is right."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.accelerators.plans.loop_order import loop_order, loop_order_traffic, reloads, traffic_with_halo
from mavcg.accelerators.plans.windows import axes, rows_read
from mavcg.cost.layer import ConvLayer, Dataflow, ItemBytes, Tile, Tiling, trips
from mavcg.cost.traffic import Traffic, reload_input, reload_output, reload_weight, traffic
from tests.conftest import examples

PLAIN = ConvLayer("", 256, 128, 56, 56, 3, 3, 56, 56, pads=(1, 1, 1, 1))


def reads_once(layer: ConvLayer, tiling: Tiling) -> bool:
    """Whether the tiles of the input have each of its elements just once: no halo, no element that nobody reads.

    So it is where neither the maps nor the kernel are cut and all rows are read, and of 1x1 kernels with stride 1.
    """
    tile = tiling.tile
    down, across = axes(layer)
    return (rows_read(down, tile.oh, tile.kh), rows_read(across, tile.ow, tile.kw)) == (layer.ih, layer.iw)


def equals_equation(layer: ConvLayer, tiling: Tiling) -> bool:
    """Whether `traffic_with_halo` is equation 6.1 to the byte: `reads_once`, and no loop vanished that the equation
    takes for a reload."""
    times = reloads(trips(layer, tiling.tile), loop_order(layer, tiling))
    return (
        reads_once(layer, tiling)
        and times.input == reload_input(layer, tiling)
        and times.weight == reload_weight(layer, tiling)
        and 2 * times.output - 1 == reload_output(layer, tiling)
    )


def _walked(layer: ConvLayer, tile: Tile, order: tuple[str, ...]) -> Traffic:
    """Every step of every loop, every element of every tile: what comes and goes when a tile is another one."""
    n, t, items = trips(layer, tile), tile.factors, layer.items
    input_bytes = weight_bytes = output_bytes = 0
    before: dict[str, tuple[int, ...]] = {}
    begun: set[tuple[int, ...]] = set()
    for group, *position in product(range(layer.groups), *(range(n[name]) for name in order)):
        at = dict(zip(order, position, strict=True))
        part = {k: range(at[k] * t[k], min(layer.loops[k], (at[k] + 1) * t[k])) for k in order}
        now = {
            "input": (group, *(at[k] for k in ("IC", "OH", "OW", "KH", "KW"))),
            "weight": (group, *(at[k] for k in ("OC", "IC", "KH", "KW"))),
            "output": (group, *(at[k] for k in ("OC", "OH", "OW"))),
        }
        if now["input"] != before.get("input"):
            rows = _span(part["OH"], part["KH"], layer.stride[0], layer.dilation[0], layer.pads[0], layer.ih)
            columns = _span(part["OW"], part["KW"], layer.stride[1], layer.dilation[1], layer.pads[1], layer.iw)
            input_bytes += len(part["IC"]) * rows * columns * items.input
        if now["weight"] != before.get("weight"):
            weight_bytes += len(part["OC"]) * len(part["IC"]) * len(part["KH"]) * len(part["KW"]) * items.weight
        if now["output"] != before.get("output"):
            elements = len(part["OC"]) * len(part["OH"]) * len(part["OW"])
            # Out once at last; and each time it comes back, once in and once out before.
            output_bytes += elements * (2 * items.psum if now["output"] in begun else items.output)
            begun.add(now["output"])
        before = now
    return Traffic(input_bytes, weight_bytes, output_bytes)


def _span(outs: range, taps: range, stride: int, dilation: int, pad: int, length: int) -> int:
    """Rows from the first to the last that any output reads through any tap, as far as they are in the input."""
    read = [out * stride + tap * dilation - pad for out in outs for tap in taps]
    return len(set(range(min(read), max(read) + 1)) & set(range(length)))


@st.composite
def _cases(draw: st.DrawFn) -> tuple[ConvLayer, Tiling]:
    axes = []
    for _ in (0, 1):
        taps, dilation, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 4))
        before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        span = (taps - 1) * dilation + 1
        length = draw(st.integers(max(1, span - before - after), 8))
        axes.append((length, (length + before + after - span) // stride + 1, taps, stride, dilation, before, after))
    (ih, oh, kh, sh, dh, above, below), (iw, ow, kw, sw, dw, left, right) = axes
    layer = ConvLayer(
        "",
        draw(st.integers(1, 4)),
        draw(st.integers(1, 4)),
        oh,
        ow,
        kh,
        kw,
        ih,
        iw,
        (sh, sw),
        (above, left, below, right),
        (dh, dw),
        draw(st.integers(1, 2)),
        ItemBytes(1, 2, 3, 4),
    )
    tile = Tile(*(draw(st.sampled_from([1, (length + 1) // 2, length])) for length in layer.loops.values()))
    return layer, Tiling(tile, draw(st.sampled_from(Dataflow)))


@given(case=_cases())
@settings(max_examples=examples(150, 6))
def test_traffic_is_what_walking_the_loops_counts(case: tuple[ConvLayer, Tiling]) -> None:
    layer, tiling = case
    order = loop_order(layer, tiling)
    assert sorted(order) == sorted(layer.loops)
    walked = _walked(layer, tiling.tile, order)
    assert traffic_with_halo(layer, tiling) == walked
    if equals_equation(layer, tiling):
        assert traffic(layer, tiling) == walked


@given(case=_cases())
@settings(max_examples=examples(60, 8))
def test_the_stationary_operand_stays_unless_nothing_turns_inside(case: tuple[ConvLayer, Tiling]) -> None:
    layer, tiling = case
    moved = traffic_with_halo(layer, tiling)
    once = loop_order_traffic(layer, tiling.tile, loop_order(layer, Tiling(tiling.tile, Dataflow.INPUT))).input_bytes
    match tiling.dataflow:
        case Dataflow.INPUT if trips(layer, tiling.tile)["OC"] > 1:
            assert moved.input_bytes == once
        case Dataflow.WEIGHT if trips(layer, tiling.tile)["OH"] > 1:
            assert moved.weight_bytes == layer.weight_elements * 2
        case Dataflow.OUTPUT if trips(layer, tiling.tile)["IC"] > 1:
            assert moved.output_bytes == layer.output_elements * 3


def test_figure_7_1_loads_62_rows_of_56() -> None:
    tiling = Tiling(Tile(56, 65, 16, 56, 3, 3), Dataflow.WEIGHT)
    assert traffic_with_halo(PLAIN, tiling).input_bytes == (17 + 18 + 18 + 9) * 56 * 128 * 5 * 4
    assert traffic(PLAIN, tiling).input_bytes == 56 * 56 * 128 * 5 * 4
    assert not reads_once(PLAIN, tiling)


@pytest.mark.parametrize(
    ("tile", "dataflow", "order", "times"),
    [
        # All loops turn: the dataflow decides. times: of input, weights, and output elements moved.
        (Tile(64, 32, 14, 56, 3, 3), Dataflow.WEIGHT, "OC IC KH KW OH OW", (4, 1, 7)),
        (Tile(64, 32, 14, 56, 3, 3), Dataflow.INPUT, "OH OW IC KH KW OC", (1, 4, 7)),
        (Tile(64, 32, 14, 56, 3, 3), Dataflow.OUTPUT, "OC OH OW IC KH KW", (4, 4, 1)),
        # No loop over the maps: nothing is weight stationary any more, and the sums may stay instead.
        (Tile(64, 32, 56, 56, 3, 3), Dataflow.WEIGHT, "OC IC KH KW OH OW", (4, 1, 1)),
        # No loop over the input's channels: the input stays, or else the weights; the smaller is loaded again.
        (Tile(64, 128, 14, 56, 3, 3), Dataflow.OUTPUT, "OH OW OC IC KH KW", (1, 4, 1)),
        (Tile(64, 128, 56, 56, 3, 3), Dataflow.OUTPUT, "OC OH OW IC KH KW", (1, 1, 1)),
    ],
)
def test_order_and_reloads(tile: Tile, dataflow: Dataflow, order: str, times: tuple[int, int, int]) -> None:
    tiling = Tiling(tile, dataflow)
    assert loop_order(PLAIN, tiling) == tuple(order.split())
    moved = traffic_with_halo(PLAIN, tiling)
    rows = {14: 15 + 16 + 16 + 15, 56: 56}[tile.oh]
    assert moved == Traffic(
        times[0] * rows * 56 * 128 * 4, times[1] * PLAIN.weight_elements * 4, times[2] * PLAIN.output_elements * 4
    )


def test_where_the_equation_is_right() -> None:
    one = ConvLayer("", 64, 64, 28, 28, 1, 1, 28, 28)
    for dataflow in Dataflow:
        cut = Tiling(Tile(16, 16, 7, 28, 1, 1), dataflow)
        assert equals_equation(one, cut)
        assert traffic_with_halo(one, cut) == traffic(one, cut)
        assert not equals_equation(PLAIN, Tiling(Tile(64, 32, 14, 56, 3, 3), dataflow))
    # Maps in one tile: no halo. But with them no loop that keeps the weights, and the equation's sums go to and fro.
    assert equals_equation(PLAIN, Tiling(Tile(64, 32, 56, 56, 3, 3), Dataflow.INPUT))
    assert not equals_equation(PLAIN, Tiling(Tile(64, 32, 56, 56, 3, 3), Dataflow.WEIGHT))
    # A stride beyond the kernel leaves rows out at the end, which equation 6.1 loads.
    sparse = ConvLayer("", 8, 8, 14, 14, 1, 1, 28, 28, stride=(2, 2))
    assert not reads_once(sparse, Tiling(Tile(*sparse.loops.values()), Dataflow.OUTPUT))


def test_kernels_that_are_cut_read_windows_of_their_own() -> None:
    layer = ConvLayer("", 1, 1, 4, 4, 3, 1, 6, 4)
    whole, cut = Tile(1, 1, 4, 4, 3, 1), Tile(1, 1, 4, 4, 1, 1)
    assert traffic_with_halo(layer, Tiling(whole, Dataflow.OUTPUT)) == Traffic(6 * 16, 3 * 4, 16 * 4)
    assert traffic_with_halo(layer, Tiling(cut, Dataflow.OUTPUT)) == Traffic(3 * 4 * 16, 3 * 4, 16 * 4)
