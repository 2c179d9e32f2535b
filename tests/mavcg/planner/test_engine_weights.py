"""How fast core types are beside each other, as the engine's tables have it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.kernel import KernelSpec, View, dense_strides
from mavcg.kernels.conv_spec import Conv2d
from mavcg.kernels.emit import kernel_name
from mavcg.machines import machines_for
from mavcg.model_program import Program, ProgramStep
from mavcg.planner.engine_tiles import cores_of, plan_tiles
from mavcg.planner.engine_weights import MOST_WEIGHT, weights_of, with_weights
from mavcg.profiles.load import cores_for, load_board
from mavcg.target import parse_target


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6))
def test_weights_are_speeds(ns: list[float]) -> None:
    weights = weights_of(ns)

    assert max(weights) == MOST_WEIGHT and min(weights) >= 1
    for one, weight in zip(ns, weights, strict=True):
        assert weight == pytest.approx(MOST_WEIGHT * min(ns) / one, abs=0.51) or weight == 1


def conv(channels: int) -> Conv2d:
    def view(height: int, count: int) -> View:
        shape = (1, height, height, count)
        return View("f32", shape, dense_strides(shape))

    return Conv2d(view(30, channels), view(28, 64), None, (3, 3), (1, 1), (1, 1), 1, 8, True, True, "none", ())


def program_of(specs: list[KernelSpec]) -> Program:
    steps = tuple(ProgramStep("s", "op", kernel_name(spec), (), spec.rows, 1, spec.work) for spec in specs)
    return Program("p", (), (), steps, 0, 0, 0, 0)


def test_a_convolution_is_faster_on_the_big_core_by_more_than_its_clock() -> None:
    board = load_board("exynos9820")
    target = parse_target(board.target)
    cores = cores_for(["cortex-a55", "exynos-m4"])
    machines = machines_for(cores, target)
    clusters = cores_of(tuple(machines), target, board)
    specs: list[KernelSpec] = [conv(64)]
    plan = plan_tiles(specs, machines, clusters)

    (step,) = with_weights(program_of(specs), specs, machines, clusters, plan).steps

    weights = dict(step.weights)
    assert set(weights) == {"generic", "cortex-a55", "exynos-m4"}
    clocks = clusters["exynos-m4"].frequency_ghz / clusters["cortex-a55"].frequency_ghz
    assert weights["exynos-m4"] > clocks * weights["cortex-a55"]


def test_one_core_type_needs_no_weights() -> None:
    target = parse_target("aarch64-linux-gnu")
    machines = machines_for((), target)
    program = program_of([conv(8)])

    assert (
        with_weights(program, [conv(8)], machines, cores_of(tuple(machines), target), plan_tiles([], {}, {})) is program
    )
