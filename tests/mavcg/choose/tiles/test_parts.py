"""Layers are cut so finely that unequal cores end them together, and no finer: by the engine's own rule of claims."""

from typing import Any

import numpy as np
import pytest

from mavcg.choose.lowering.lower import lower_graph
from mavcg.choose.tiles.parts import over_ideal, slowdown
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.cost.board_model import TYPICAL_CORES, cores_each, cores_of
from mavcg.cost.guided_chunks import simulated_ns
from mavcg.cost.kernel_cost import cost
from mavcg.cost.kernel_work import work_of
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.hardware.board import Board, Cluster
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.conv.part_loops import parts_of
from mavcg.kernels.conv.spec import Conv2d
from mavcg.kernels.int8.specs import QConv2d
from mavcg.profiles.load import cores_for, load_board, load_cores
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import Packing
from mavcg.specs.tile_plan import MacroTile, worthwhile_chunk_rows
from mavcg.toolchain.target import parse_target

Layer = tuple[int, int, int, int, int]
# Rows and columns of the output, input and output channels, side of the filter, stride.
RESNET50 = (
    (56, 64, 256, 1, 1),
    (28, 256, 128, 1, 2),
    (28, 512, 128, 1, 1),
    (28, 128, 512, 1, 1),
    (28, 128, 128, 3, 1),
    (14, 1024, 256, 1, 1),
    (14, 256, 1024, 1, 1),
    (14, 256, 256, 3, 1),
    (14, 512, 1024, 1, 2),
    (7, 2048, 512, 1, 1),
    (7, 512, 2048, 1, 1),
    (7, 1024, 2048, 1, 2),
)
MOBILENET_V2 = (
    (56, 144, 24, 1, 1),
    (28, 144, 32, 1, 1),
    (28, 32, 192, 1, 1),
    (14, 192, 64, 1, 1),
    (14, 64, 384, 1, 1),
    (14, 384, 64, 1, 1),
    (14, 384, 96, 1, 1),
    (14, 96, 576, 1, 1),
    (14, 576, 96, 1, 1),
    (7, 576, 160, 1, 1),
    (7, 160, 960, 1, 1),
    (7, 960, 160, 1, 1),
    (7, 960, 320, 1, 1),
    (7, 320, 1280, 1, 1),
)
# 4+2+2, 4+4 and 4+3+1 cores.
BOARDS = ("exynos9820", "snapdragon-845", "snapdragon-865")


def conv(layer: Layer, dtype: str = "f32", lanes: int = 8) -> Conv2d | QConv2d:
    size, in_ch, out_ch, kernel, stride = layer
    b = GraphBuilder("g")
    x = b.input("x", TensorType(dtype, (1, *2 * [(size - 1) * stride + kernel], in_ch)))
    window: dict[str, Any] = {"pads": (0, 0, 0, 0), "stride": (stride, stride)}
    weights = np.ones((out_ch, kernel, kernel, in_ch), np.float32 if dtype == "f32" else np.int8)
    if dtype == "f32":
        out = b.add("conv2d", [x, b.constant(weights)], **window)
    else:
        others = np.zeros(out_ch, np.int32), np.ones(out_ch, np.float32)
        inputs = [x, *(b.constant(array) for array in (weights, *others))]
        out = b.add("qconv2d", inputs, **window, x_zero=0, out_zero=0, lo=0, hi=255, to="u8")
    (spec,) = lower_graph(b.finish([out]), Packing(lanes)).specs
    assert isinstance(spec, Conv2d | QConv2d)
    return spec


def ends(layers: tuple[Layer, ...], name: str, together: bool = True, dtype: str = "f32") -> list[tuple[float, float]]:
    """(end over the ideal split, microseconds of the ideal) of each layer on all cores of a board, by the model."""
    board = load_board(name)
    target, known = parse_target(board.target), load_cores()
    machines = machines_for([known[core] for core in board.cores if core in known], target)
    cores = cores_of(tuple(machines), target, board)
    counts = cores_each(tuple(machines), board)
    found = []
    for spec in (conv(layer, dtype) for layer in layers):
        plan = plan_tiles([spec], cores, counts if together else None)
        work, macro = work_of(spec), plan.any_of(kernel_name(spec))
        assert work is not None and macro is not None
        seconds = []
        for label, count in counts.items():
            tile = plan.of(kernel_name(spec), label)
            assert tile is not None
            seconds += [cost(work.spec, tile, cores[label]).total / cores[label].ghz] * count
        rows, ideal = spec.rows * macro.parts, 1 / sum(1 / each for each in seconds)
        least = macro.call_rows if spec.by_channels else worthwhile_chunk_rows(spec, macro.parts)
        min_chunk = macro.min_chunk_rows or least
        each = [one / rows for one in seconds]
        found.append((simulated_ns(rows, min_chunk, each, [0.0] * len(each)) / ideal, ideal / 1e3))
    return found


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("layers", "board"),
    [*((MOBILENET_V2, board) for board in BOARDS), (RESNET50[::2], BOARDS[0]), (RESNET50[1::2], BOARDS[1])],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} layers",
)
def test_layers_end_within_a_tenth_of_the_ideal_on_all_cores(layers: tuple[Layer, ...], board: str) -> None:
    """Layers that take 0.2 ms or more on all cores of a phone; shorter ones at most a quarter later."""
    for layer, (over, us), (before, _) in zip(layers, ends(layers, board), ends(layers, board, False), strict=True):
        assert over <= (1.1 if us >= 200 else 1.25), (layer, us)
        assert over <= 1.04 * before, layer


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("layers", "board"),
    [*((MOBILENET_V2, board) for board in BOARDS), (RESNET50[::2], BOARDS[2])],
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} layers",
)
def test_layers_of_8_bits_end_near_the_ideal_on_all_cores(layers: tuple[Layer, ...], board: str) -> None:
    """Within a tenth from 0.1 ms on, within a quarter from 20 us on; 20 panels of one row of pixels have no parts."""
    after, before = ends(layers, board, True, "u8"), ends(layers, board, False, "u8")
    for layer, (over, us), (whole, _) in zip(layers, after, before, strict=True):
        assert over <= (1.1 if us >= 100 else 1.25 if us >= 20 else 1.45), (layer, us)
        assert us < 20 or over <= 1.04 * whole, layer
    assert max(whole for whole, _ in before) > 2


@pytest.mark.parametrize("layer", [RESNET50[6], RESNET50[7], *MOBILENET_V2[3:9:2]])
def test_versions_of_8_bits_have_the_parts_that_their_kernel_has(layer: Layer) -> None:
    spec, tiles = conv(layer, "u8"), planned(conv(layer, "u8"))

    assert {parts_of(spec, tile) for tile in tiles} == {tiles[0].parts} != {1}
    assert len({(tile.min_chunk_rows, tile.call_rows, tile.nc) for tile in tiles}) == 1


def test_rows_alone_are_too_few_in_images_of_14_by_14() -> None:
    """Four rows of a 1x1 convolution left an eight-core phone four times slower than it could be."""
    few = MOBILENET_V2[3:9]
    assert all(over > 4 for over, _ in ends(few, "exynos9820", False))


def planned(spec: Conv2d | QConv2d) -> list[MacroTile]:
    """Macro-tiles of each version on a phone with three core types."""
    board = load_board("exynos9820")
    target, known = parse_target(board.target), load_cores()
    machines = machines_for([known[core] for core in board.cores if core in known], target)
    plan = plan_tiles([spec], cores_of(tuple(machines), target, board), cores_each(tuple(machines), board))
    tiles = [macro for _, _, macro in plan]
    assert len(tiles) == len(machines)
    return tiles


@pytest.mark.parametrize("layer", [RESNET50[4], RESNET50[5], RESNET50[7], RESNET50[9], *MOBILENET_V2[::3]])
def test_all_versions_have_the_parts_that_their_kernel_really_has(layer: Layer) -> None:
    spec, tiles = conv(layer), planned(conv(layer))

    assert len({(t.parts, t.min_chunk_rows, t.call_rows) for t in tiles}) == 1
    if tiles[0].parts > 1:
        assert {parts_of(spec, t) for t in tiles} == {tiles[0].parts}
        assert spec.by_channels or (len({t.nc for t in tiles}) == 1 and (tiles[0].nc or 1) % spec.lanes == 0)


def test_cores_are_counted_by_the_board_or_are_typical() -> None:
    board = Board(
        "b", "", "aarch64-linux-gnu.2.17", (Cluster("big", (0, 1)), Cluster("little", (2, 3, 4)), Cluster("big", (5,)))
    )

    assert cores_each(("generic", "big", "little"), board) == {"generic": 0, "big": 3, "little": 3}
    assert cores_each(("generic", "other"), board) == {"generic": 0, "other": TYPICAL_CORES}
    assert cores_each(("generic",), None) == {"generic": TYPICAL_CORES}


def test_a_single_core_needs_no_parts_and_equal_cores_few() -> None:
    assert over_ideal(1, 1, [1], [1.0]) == pytest.approx(1.0)
    assert over_ideal(4, 1, [4], [1.0]) == pytest.approx((1 * 0.9 / 0.8 + 1 + 1.125) / 3, abs=0.2)
    assert over_ideal(400, 1, [4], [1.0]) < 1.02 < over_ideal(400, 1, [4], [1.0], [1.1])


@pytest.mark.parametrize(("name", "least", "most"), [("znver4", 1.0, 1.01), ("sapphirerapids", 1.05, 1.5)])
def test_narrow_tiles_fall_behind_where_a_core_has_two_pipes(name: str, least: float, most: float) -> None:
    """A panel of 16 channels at a time: seven multiply-adds a term, which eight loads or their latency bound."""
    machine = machines_for(cores_for([name]), parse_target("x86_64-linux-gnu"))[name]
    work = work_of(conv((14, 512, 512, 1, 1), lanes=16))

    assert work is not None and work.panels == 32
    assert least <= slowdown(work, machine, 1) <= most and slowdown(work, machine, 4) == 1.0
