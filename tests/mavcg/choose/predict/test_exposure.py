"""Memory time beside arithmetic: patterns of kernels, and what must hold of any fractions."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.predict.exposure import (
    PATTERNS,
    LineFetch,
    LineTimes,
    line_fetch,
    memory_pattern,
    step_lines,
    touches_of_operands,
)
from mavcg.choose.predict.latency import MEMORY, StepCost
from mavcg.choose.predict.line_traffic import Runs
from mavcg.choose.predict.memory import Distances
from mavcg.choose.predict.work import StepWork
from mavcg.cost.board_model import core_model
from mavcg.cost.core_facts import simulated_core
from mavcg.hardware.cost_fit import IN_ORDER, OUT_OF_ORDER_AARCH64, X86, ExposedFit
from mavcg.hardware.machine import LINE_BYTES
from mavcg.profiles.cost_fits import fit_of_kind
from mavcg.profiles.load import load_board, load_core
from mavcg.specs.model_program import OperandAddress
from tests.conftest import examples

TIMES = [field.name for field in fields(LineTimes)]
NONE = ExposedFit(**{field.name: 0.0 for field in fields(ExposedFit)})
BOARD = "exynos9820"


@pytest.mark.parametrize(
    ("kernel", "pattern"),
    [
        ("conv2d_f32_nhwc_1x4x49x64_1x1x384s1_3b9448a3", "products"),
        ("direct_channels_f32_hwc_64x64x24_5x5x3s2_0", "direct"),
        ("direct_columns_f32_chw_256x1x169_1x1x64s1_21a0bf87", "columns"),
        ("sum2d_columns_f32_chw_1404x1x1_3x3x32s3_0", "depthwise"),
        ("im2_product_f32_hwc_14x14x384_1x1x64s1_f36ff66d", "unblocked"),
        ("bcsr4_product_f32_chw_192x7x7_k1152_2c0ae9b5", "columns"),
        ("winograd_2d_f4_k3_f32_nhwc_1x55x55x64_3x3x16s1_0", "winograd"),
        ("winograd_input_f4_k3_f32_nhwc_1x15x15x64_3x3x64s1_0", "moves"),
        ("depthwise_f32_nhwc_1x56x56x144_3x3s1_c80b2f30", "depthwise"),
        ("max_pool_f32_nhwc_1x55x55x64_3x3s2_aa9596f1", "pools"),
        ("copy_x32_112x10752_15b9c8f1", "moves"),
    ],
)
def test_kernels_go_through_memory_as_their_family_does(kernel: str, pattern: str) -> None:
    assert memory_pattern(kernel) == pattern


def test_each_fraction_is_of_lines_or_says_how_often_a_pattern_is_right() -> None:
    assert {field.name for field in fields(ExposedFit)} == {*TIMES, *(f"{pattern}_known" for pattern in PATTERNS)}


def test_arm_cores_have_simulated_fractions_and_others_a_roofline() -> None:
    in_order, out_of_order = (fit_of_kind(kind).exposed for kind in (IN_ORDER, OUT_OF_ORDER_AARCH64))
    assert fit_of_kind(X86).exposed is None and in_order is not None and out_of_order is not None
    # An in-order core waits for each line that it did not foresee, a window covers most of that.
    assert 0.8 < in_order.near_unseen < 1.3 and out_of_order.near_unseen < in_order.near_unseen / 2


@pytest.mark.parametrize("number", [0, 1])
def test_lines_are_fetched_as_the_simulator_fetches_them(number: int) -> None:
    board = load_board(BOARD)
    machine = core_model(board, number)
    fetch, facts = line_fetch(machine), simulated_core(load_core(board.clusters[number].core), board)

    assert fetch is not None and machine.core is not None
    latencies = [*(level.latency for level in facts.levels[1:]), facts.memory_latency]
    assert [ns * facts.ghz for ns in fetch.latency_ns] == pytest.approx(latencies, abs=0.5)
    rates = [*(level.line_cycles for level in facts.levels[1:]), facts.memory_line_cycles]
    assert [ns * facts.ghz for ns in fetch.line_ns] == pytest.approx(rates, rel=0.01)
    assert (fetch.miss_slots, fetch.ahead) == (facts.miss_slots, facts.prefetch_lines)
    assert fetch.in_order == (machine.core.order == "in")


def small_step(make: Any) -> StepWork:
    work: StepWork = make.step(sizes=(640, 128, 320))
    operands = (OperandAddress("arena", 0), OperandAddress("constants", 0), OperandAddress("arena", 640))
    return replace(work, operands=operands)


FETCH = LineFetch((10.0, 100.0), (4.0, 8.0), 4, 4, True)
RUNS = {"operand 0": Runs(0.25, 0.0, 2.0), "operand 1": Runs(0.0, 0.0), "operand 2": Runs(1.0, 0.5)}
FILLED = {("operand 0", False): 30.0, ("operand 1", False): 2.0, ("operand 2", True): 5.0, ("scratch", True): 9.0}


def lines_of(make: Any, distances: tuple[int, ...], in_order: bool = True, compute_ns: float = 0.0) -> LineTimes:
    behind = {key: min(lines, 10.0) for key, lines in FILLED.items()}
    fetch = replace(FETCH, in_order=in_order)
    work = small_step(make)
    return step_lines(work, Distances(distances), (1024, 65536), (FILLED, behind), RUNS, fetch, compute_ns).times


def test_lines_count_by_where_they_come_from_and_by_what_waits_for_them(make: Any) -> None:
    far = lines_of(make, (1 << 20,) * 3)
    # 30 lines of the input: 20 come from level 2, 10 from memory; a quarter of them is not foreseen, two at a time.
    assert far.near_unseen == pytest.approx(20 * 0.25 * max(4.0, 10.0 / 2)) and far.near_seen == pytest.approx(60.0)
    assert far.far_unseen == pytest.approx(10 * 0.25 * max(8.0, 100.0 / 2))
    assert far.far_seen == pytest.approx((10 * 0.75 + 2) * 100 / 4)
    assert far.far_stored == pytest.approx(5 * 0.5 * 100) and far.far_streamed == pytest.approx(5 * 0.5 * 8)

    near = lines_of(make, (0, 0, 0))  # all in level 1 before: what comes again is left
    assert near.near_unseen == pytest.approx(20 * 0.25 * 5) and near.near_stored == 0
    assert near.far_unseen == near.far_seen == near.far_stored == near.far_streamed == 0


def test_arithmetic_hides_foreseen_lines_out_of_order(make: Any) -> None:
    busy = lines_of(make, (1 << 20,) * 3, in_order=False, compute_ns=46 * 3.0)  # 3 ns for each of 46 lines
    assert busy.near_seen == pytest.approx(20 * 0.75 * (4.0 - 3.0))
    assert busy.near_unseen == pytest.approx(20 * 0.25 * 10.0)
    busy = lines_of(make, (1 << 20,) * 3, in_order=False, compute_ns=46 * 30.0)
    assert busy.near_seen == busy.far_seen == 0.0


def test_bytes_cross_the_levels_that_lines_come_through(make: Any) -> None:
    work = small_step(make)
    moved = step_lines(work, Distances((1 << 20,) * 3), (1024, 65536), (FILLED, FILLED), RUNS, FETCH, 0.0).moved
    assert moved.crossing == (37 * LINE_BYTES, 37 * LINE_BYTES)


def test_operands_of_a_band_have_the_touches_of_their_role(make: Any) -> None:
    work = small_step(make)
    assert touches_of_operands(work) == {"operand 0": 0, "operand 1": 1, "operand 2": 2}
    moved = replace(work, touches=tuple(replace(touch, begin=touch.begin + (1 << 40)) for touch in work.touches))
    assert touches_of_operands(moved) == {"operand 0": 0, "operand 1": 1, "operand 2": 2}
    fault = replace(work, operands=(*work.operands, OperandAddress("fault", 0)))
    assert touches_of_operands(fault) == touches_of_operands(work)


@given(fractions=st.lists(st.floats(0, 3), min_size=len(TIMES), max_size=len(TIMES)))
def test_exposed_time_is_the_sum_of_fractions(fractions: list[float]) -> None:
    fit = replace(NONE, **dict(zip(TIMES, fractions, strict=True)))
    assert LineTimes(**dict.fromkeys(TIMES, 2.0)).exposed_ns(fit) == pytest.approx(2 * sum(fractions))


@settings(max_examples=examples(40, 5))
@given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 3))
def test_a_step_takes_no_less_than_a_roofline_and_no_more_than_all_in_a_row(
    compute: float, memory: float, fraction: float
) -> None:
    cost = StepCost(compute, memory, 0.1, fraction * memory)
    assert cost.ms >= max(compute, memory) + 0.1
    assert cost.ms <= compute + max(1.0, fraction) * memory + 0.1 + 1e-9


def test_a_step_is_bound_by_memory_that_it_waits_for(make: Any) -> None:
    assert StepCost(1.0, 2.0, 0.0, 0.5).bound == MEMORY
