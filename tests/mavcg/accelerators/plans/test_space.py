"""Algorithms 1 to 3, the fit test and the candidates, on figure 6.4's layer and at the edges."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from math import prod

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, builds, integers, tuples

from mavcg.accelerators.plans import grid, space
from mavcg.accelerators.plans.space import NoTiling
from mavcg.cost.layer import ConvLayer, Dataflow, ItemBytes, Tile
from mavcg.cost.traffic import tile_bytes
from mavcg.hardware.accelerator import Accelerator, MemoryLevel

MakeAccelerator = Callable[..., Accelerator]

# Figure 6.4: 512 x 256 x 56 off-chip loops, which begin at 32, 32, 1; what it leaves out is made 56 and 3 x 3.
FIGURE = ConvLayer("figure", 512, 256, 56, 56, 3, 3, 56, 56, pads=(1, 1, 1, 1))
# Room for all rows of 32 channels, and for no more than 64 x 32 kernels.
FIGURE_MACHINE = Accelerator(
    "figure",
    1.0,
    (MemoryLevel("on-chip", 1.0, 4 * 32 * 56 * 56, 4 * 64 * 32 * 9, 4 * 32 * 56 * 56),),
    (32, 32),
    (("IC",), ("OC",)),
)

layers = builds(
    lambda oc, ic, oh, ow, k, stride, groups: ConvLayer(
        "any", oc, ic, oh, ow, k, k, (oh - 1) * stride + k, (ow - 1) * stride + k, (stride, stride), groups=groups
    ),
    *(integers(1, 9) for _ in range(2)),
    *(integers(1, 6) for _ in range(2)),
    integers(1, 3),
    integers(1, 3),
    integers(1, 2),
)


def test_figure_6_4() -> None:
    assert space.initial_tile(FIGURE, FIGURE_MACHINE) == Tile(32, 32, 1, 56, 3, 3)
    lowest = space.lower_bound(FIGURE, FIGURE_MACHINE)
    assert lowest == Tile(32, 32, 56, 56, 3, 3)
    assert space.loop_order(FIGURE, lowest)[:2] == ("OC", "IC")  # 16 trips against 8: interchanged


def test_loops_shorter_than_the_array() -> None:
    product = ConvLayer("fc", 10, 3, 1, 1, 1, 1, 1, 1)
    assert space.initial_tile(product, FIGURE_MACHINE) == Tile(*product.loops.values())
    assert space.size(space.axes(product, FIGURE_MACHINE, Tile(*product.loops.values()))) == 3


def test_a_width_that_the_array_works_along_is_cut() -> None:
    # Line 7 of algorithm 1 comes after line 3: the mapping wins.
    lanes = replace(FIGURE_MACHINE, pe_len=(4, 16), pe_mapping=(("OW",), ("OC", "IC")))
    tile = space.initial_tile(FIGURE, lanes)
    assert tile == Tile(16, 1, 1, 4, 3, 3)
    axes = space.axes(FIGURE, lanes, tile)
    assert axes["OW"].tolist() == list(range(4, 57, 4))
    assert axes["IC"].tolist() == list(range(1, 257))
    assert axes["KH"].tolist() == [3]


def test_steps_of_the_array_and_the_remainder() -> None:
    layer = replace(FIGURE, oc=70)
    axes = space.axes(layer, FIGURE_MACHINE, space.initial_tile(layer, FIGURE_MACHINE))
    assert axes["OC"].tolist() == [32, 64, 70]
    assert axes["IC"].tolist() == list(range(32, 257, 32))
    assert axes["OH"].tolist() == list(range(1, 57))
    assert axes["OW"].tolist() == [56]
    assert space.size(axes) == 3 * 3 * 8 * 56


def test_unpruned_space_is_every_size_of_every_loop() -> None:
    # "A single layer of VGGNet-16 has about 2 x 10^9 combinations" (6.4): without the three dataflows.
    ninth = ConvLayer("conv9", 512, 512, 28, 28, 3, 3, 28, 28)
    assert space.unpruned_size(ninth) == 3 * 1_849_688_064


def test_figure_7_1_fills_the_input_memory(setups: dict[str, Accelerator]) -> None:
    layer = ConvLayer("figure 7.1", 256, 128, 56, 56, 3, 3, 56, 56, pads=(1, 1, 1, 1))
    assert tile_bytes(layer, Tile(56, 65, 16, 56, 3, 3), halo=True) == (4 * 65 * 18 * 56, 131_040, 200_704)
    fits = [space.fits(layer, Tile(56, ic, 16, 56, 3, 3), setups["A"], halo=True) for ic in (65, 66)]
    assert fits == [True, False]
    assert space.fits(layer, Tile(56, 65, 18, 56, 3, 3), setups["A"], halo=False)  # 18 rows without their halo


def test_input_of_a_tile() -> None:
    first = ConvLayer("alexnet", 96, 3, 55, 55, 11, 11, 227, 227, stride=(4, 4))
    rows = {
        (2, False): 8,
        (2, True): 15,
        (54, False): 216,
        (54, True): 223,
        (55, False): 227,
        (55, True): 227,
    }
    for (oh, halo), wanted in rows.items():
        tile = Tile(16, 3, oh, 55, 11, 11)
        assert tile_bytes(first, tile, halo)[0] == 4 * 3 * wanted * 227, (oh, halo)


def test_dilated_kernels_and_part_of_a_kernel() -> None:
    layer = ConvLayer("dilated", 4, 4, 20, 20, 3, 3, 24, 24, dilation=(2, 2))
    assert tile_bytes(layer, Tile(1, 1, 5, 20, 3, 3), halo=True)[0] == 4 * (5 + 4) * 24
    assert tile_bytes(layer, Tile(1, 1, 5, 20, 2, 3), halo=True)[0] == 4 * (5 + 2) * 24


def test_padding_takes_no_room() -> None:
    assert tile_bytes(FIGURE, Tile(1, 1, 56, 56, 3, 3), halo=True)[0] == 4 * 56 * 56


def test_partial_sums_need_room_for_all_their_bytes() -> None:
    layer = replace(FIGURE, items=ItemBytes(input=1, weight=1, output=1, psum=4))
    assert tile_bytes(layer, Tile(2, 3, 1, 56, 3, 3), halo=True) == (3 * 3 * 56, 2 * 3 * 9, 4 * 2 * 56)


def test_exactly_full_is_full() -> None:
    tile = Tile(64, 32, 1, 56, 3, 3)
    assert space.fits(FIGURE, tile, FIGURE_MACHINE, halo=False)
    level = replace(FIGURE_MACHINE.memory, weight_bytes=FIGURE_MACHINE.memory.weight_bytes - 1)
    assert not space.fits(FIGURE, tile, replace(FIGURE_MACHINE, levels=(level,)), halo=False)


def test_one_memory_for_all(small_array: MakeAccelerator) -> None:
    tile = Tile(3, 2, 1, 56, 3, 3)
    need = sum(tile_bytes(FIGURE, tile, halo=True))
    assert space.fits(FIGURE, tile, small_array(shared=need), halo=True)
    assert not space.fits(FIGURE, tile, small_array(shared=need - 1), halo=True)


def test_loop_order_keeps_the_dataflow_innermost() -> None:
    tile = Tile(32, 32, 1, 56, 3, 3)  # trips: OC 16, IC 8, OH 56
    assert space.loop_order(FIGURE, tile) == ("OH", "OC", "IC", "KW", "KH", "OW")
    assert space.loop_order(FIGURE, tile, Dataflow.INPUT) == ("OC", "KW", "KH", "OH", "IC", "OW")
    assert space.loop_order(FIGURE, tile, Dataflow.WEIGHT) == ("OW", "OH", "OC", "IC", "KW", "KH")
    assert space.loop_order(FIGURE, tile, Dataflow.OUTPUT) == ("IC", "KW", "KH", "OH", "OC", "OW")


@given(layers, tuples(*(integers(50, 3000) for _ in range(3))), booleans())
def test_the_lower_bound_reloads_least_of_the_eight(layer: ConvLayer, room: tuple[int, int, int], halo: bool) -> None:
    machine = Accelerator("any", 1.0, (MemoryLevel("sram", 1.0, *room),), (2, 3), (("IC",), ("OC",)))
    initial, bound = space.initial_tile(layer, machine), space.lower_bound(layer, machine, halo)
    eight = [
        replace(initial, **{name: getattr(layer, name) for name in names})
        for count in range(4)
        for names in combinations(("oc", "ic", "oh"), count)
    ]
    fitting = [tile for tile in eight if space.fits(layer, tile, machine, halo)]
    if not fitting:
        assert bound == initial
        return
    assert bound in fitting
    volumes = [
        4 * layer.input_elements * -(-layer.oc // tile.oc)
        + 4 * layer.weight_elements * -(-layer.oh // tile.oh)
        + 4 * layer.output_elements * (2 * -(-layer.ic // tile.ic) - 1)
        for tile in fitting
    ]
    assert space.reload_volume(layer, bound) == min(volumes)


@given(layers, tuples(*(integers(1, 300) for _ in range(3))), booleans())
def test_the_memory_that_the_error_names_would_do(layer: ConvLayer, room: tuple[int, int, int], halo: bool) -> None:
    machine = Accelerator("any", 1.0, (MemoryLevel("sram", 1.0, *room),), (2, 3), (("IC",), ("OC",)))
    need = tile_bytes(layer, space.initial_tile(layer, machine), halo)
    enough = tuple(max(pair) for pair in zip(need, room, strict=True))
    if enough == room:
        assert grid.search_pruned(layer, machine, halo=halo).layer is layer
        return
    with pytest.raises(NoTiling, match="layer any: no tile fits memory 'sram' of any") as caught:
        grid.search_pruned(layer, machine, halo=halo)
    for wanted, there, name in zip(need, room, ("input", "weight", "output"), strict=True):
        said = f"{wanted} bytes for the {name}, which has {there}" in str(caught.value)
        assert said == (wanted > there)
    assert grid.search_pruned(layer, replace(machine, levels=(MemoryLevel("sram", 1.0, *enough),)), halo=halo)


@pytest.mark.parametrize(
    ("network", "millions"),
    [
        ("vgg16", "3541.530"),
        ("resnet50", "298.074"),
        ("alexnet", "645.980"),
        ("squeezenet", "49.388"),
        ("yolov2", "4104.669"),
    ],
)
def test_table_8_5_unpruned(paper_convolutions: dict[str, tuple[ConvLayer, ...]], network: str, millions: str) -> None:
    sizes = [space.unpruned_size(layer) for layer in paper_convolutions[network]]
    assert f"{sum(sizes) / len(sizes) / 1e6:.3f}" == millions
    assert sizes[0] == 3 * prod(paper_convolutions[network][0].loops.values())
