"""Equations 6.1 to 6.5 against sums by hand, and against walking the off-chip loops and counting the moves."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis.strategies import DrawFn, composite, integers, sampled_from

from mavcg.cost.layer import ConvLayer, Dataflow, ItemBytes, Tile, Tiling, trips
from mavcg.cost.traffic import Traffic, no_reload, reload_input, reload_output, reload_psum, reload_weight, traffic

# What a tile of each operand is made of; halos are in no equation.
INDEXED_BY = {
    "input": ("IC", "OH", "OW"),
    "weight": ("OC", "IC", "KH", "KW"),
    "output": ("OC", "OH", "OW"),
}
# Outermost first: the loops that keep an operand in place are the innermost ones (paper, 5.3).
ORDERS = {
    Dataflow.INPUT: ("OW", "OH", "IC", "KH", "KW", "OC"),
    Dataflow.WEIGHT: ("OC", "IC", "KH", "KW", "OH", "OW"),
    Dataflow.OUTPUT: ("OC", "OW", "OH", "KH", "KW", "IC"),
}

# VGG-16's ninth convolution (paper, 5.2), cut into 4 x 2 x 2 tiles.
NINTH = ConvLayer("conv9", 512, 512, 28, 28, 3, 3, 28, 28, pads=(1, 1, 1, 1))
CUT = Tile(128, 256, 14, 28, 3, 3)


def simulated(layer: ConvLayer, tiling: Tiling) -> tuple[int, int, int]:
    """How often each tile of input, weights, output is moved, all tiles together: one of each operand is on chip.

    An output tile that leaves before it is complete comes in again: two moves a visit but for the first one's.
    """
    n = trips(layer, tiling.tile)
    order = ORDERS[tiling.dataflow]
    there: dict[str, tuple[int, ...]] = {}
    loads = dict.fromkeys(INDEXED_BY, 0)
    begun: set[tuple[int, ...]] = set()
    for step in product(*(range(n[name]) for name in order)):
        at = dict(zip(order, step, strict=True))
        for operand, names in INDEXED_BY.items():
            wanted = tuple(at[name] for name in names)
            if there.get(operand) != wanted:
                there[operand] = wanted
                loads[operand] += 1
                if operand == "output":
                    loads[operand] += wanted in begun
                    begun.add(wanted)
    return loads["input"], loads["weight"], loads["output"]


def counted(layer: ConvLayer, tiling: Tiling) -> tuple[int, int, int]:
    """The same by the equations: reload factors times tiles."""
    n = trips(layer, tiling.tile)
    tiles = {operand: 1 for operand in INDEXED_BY}
    for operand, names in INDEXED_BY.items():
        for name in names:
            tiles[operand] *= n[name]
    return (
        tiles["input"] * reload_input(layer, tiling),
        tiles["weight"] * reload_weight(layer, tiling),
        tiles["output"] * reload_output(layer, tiling),
    )


@composite
def tilings(draw: DrawFn, least_trips: int) -> tuple[ConvLayer, Tiling]:
    factors, loops = [], []
    for _ in range(6):
        n, factor = draw(integers(least_trips, 3)), draw(integers(1, 3))
        loops.append(draw(integers((n - 1) * factor + 1, n * factor)))
        factors.append(min(factor, loops[-1]))
    oc, ic, oh, ow, kh, kw = loops
    layer = ConvLayer("small", oc, ic, oh, ow, kh, kw, oh + kh - 1, ow + kw - 1)
    return layer, Tiling(Tile(*factors), draw(sampled_from(list(Dataflow))))


@pytest.mark.parametrize(
    ("dataflow", "reloads"),
    [
        (Dataflow.INPUT, (1, 2, 3)),  # OC's 4 trips keep the input; OH has 2; IC has 2: out, in, out
        (Dataflow.WEIGHT, (4, 1, 3)),
        (Dataflow.OUTPUT, (4, 2, 1)),
    ],
)
def test_bytes_are_those_worked_out_by_hand(dataflow: Dataflow, reloads: tuple[int, int, int]) -> None:
    in_bytes, weight_bytes, out_bytes = 4 * 512 * 28 * 28, 4 * 512 * 512 * 9, 4 * 512 * 28 * 28
    moved = traffic(NINTH, Tiling(CUT, dataflow))
    assert moved == Traffic(in_bytes * reloads[0], weight_bytes * reloads[1], out_bytes * reloads[2])
    assert moved.total_bytes == sum((in_bytes * reloads[0], weight_bytes * reloads[1], out_bytes * reloads[2]))


def test_a_kernel_in_pieces_moves_input_and_partial_sums() -> None:
    tiling = Tiling(replace(CUT, kh=1, kw=2), Dataflow.WEIGHT)
    assert reload_input(NINTH, tiling) == 3 * 2 * 4
    assert reload_psum(NINTH, tiling.tile) == 2 * (3 * 2 * 2 - 1)


def test_partial_sums_have_their_own_bytes() -> None:
    layer = replace(NINTH, items=ItemBytes(input=1, weight=1, output=1, psum=4))
    moved = traffic(layer, Tiling(CUT, Dataflow.WEIGHT))
    assert moved == Traffic(512 * 784 * 4, 512 * 512 * 9, 512 * 784 * (1 + 2 * 4))


def test_groups_are_convolutions_side_by_side() -> None:
    one, many = NINTH, replace(NINTH, groups=3)
    for dataflow in Dataflow:
        single = traffic(one, Tiling(CUT, dataflow))
        assert traffic(many, Tiling(CUT, dataflow)) == single + single + single


def test_a_layer_in_one_tile_moves_everything_once() -> None:
    for dataflow in Dataflow:
        assert traffic(NINTH, Tiling(Tile(*NINTH.loops.values()), dataflow)) == no_reload(NINTH)


@given(tilings(least_trips=2))
def test_equations_count_the_moves(case: tuple[ConvLayer, Tiling]) -> None:
    assert counted(*case) == simulated(*case)


@given(tilings(least_trips=1))
def test_where_loops_vanish_no_more_is_moved_than_counted(case: tuple[ConvLayer, Tiling]) -> None:
    # The equations keep a reload that the walk has not: a tile that a vanished loop leaves in place.
    for walked, said in zip(simulated(*case), counted(*case), strict=True):
        assert walked <= said


@given(tilings(least_trips=1))
def test_never_less_than_everything_once(case: tuple[ConvLayer, Tiling]) -> None:
    layer, tiling = case
    found, least = traffic(layer, tiling), no_reload(layer)
    assert found.input_bytes >= least.input_bytes
    assert found.weight_bytes >= least.weight_bytes
    assert found.output_bytes >= least.output_bytes
