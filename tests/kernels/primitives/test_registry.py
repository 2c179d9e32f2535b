"""What holds of every primitive of every family, without computing anything; and that wrong ones are found out."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.kernels.primitives.direct.sum2d import PRIMITIVES as SUM2D
from mavcg.kernels.primitives.direct.sum2d import Sum2d
from mavcg.kernels.primitives.registry import all_primitives, find_primitive
from mavcg.kernels.registry import emitters
from mavcg.lab.trials.check import check
from mavcg.lab.trials.definition import from_layout, reference, to_layout
from mavcg.lab.trials.jobs import BASES, random_ranges
from mavcg.lab.trials.run import find_machine
from mavcg.specs.kernel import Array, Machine
from mavcg.specs.primitive import AxisWindow, Epilogue, Layout, Lowering, Scenario

SCENARIOS = (
    Scenario(32, 12, 12, 1, 3, 32, 1),
    Scenario(32, 12, 12, 1, 1, 48),
    Scenario(3, 20, 20, 1, 5, 16, 2),
    Scenario(3, 21, 21, 2, 7, 16, 3),
    Scenario(48, 9, 9, 1, 3, 48, 1, 48),
    Scenario(64, 7, 7, 2, 3, 128, 1),
    Scenario(32, 9, 9, 1, 1, 32, across=AxisWindow(7, pad=3)),  # Inception's factorised kernels
    *(Scenario(32, 9, 9, 1, k, 32, k // 2, across=AxisWindow(1)) for k in (3, 5, 7)),
)


def test_names_are_unique_and_say_family_and_layouts() -> None:
    names = [primitive.name for primitive in all_primitives()]

    assert len(set(names)) == len(names) >= 70
    for primitive in all_primitives():
        layouts = f"_{primitive.layout_in.lower()}_{primitive.layout_out.lower()}"
        assert primitive.name.startswith(primitive.family) and primitive.name.endswith(layouts)
        assert primitive.name == primitive.name.lower() and 0 < primitive.error_bound < 0.1


def test_every_primitive_is_found_by_its_name() -> None:
    assert all(find_primitive(primitive.name) == primitive for primitive in all_primitives())

    with pytest.raises(MavcgError, match="did you mean sum2d_scalar_chw_chw"):
        find_primitive("sum2d_scaler_chw_chw")


@pytest.mark.long
def test_plain_sums_multiply_the_filters_numbers_themselves() -> None:
    for primitive in all_primitives():
        s = next(scenario for scenario in SCENARIOS if primitive.applies(scenario))
        filters = np.arange(1, prod(s.weights_shape) + 1, dtype=np.float32).reshape(s.weights_shape)  # exact in f32
        lowering = primitive.lower(s, filters, Epilogue(), 16)
        numbers = lowering.weights.ravel()
        if lowering.sparse is not None:  # counts, then blocks of a position and weights
            numbers = numbers[lowering.sparse.blocks + 1 :].reshape(-1, 1 + lowering.sparse.rows)[:, 1:].ravel()
        packed = set(numbers.tolist()) - {0.0}
        assert (packed == set(range(1, filters.size + 1))) is primitive.plain_sums, primitive.name


def test_every_stage_has_an_emitter_and_places_that_there_are() -> None:
    for primitive in all_primitives():
        applying = [scenario for scenario in SCENARIOS if primitive.applies(scenario)]
        assert applying, f"{primitive.name} applies to none of the ordinary layers"
        s = applying[0]
        weights = np.ones(s.weights_shape, np.float32)
        lowering = primitive.lower(s, weights, Epilogue(bias=True, residual=True, act="relu"), 16)
        places = [operand for stage in lowering.stages for operand in stage.operands]
        assert {type(stage.spec) for stage in lowering.stages} <= set(emitters()), primitive.name
        assert {operand.base for operand in places} <= set(BASES)
        assert {"x", "weights", "out", "bias", "residual"} <= {operand.base for operand in places}, primitive.name
        assert all(stage.spec.rows > 0 for stage in lowering.stages)
        assert all(0 <= p.offset < lowering.workspace_bytes for p in places if p.base == "workspace")
        assert lowering.workspace_bytes <= primitive.workspace_bytes(s), primitive.name
        packed = lowering.weights
        assert packed.dtype == np.float32 and packed.shape == lowering.weights_shape, primitive.name
        assert packed.nbytes == lowering.weights_bytes


def test_ranges_of_rows_are_all_rows_once() -> None:
    s = SCENARIOS[0]
    lowering = SUM2D[0].lower(s, np.ones((32, 32, 3, 3), np.float32), Epilogue(), 16)
    for seed in range(20):
        calls = random_ranges(lowering, seed)
        assert [call.stage for call in calls] == sorted(call.stage for call in calls)
        for number, stage in enumerate(lowering.stages):
            rows = [row for call in calls if call.stage == number for row in range(call.begin, call.end)]
            assert sorted(rows) == list(range(stage.spec.rows))


@pytest.mark.parametrize("layout", list(Layout))
def test_layouts_are_undone(layout: Layout) -> None:
    image = np.arange(1, 1 + 5 * 3 * 4, dtype=np.float32).reshape(5, 3, 4)
    there = to_layout(image, layout, 4)

    np.testing.assert_array_equal(from_layout(there.ravel(), layout, (5, 3, 4), 4), image)
    assert there.size == (8 if layout is Layout.CHWC else 5) * 12 and there.sum() == image.sum()


def test_reference_is_the_definition() -> None:
    s = Scenario(4, 5, 6, 2, 2, 6, 1, 2, 2)
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(4, 5, 6)), rng.normal(size=(6, 2, 2, 2))
    bias, residual = rng.normal(size=6), rng.normal(size=(6, s.out_h, s.out_w))
    outputs, _ = reference(s, x[None], w, bias, residual[None], Epilogue(True, True, "relu"))
    for m, y, column in ((0, 0, 0), (2, 1, 2), (5, s.out_h - 1, s.out_w - 1)):
        total = bias[m] + residual[m, y, column]
        for c in range(2):
            for ky in range(2):
                for kx in range(2):
                    row, col = y * 2 + ky * 2 - 1, column * 2 + kx * 2 - 1
                    if 0 <= row < 5 and 0 <= col < 6:
                        total += x[m // 3 * 2 + c, row, col] * w[m, c, ky, kx]
        assert outputs[0, m, y, column] == pytest.approx(max(total, 0.0))


def test_errors_are_of_sums_not_of_what_an_activation_leaves_of_them(host: Machine) -> None:
    """Sums of 6272 products, of up to 150, clipped to 0 .. 6."""
    scenario, clipped = Scenario(128, 9, 9, 1, 7, 16, 3), Epilogue(bias=True, act="clip", act_args=(0.0, 6.0))
    clipped_check = check(find_primitive("implicit_gemm_hwc_hwc"), scenario, host, clipped)
    plain = check(find_primitive("implicit_gemm_hwc_hwc"), scenario, host, Epilogue(bias=True))

    assert clipped_check.ok and 0.3 * plain.max_error < clipped_check.max_error < 2 * plain.max_error


class _Forgetful(Sum2d):
    """Leaves out the last output channel."""

    def lower(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        return super().lower(replace(scenario, m=scenario.m - 1), weights[:-1], epilogue, block)


class _Modest(Sum2d):
    """Says that it needs no workspace."""

    def workspace_bytes(self, scenario: Scenario) -> int:
        return 0


class _Deaf(Sum2d):
    """Forgets the activation."""

    def lower(self, scenario: Scenario, weights: Array, epilogue: Epilogue, block: int) -> Lowering:
        return super().lower(scenario, weights, replace(epilogue, act="none"), block)


@pytest.mark.parametrize("kind", [_Forgetful, _Modest, _Deaf])
def test_wrong_primitives_are_found_out(kind: type[Sum2d], host: Machine) -> None:
    checked = check(kind(Layout.CHW, Layout.CHW), Scenario(2, 5, 5, 1, 3, 3, 1), host, Epilogue(act="relu"))

    assert not checked.ok


def test_scenarios_that_are_none_are_errors(host: Machine) -> None:
    for scenario, words in (
        (Scenario(3, 5, 5, 1, 7, 3), "larger than the padded image"),
        (Scenario(4, 5, 5, 1, 3, 3, 1, 2), "groups do not divide"),
        (Scenario(3, 5, 5, 0, 3, 3), "STRIDE is 0"),
        (Scenario(3, 5, 5, 1, 3, 3, -1), "pad is -1"),
    ):
        with pytest.raises(MavcgError, match=words):
            check(SUM2D[0], scenario, host)


def test_cores_that_cannot_be_run_are_errors() -> None:
    with pytest.raises(MavcgError, match="no-such-core"):
        find_machine("no-such-core")
