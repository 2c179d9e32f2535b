"""8-bit depthwise layers of small images: rows in as many parts as unequal cores need; equal ones keep whole rows."""

import pytest

from mavcg.choose.tiles.depthwise_parts import LEAST_WORK, channel_groups
from mavcg.choose.tiles.parts import core_team, over_ideal
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.cost.board_model import cores_each, cores_of
from mavcg.graph import TensorType
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.builder.quantize import Int8Epilogue
from mavcg.kernels.int8.specs import QDepthwise
from mavcg.profiles.load import load_board, load_cores
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import Machine, dense_view
from mavcg.specs.tile_plan import call_rows
from mavcg.toolchain.target import parse_target

BOARDS = ("exynos9820", "snapdragon-845", "snapdragon-865")


def layer(side: int, channels: int) -> QDepthwise:
    """3x3, with stride 1."""
    x, out = (dense_view(TensorType("u8", (1, n, n, channels))) for n in (side + 2, side))
    return QDepthwise(x, out, (3, 3), (1, 1), (1, 1), Int8Epilogue(0, 0, 255, "u8"), True)


def of_board(name: str) -> tuple[dict[str, Machine], dict[str, CoreModel], dict[str, int]]:
    board, known = load_board(name), load_cores()
    target = parse_target(board.target)
    machines = machines_for([known[core] for core in board.cores if core in known], target)
    return dict(machines), cores_of(tuple(machines), target, board), cores_each(tuple(machines), board)


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize(
    ("side", "channels", "most"), [(28, 192, 1.1), (14, 384, 1.2), (14, 576, 1.15), (7, 960, 1.25)]
)
def test_small_layers_end_near_the_ideal(board: str, side: int, channels: int, most: float) -> None:
    _, clusters, counts = of_board(board)
    team = core_team(clusters, counts)
    seconds = [1 / core.ghz for core in team.cores]
    spec = layer(side, channels)
    macro = channel_groups(spec, clusters, counts)

    assert macro is not None and macro.min_chunk_rows is not None
    assert macro.min_chunk_rows is not None and macro.nc is not None
    after = over_ideal(spec.rows * macro.parts, macro.min_chunk_rows, team.counts, seconds)
    assert after <= most < over_ideal(spec.rows, call_rows(spec)[0], team.counts, seconds)
    assert macro.min_chunk_rows * spec.work >= LEAST_WORK * spec.rows * macro.parts
    assert macro.nc is not None and macro.parts == -(-channels // macro.nc)
    assert macro.nc % 32 == 0


def test_equal_cores_and_layers_of_many_rows_are_not_cut() -> None:
    _, clusters, counts = of_board("exynos9820")

    assert channel_groups(layer(14, 384), clusters, {"exynos-m4": 2}) is None
    assert channel_groups(layer(14, 384), clusters, {}) is None
    assert channel_groups(layer(112, 32), clusters, counts) is None


def test_a_plan_says_it_for_all_versions_alike() -> None:
    machines, clusters, counts = of_board("exynos9820")
    spec = layer(14, 384)
    plan = plan_tiles([spec], clusters, counts)

    assert {str(plan.of(kernel_name(spec), label)) for label in machines} == {str(plan.any_of(kernel_name(spec)))}
    assert plan.any_of(kernel_name(spec)) == channel_groups(spec, clusters, counts)
    assert not list(plan_tiles([spec], clusters))
