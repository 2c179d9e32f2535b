"""Relative speeds of core types, as the engine's tables have it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.choose.tiles.core_shares import kernel_core_shares
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.cost.board_model import cores_of
from mavcg.cost.guided_chunks import MOST_CORE_SHARE, core_shares
from mavcg.graph.layout import dense_strides
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.conv.spec import Conv2d
from mavcg.profiles.load import cores_for, load_board
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import KernelSpec, View
from mavcg.toolchain.target import parse_target


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6))
def test_weights_are_speeds(ns: list[float]) -> None:
    weights = core_shares(ns)

    assert max(weights) == MOST_CORE_SHARE and min(weights) >= 1
    for one, weight in zip(ns, weights, strict=True):
        assert weight == pytest.approx(MOST_CORE_SHARE * min(ns) / one, abs=0.51) or weight == 1


def conv(channels: int) -> Conv2d:
    def view(height: int, count: int) -> View:
        shape = (1, height, height, count)
        return View("f32", shape, dense_strides(shape))

    return Conv2d(view(30, channels), view(28, 64), None, (3, 3), (1, 1), (1, 1), 1, 8, True, True, "none", ())


def test_a_convolution_is_faster_on_the_big_core_by_more_than_its_clock() -> None:
    board = load_board("exynos9820")
    target = parse_target(board.target)
    cores = cores_for(["cortex-a55", "exynos-m4"])
    machines = machines_for(cores, target)
    clusters = cores_of(tuple(machines), target, board)
    specs: list[KernelSpec] = [conv(64)]
    plan = plan_tiles(specs, clusters)

    weights = dict(kernel_core_shares(specs, clusters, plan)[kernel_name(specs[0])])

    assert set(weights) == {"generic", "cortex-a55", "exynos-m4"}
    clocks = clusters["exynos-m4"].ghz / clusters["cortex-a55"].ghz
    assert weights["exynos-m4"] > clocks * weights["cortex-a55"]


def test_one_core_type_needs_no_weights() -> None:
    target = parse_target("aarch64-linux-gnu")
    machines = machines_for((), target)

    assert not kernel_core_shares([conv(8)], cores_of(tuple(machines), target), plan_tiles([], {}))
