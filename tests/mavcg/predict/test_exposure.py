"""Memory time beside arithmetic: patterns of kernels, and what must hold of any fractions."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.cost_model.fits import fit_of_kind
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.cost_fit import IN_ORDER, OUT_OF_ORDER_AARCH64, X86, ExposedFit
from mavcg.predict.exposure import (
    COLUMNS,
    DEPTHWISE,
    MOVES,
    PATTERNS,
    POOLS,
    exposed_ns,
    memory_pattern,
)
from mavcg.predict.latency import MEMORY, StepCost
from tests.conftest import examples

LEVELS = (MemoryLevel("L1", 20.0, shared_bytes=1 << 15), MemoryLevel("L2", 10.0, shared_bytes=1 << 18),
          MemoryLevel("L3", 5.0, shared_bytes=1 << 22))  # fmt: skip
NONE = ExposedFit(**{field.name: 0.0 for field in fields(ExposedFit)})


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


def test_each_fraction_is_of_a_pattern_and_a_place() -> None:
    assert {field.name for field in fields(ExposedFit)} == {
        f"{p}_{end}" for p in PATTERNS for end in ("near", "far", "known")
    }


def test_arm_cores_have_simulated_fractions_and_others_a_roofline() -> None:
    in_order, out_of_order = (fit_of_kind(kind).exposed for kind in (IN_ORDER, OUT_OF_ORDER_AARCH64))
    assert fit_of_kind(X86).exposed is None and in_order is not None and out_of_order is not None
    assert in_order.products_near < in_order.depthwise_near < in_order.columns_near
    for pattern in (DEPTHWISE, POOLS, COLUMNS, MOVES):  # whose waits a window covers
        assert getattr(out_of_order, f"{pattern}_near") < getattr(in_order, f"{pattern}_near")


def test_bytes_of_each_place_count_with_their_fraction() -> None:
    fit = replace(NONE, depthwise_near=0.5, depthwise_far=2.0)
    crossing = (2000.0, 1000.0, 500.0)  # 100 ns from level 2, 100 from level 3, 100 from memory
    assert exposed_ns("depthwise_f32_0", crossing, LEVELS, fit) == pytest.approx(0.5 * 200 + 2.0 * 100)
    assert exposed_ns("conv2d_f32_0", crossing, LEVELS, fit) == 0.0
    assert exposed_ns("depthwise_f32_0", crossing, LEVELS, None) == 0.0


@settings(max_examples=examples(40, 10))
@given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 3))
def test_a_step_takes_no_less_than_a_roofline_and_no_more_than_all_in_a_row(
    compute: float, memory: float, fraction: float
) -> None:
    cost = StepCost(compute, memory, 0.1, fraction * memory)
    assert cost.ms >= max(compute, memory) + 0.1
    assert cost.ms <= compute + max(1.0, fraction) * memory + 0.1 + 1e-9


def test_a_step_is_bound_by_memory_that_it_waits_for(make: Any) -> None:
    assert StepCost(1.0, 2.0, 0.0, 0.5).bound == MEMORY
