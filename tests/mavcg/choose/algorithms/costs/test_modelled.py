"""The model of primitives' costs: that it knows all of them, and orders them as they were measured."""

from dataclasses import replace

import pytest

from mavcg.choose.algorithms.costs.modelled import ModelledCosts, modelled_costs
from mavcg.cost.board_model import core_model
from mavcg.cost.memory import read_ns
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.cost_fit import X86
from mavcg.hosts.host import find_board
from mavcg.kernels.primitives.registry import all_primitives, find_primitive
from mavcg.profiles.cost_fits import fit_of_kind
from mavcg.specs.primitive import Layout, Scenario

USUAL = Scenario(64, 56, 56, 1, 3, 64, 1)
SCENARIOS = (
    USUAL,
    Scenario(3, 224, 224, 2, 7, 64, 3),
    Scenario(256, 14, 14, 1, 1, 512),
    Scenario(96, 27, 27, 1, 5, 256, 2, 2),
    Scenario(96, 56, 56, 1, 3, 96, 1, 96),
    Scenario(5, 9, 7, 1, 3, 3, 2, 1, 2),
    Scenario(1, 1, 1, 1, 1, 1),
)


def cluster(number: int) -> CoreModel:
    return core_model(find_board("exynos9820"), number)


@pytest.fixture(scope="module")
def little() -> ModelledCosts:
    """In order, one multiply-add a cycle."""
    return modelled_costs(cluster(0))


@pytest.fixture(scope="module")
def zen() -> ModelledCosts:
    """The core that the constants were fitted on, whatever machine the test runs on."""
    costs = modelled_costs(cluster(0))
    from mavcg.specs.kernel import Machine

    machine = Machine("znver3", "x86_64", "znver3", vector_bytes=32, vector_registers=16)
    caches = (("L1", 32 << 10, 88.5), ("L2", 512 << 10, 61.6), ("L3", 32 << 20, 20.2))
    levels = tuple(MemoryLevel(name, behind, shared_bytes=size) for name, size, behind in caches)
    rates = replace(costs.core.rates, fma_per_cycle=2.0)
    core = replace(costs.core, machine=machine, fit=fit_of_kind(X86), rates=rates, ghz=3.23, levels=levels)
    return replace(costs, core=core, block=16)


def ms(model: ModelledCosts, scenario: Scenario, name: str) -> float:
    primitive_cost = model.primitive(scenario, find_primitive(name))
    assert primitive_cost is not None
    return primitive_cost.ms


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_what_applies_has_a_cost_and_nothing_else(little: ModelledCosts, scenario: Scenario) -> None:
    for primitive in all_primitives():
        primitive_cost = little.primitive(scenario, primitive)
        assert (primitive_cost is not None) is primitive.applies(scenario), primitive.name
        if primitive_cost is not None:
            assert primitive_cost.kind == "modelled" and 0 < primitive_cost.ms < 1e4 and primitive_cost.runs == 0, (
                primitive.name
            )


# Medians in ms on a Zen 3 that was the constants' source: one of each kind, as they were measured.
MEASURED = {
    "winograd_2d_f6_k3_hwc_hwc": 1.11,
    "winograd_2d_f4_k3_hwc_hwc": 1.44,
    "winograd_1d_f4_k3_hwc_hwc": 1.78,
    "direct_blocked_channels_hwc_hwc": 3.01,
    "kn2col_acc_hwc_hwc": 2.58,
    "fft_hwc_hwc": 2.82,
    "implicit_gemm_hwc_hwc": 2.81,
    "im2row_hwc_hwc": 3.71,
    "im2col_t_chw_chw": 5.81,
    "direct_columns_chw_chw": 5.66,
    "direct_pixel_hwc_hwc": 6.11,
    "sum2d_columns_chw_chw": 7.27,
    "sum2d_scalar_chw_chw": 51.8,
}


@pytest.mark.parametrize("name", MEASURED)
def test_costs_are_near_what_was_measured(zen: ModelledCosts, name: str) -> None:
    assert MEASURED[name] / 2 < ms(zen, USUAL, name) < 2 * MEASURED[name]


def test_kinds_are_in_the_order_of_what_was_measured(zen: ModelledCosts) -> None:
    names = sorted(MEASURED)
    by_model, by_clock = (
        {n: place for place, n in enumerate(sorted(names, key=key))}
        for key in (lambda n: ms(zen, USUAL, n), MEASURED.__getitem__)
    )
    count = len(names)
    spearman = 1 - 6 * sum((by_model[n] - by_clock[n]) ** 2 for n in names) / (count * (count**2 - 1))
    assert spearman > 0.9


def test_one_channel_at_a_time_is_best_left_to_depthwise_kernels(zen: ModelledCosts) -> None:
    scenario = SCENARIOS[4]
    costs = {p.name: c.ms for p in all_primitives() if (c := zen.primitive(scenario, p)) is not None}
    assert "depthwise" in min(costs, key=costs.__getitem__)


def test_twice_the_clock_is_half_the_cycles(little: ModelledCosts) -> None:
    all_in_level_1 = (MemoryLevel("L1", 1.0, shared_bytes=1 << 40),)
    near = replace(little, core=replace(little.core, levels=all_in_level_1))
    faster = replace(near, core=replace(near.core, ghz=2 * near.core.ghz))
    for name in ("im2row_hwc_hwc", "winograd_2d_f4_k3_hwc_hwc", "fft_chw_chw"):
        assert ms(faster, USUAL, name) == pytest.approx(ms(near, USUAL, name) / 2, rel=1e-3)


def test_slow_memory_costs_those_most_who_write_most(little: ModelledCosts) -> None:
    levels = tuple(replace(level, bandwidth_gb_per_s=level.bandwidth_gb_per_s / 8) for level in little.core.levels)
    slow = replace(little, core=replace(little.core, levels=levels))
    lost = {
        name: ms(slow, USUAL, name) - ms(little, USUAL, name)
        for name in ("kn2col_full_hwc_hwc", "im2row_hwc_hwc", "im2row_strips_hwc_hwc")
    }
    assert lost["im2row_strips_hwc_hwc"] < min(lost["im2row_hwc_hwc"], lost["kn2col_full_hwc_hwc"])


def test_larger_cores_are_faster(little: ModelledCosts) -> None:
    big = modelled_costs(cluster(2))
    assert big.core.label == "exynos-m4" and little.core.label == "cortex-a55"
    for primitive in all_primitives():
        if primitive.applies(USUAL):
            assert ms(big, USUAL, primitive.name) < ms(little, USUAL, primitive.name)


def test_weights_come_from_where_a_network_leaves_them() -> None:
    """The more of them a primitive has, the more it takes where everything else is touched before they come again."""
    alone, in_network = (modelled_costs(cluster(2), 1, between) for between in (0.0, 1e9))
    small = Scenario(16, 14, 14, 1, 3, 16, 1)
    for name, weights in (("implicit_gemm_hwc_hwc", 16 * 16 * 9 * 4), ("winograd_2d_f4_k3_hwc_hwc", 16 * 16 * 36 * 4)):
        exposed = alone.fit.bytes_exposed / 1e6
        from_memory, nearer = (read_ns(weights, touched, alone.core.levels) * exposed for touched in (1e9, weights))
        assert 0 <= nearer < from_memory
        assert ms(in_network, small, name) - ms(alone, small, name) == pytest.approx(from_memory - nearer)


def test_conversions(little: ModelledCosts) -> None:
    def conversion(a: Layout, b: Layout, c: int = 64, h: int = 56, w: int = 56) -> float:
        conversion_cost = little.conversion(a, b, c, h, w)
        assert conversion_cost is not None and conversion_cost.kind == "modelled"
        return conversion_cost.ms

    assert conversion(Layout.CHW, Layout.CHW) == 0
    there = conversion(Layout.CHW, Layout.HWC)
    assert 0 < there == conversion(Layout.HWC, Layout.CHW) < ms(little, USUAL, "winograd_2d_f6_k3_hwc_hwc")
    assert conversion(Layout.CHW, Layout.HWC, h=112) > 1.5 * there
    # A block is filled up: 3 channels are as many as a whole block.
    assert conversion(Layout.CHW, Layout.CHWC, c=3) > conversion(Layout.CHW, Layout.HWC, c=3)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_primitive_of_an_arm_core_is_much_faster_than_its_multiply_adds(number: int) -> None:
    """Constants come from small scenarios with few channels, too: those of products must hold for many."""
    model = modelled_costs(cluster(number))
    for scenario in (Scenario(512, 14, 14, 1, 1, 512), Scenario(128, 28, 28, 1, 3, 128, 1)):
        core = model.core
        least_ms = scenario.macs / (core.lanes * core.rates.fma_per_cycle) * core.cycle_ns / 1e6
        for primitive in all_primitives():
            if primitive.applies(scenario) and primitive.family not in ("winograd", "fft"):
                assert ms(model, scenario, primitive.name) > 0.8 * least_ms, primitive.name


def test_few_multiply_adds_a_cycle_stretch_no_latency(little: ModelledCosts) -> None:
    narrow = Scenario(16, 14, 14, 1, 1, 16)  # four vectors of a pixel wait for the latency of four cycles
    twice = replace(little, core=replace(little.core, rates=replace(little.core.rates, fma_per_cycle=0.5)))

    def products(model: ModelledCosts, scenario: Scenario) -> float:
        cycles = model.primitive_cycles(scenario, find_primitive("direct_pixel_hwc_hwc"))
        assert cycles is not None
        return cycles.terms["product_pixel"]

    wide = replace(narrow, m=256)
    assert products(twice, wide) == pytest.approx(2 * products(little, wide), rel=0.05)
    slow = replace(little, core=replace(little.core, rates=replace(little.core.rates, fma_per_cycle=1.0)))
    assert products(slow, narrow) <= products(twice, narrow) <= 2 * products(slow, narrow)
