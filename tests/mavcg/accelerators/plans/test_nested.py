"""Traffic through several levels against loops that are walked tile by tile."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.accelerators.plans import nested
from mavcg.accelerators.plans.loop_order import traffic_with_halo
from mavcg.accelerators.plans.windows import axes, cuts, rows_read
from mavcg.cost.layer import ConvLayer, Dataflow, ItemBytes, Tile, Tiling
from mavcg.errors import MavcgError
from tests.conftest import examples

GROUPS = (("OC",), ("OH", "OW"), ("IC", "KH", "KW"))
LOOPS = ("OC", "IC", "OH", "OW", "KH", "KW")


@st.composite
def layers(draw: st.DrawFn) -> ConvLayer:
    oc, ic, oh, ow = (draw(st.integers(1, 6)) for _ in range(4))
    kh, kw = (draw(st.integers(1, 3)) for _ in range(2))
    stride, dilation = ((draw(st.integers(1, 2)), draw(st.integers(1, 2))) for _ in range(2))
    top, left = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    down, across = (oh - 1) * stride[0] + (kh - 1) * dilation[0] + 1, (ow - 1) * stride[1] + (kw - 1) * dilation[1] + 1
    return ConvLayer(
        "small",
        oc,
        ic,
        oh,
        ow,
        kh,
        kw,
        max(1, down - 2 * top),
        max(1, across - 2 * left),
        stride,
        (top, left, top, left),
        dilation,
        draw(st.integers(1, 2)),
        ItemBytes(1, 2, 3, 4),
    )


@st.composite
def cut_layers(draw: st.DrawFn) -> tuple[ConvLayer, Tile, Tile]:
    """A layer with a tile and a tile of that."""
    layer = draw(layers())
    outer = [draw(st.integers(1, length)) for length in layer.loops.values()]
    return layer, Tile(*outer), Tile(*(draw(st.integers(1, length)) for length in outer))


def walked(layer: ConvLayer, outer: Tile, inner: Tile, order: tuple[str, ...]) -> int:
    """Bytes into the inner level of one group: within each outer tile, whatever tile is not the one there comes."""
    down, across = axes(layer)
    items = layer.items
    total = 0
    stored: set[tuple[tuple[int, int], ...]] = set()
    outer_cuts = [list(cuts(layer.loops[name], outer.factors[name])) for name in LOOPS]
    for behind in product(*outer_cuts):
        parts = {
            name: [(first + start, count) for start, count in cuts(length, inner.factors[name])]
            for name, (first, length) in zip(LOOPS, behind, strict=True)
        }
        there: dict[str, tuple[tuple[int, int], ...]] = {}
        for position in product(*(parts[name] for name in order)):
            at = dict(zip(order, position, strict=True))
            needs = {
                "input": (at["IC"], at["OH"], at["OW"], at["KH"], at["KW"]),
                "weight": (at["OC"], at["IC"], at["KH"], at["KW"]),
                "output": (at["OC"], at["OH"], at["OW"]),
            }
            channels, rows = at["IC"][1], down.window(*at["OH"], *at["KH"]).length
            sizes = {
                "input": items.input * channels * rows * across.window(*at["OW"], *at["KW"]).length,
                "weight": items.weight * at["OC"][1] * channels * at["KH"][1] * at["KW"][1],
            }
            for name, size in sizes.items():
                total += size * (there.get(name) != needs[name])
            if there.get("output") != needs["output"]:
                elements = at["OC"][1] * at["OH"][1] * at["OW"][1]
                again = needs["output"] in stored
                total += elements * (2 * items.psum if again else items.output)
                stored.add(needs["output"])
            there = needs
    return total


def best_walk(layer: ConvLayer, outer: Tile, inner: Tile) -> int:
    orders = (tuple(name for group in groups for name in group) for groups in permutations(GROUPS))
    return layer.groups * min(walked(layer, outer, inner, order) for order in orders)


def best_counted(layer: ConvLayer, outer: Tile, inner: Tile) -> int:
    return min(
        nested.traffic_of_levels(layer, (Tiling(inner, flow), Tiling(outer, Dataflow.OUTPUT)))[0].total_bytes
        for flow in Dataflow
    )


@settings(max_examples=examples(40, 5))
@given(cut_layers())
def test_what_is_counted_is_enough_for_the_loops(made: tuple[ConvLayer, Tile, Tile]) -> None:
    layer, outer, inner = made
    assert best_walk(layer, outer, inner) <= best_counted(layer, outer, inner)


@settings(max_examples=examples(40, 5))
@given(cut_layers())
def test_what_is_counted_is_what_the_loops_move(made: tuple[ConvLayer, Tile, Tile]) -> None:
    """Exactly so where all tiles behind have the same number of tiles."""
    layer, outer, inner = made
    for name, length in layer.loops.items():
        counts = {-(-part // inner.factors[name]) for _, part in cuts(length, outer.factors[name])}
        if len(counts) > 1:
            outer = Tile(**{key.lower(): value for key, value in (outer.factors | {name: length}).items()})
    assert best_walk(layer, outer, inner) == best_counted(layer, outer, inner)


@settings(max_examples=examples(100, 5))
@given(cut_layers())
def test_one_level_is_traffic_with_halo(made: tuple[ConvLayer, Tile, Tile]) -> None:
    layer, _, tile = made
    counted = [nested.traffic_of_levels(layer, (Tiling(tile, flow),))[0].total_bytes for flow in Dataflow]
    assert min(counted) == min(traffic_with_halo(layer, Tiling(tile, flow)).total_bytes for flow in Dataflow)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_cuts_of_cuts(length: int, outer: int, inner: int) -> None:
    pieces = nested.cut(nested.cut(np.array([[0, length]]), outer), inner)
    expected = [(f + g, n) for f, count in cuts(length, outer) for g, n in cuts(count, inner)]
    assert pieces.tolist() == [list(pair) for pair in expected]


@given(cut_layers())
def test_rows_of_all_windows(made: tuple[ConvLayer, Tile, Tile]) -> None:
    layer, tile, _ = made
    pieces = nested.cut_all(nested.whole(layer), tile)
    down, _ = axes(layer)
    assert nested.rows_of(down, pieces["OH"], pieces["KH"]) == rows_read(down, tile.oh, tile.kh)


def test_a_tile_larger_than_the_one_behind_it() -> None:
    layer = ConvLayer("conv", 8, 8, 4, 4, 1, 1, 4, 4)
    tilings = (Tiling(Tile(8, 8, 4, 4, 1, 1), Dataflow.INPUT), Tiling(Tile(8, 4, 4, 4, 1, 1), Dataflow.INPUT))
    with pytest.raises(MavcgError, match=r"layer conv: levels\[0\] has a tile of 8 along IC; the next level out has 4"):
        nested.traffic_of_levels(layer, tilings)
