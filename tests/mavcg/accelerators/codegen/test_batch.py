"""A batch of images by one program: weights are loaded once where they fit, and maps once for each image."""

import numpy as np
import pytest

from mavcg.accelerators.codegen.generate import generate
from mavcg.accelerators.fusion.costs import ModelledGroupCosts
from mavcg.accelerators.group_search import choose_groups
from mavcg.accelerators.groups import ORDERS, FusedGroup, GroupTile
from mavcg.accelerators.image.program import AccelProgram
from mavcg.accelerators.isa.datapath import datapath
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.accelerators.simulator.functional import execute
from mavcg.accelerators.target import find_target
from mavcg.accelerators.xgraph import Parameters, XGraph, XNode

ZU2 = find_target("zu2")
WORD = datapath(ZU2).weight_word


def convolution(images: int, out_ch: int, in_ch: int = 24, side: int = 6) -> XGraph:
    """A 3x3 convolution without bias."""
    x = XNode("x", "input", (), (images, side, side, in_ch), radix=4)
    shape = (images, side, side, out_ch)
    y = XNode("y", "conv", ("x",), shape, (3, 3), pads=(1, 1, 1, 1), radix=2, weight_radix=(7,))
    weights = np.random.default_rng(0).integers(-9, 9, (out_ch, 3, 3, in_ch), np.int8)
    return XGraph("net", (x, y), ("y",), {"y": Parameters(weights, np.zeros(out_ch, np.int32))})


def compiled(graph: XGraph, order: str, out_ch: int) -> AccelProgram:
    tile = GroupTile(64, 64, out_ch, 4096, order)
    return generate(graph, [FusedGroup(("y",), "single", tile)], ZU2)[0]


def ddr_bytes(program: AccelProgram) -> tuple[int, int]:
    """Return the bytes of weights that are loaded, and of maps that are loaded and saved."""
    loads = [one for one in program.instructions if one.form.name == "load.parameters"]
    maps = [one for one in program.instructions if one.form.name in ("load.map", "save.map")]
    return sum(one["words"] for one in loads) * WORD, sum(
        one["rows"] * one["columns"] * one["channels"] for one in maps
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("images", [2, 5])
def test_weights_that_fit_are_loaded_once_for_all_images(order: str, images: int) -> None:
    weights, maps = ddr_bytes(compiled(convolution(1, 48), order, 48))
    program = compiled(convolution(images, 48), order, 48)

    assert ddr_bytes(program) == (weights, images * maps)
    assert program.images == images and 0 <= program.feature_bytes - images * (24 + 48) * 36 < 128


def test_weights_that_do_not_fit_are_loaded_once_if_ranges_of_channels_are_outside() -> None:
    one, graph = convolution(1, 1200), convolution(3, 1200)
    assert 1200 * 24 * 9 > ZU2.weight_bytes

    channels, rows = (ddr_bytes(compiled(graph, order, 240)) for order in ORDERS)

    assert channels[0] == ddr_bytes(compiled(one, ORDERS[0], 240))[0]
    assert rows[0] == 3 * ddr_bytes(compiled(one, ORDERS[1], 240))[0]
    assert channels[1] == rows[1]  # the three maps stay on chip between the ranges


def test_the_model_counts_what_the_program_moves() -> None:
    for images in (1, 2, 5):
        graph = convolution(images, 48)

        made = ModelledGroupCosts(ZU2).work(graph, ("y",))

        assert made is not None
        assert made[1].feature_bytes == ddr_bytes(compiled(graph, ORDERS[0], 48))[1]
        assert made[1].weight_bytes == 48 * (24 * 9 + 4)
        assert made[1].conv_cycles == images * 2 * 6 * 4 * 2 * 9  # strips, columns, blocks of output and input, taps


def test_a_batch_takes_fewer_bytes_and_cycles_than_as_many_runs() -> None:
    one, five = (convolution(images, 600, side=4) for images in (1, 5))
    programs = [generate(g, choose_groups(g, ZU2, "exact", lambda _: None).groups, ZU2)[0] for g in (one, five)]

    single, batch = map(simulate, programs)

    assert batch.ddr_bytes < 0.5 * 5 * single.ddr_bytes
    assert batch.cycles < 0.6 * 5 * single.cycles


def test_an_image_of_a_batch_has_the_bits_that_it_has_alone() -> None:
    one, three = (compiled(convolution(images, 30), ORDERS[0], 12) for images in (1, 3))
    given = np.random.default_rng(1).integers(-128, 128, (3, 6, 6, 24), np.int8)

    together = execute(three, {"x": given})["y"]

    alone = [execute(one, {"x": given[at : at + 1]})["y"] for at in range(3)]
    assert np.array_equal(together, np.concatenate(alone))
