"""Bytes of macro-tiles by the planner's equations, and what the roofline alone chooses."""

from dataclasses import replace

import pytest

from mavcg.accelerators.plans.machines import core_accelerator
from mavcg.accelerators.plans.roofline import performance_per_access, roofline_performance
from mavcg.choose.tiles.candidates import candidates, plain_tile, task_sizes
from mavcg.choose.tiles.tiles import CALIBRATED, ROOFLINE, best_macro
from mavcg.cost.cycles import LEVEL_1, LEVEL_2, Term
from mavcg.cost.kernel_cost import cost
from mavcg.cost.level_traffic import fits_level_2, l2_tiling, l2_traffic, l2_traffic_by_dataflow
from mavcg.cost.traffic import no_reload, traffic
from mavcg.hardware.accelerator import MemoryLevel
from mavcg.specs.tile_plan import Order
from tests.mavcg.choose.tiles.convs import X86, ZEN3, conv, known

LAYERS = ((28, 512, 128, 3), (7, 512, 512, 3), (56, 64, 256, 1), (14, 256, 256, 3))


@pytest.mark.parametrize("layer", LAYERS)
def test_without_further_terms_a_macro_tile_costs_what_the_roofline_says(layer: tuple[int, int, int, int]) -> None:
    """One call of all rows: bytes are those of equation 6.1, cycles of 6.12, with level 2 as the memory on chip."""
    work = known(conv(*layer, 16))
    core = replace(ZEN3, levels=ZEN3.levels[:2])
    for macro in candidates(work, core, plain_tile(work, work.spec.rows)):
        task = work.task(macro.call_rows)
        assert task.oh == work.layer.oh and task.oc == work.layer.oc
        tiling = l2_tiling(macro, task)
        total_cost = cost(work.spec, macro, core, ROOFLINE.terms)
        reached = roofline_performance(work.layer, traffic(work.layer, tiling), core_accelerator("b", core))

        assert total_cost.level_bytes == {LEVEL_1: 0, LEVEL_2: reached.traffic.total_bytes}
        assert total_cost.total / core.ghz * 1e-9 == pytest.approx(reached.seconds)
        assert 1 / ROOFLINE.value(total_cost) == pytest.approx(
            performance_per_access(reached) / work.layer.macs / core.ghz
        )


@pytest.mark.parametrize("layer", LAYERS)
def test_the_roofline_alone_takes_the_tile_of_most_performance_per_access_that_fits(
    layer: tuple[int, int, int, int],
) -> None:
    work = known(conv(*layer, 16))
    call_rows = task_sizes(work, [X86])[0]
    task = work.task(call_rows)
    fitting = [
        macro
        for macro in candidates(work, ZEN3, plain_tile(work, call_rows))
        if fits_level_2(ZEN3, task, l2_tiling(macro, task))
    ]
    chosen = best_macro(work, ZEN3, call_rows, model=ROOFLINE)
    values = [ROOFLINE.value(cost(work.spec, macro, ZEN3, ROOFLINE.terms)) for macro in fitting]

    assert fitting and chosen == fitting[values.index(min(values))]


def test_a_cache_keeps_what_fits_and_no_operand_of_the_dataflow_that_does_not() -> None:
    """1x1, 64 to 256 channels: 64 KB of weights stay whatever the order; 2,048 to 2,048 do not in rows' order."""
    small, large = known(conv(56, 64, 256, 1, 16)), known(conv(1, 2048, 2048, 1, 16))
    for work, times in ((small, 1), (large, 1)):
        macro = replace(plain_tile(work, 1), order=Order.ROWS)
        task = work.task(1)
        kept = l2_traffic(work, ZEN3, task, l2_tiling(macro, task))
        assert kept.weight_bytes == times * no_reload(work.layer).weight_bytes
    rows = replace(plain_tile(small, 1), order=Order.ROWS)
    by_flow = l2_traffic_by_dataflow(small, small.task(1), l2_tiling(rows, small.task(1)))
    assert by_flow.weight_bytes == small.spec.rows * no_reload(small.layer).weight_bytes


@pytest.mark.parametrize("term", Term)
def test_each_term_changes_a_cost_and_none_makes_another_cheaper_than_the_roofline(term: Term) -> None:
    """Of five kinds of layer one at least has each term."""
    works = [known(conv(*layer, 16)) for layer in (*LAYERS, (14, 512, 512, 1))]
    works.append(known(conv(14, 64, 256, 1, 16, residual=True)))
    core = replace(ZEN3, levels=(*ZEN3.levels, MemoryLevel("L3", 3.0 * 4, shared_bytes=32 << 20)))
    changed = False
    for work in works:
        plain = plain_tile(work, task_sizes(work, [X86])[0])
        for macro in (plain, replace(plain, kc=64), replace(plain, prefetch_distance_bytes=4096)):
            whole = cost(work.spec, macro, core)
            changed |= cost(work.spec, macro, core, CALIBRATED.without(term).terms) != whole
            assert whole.total >= max(whole.terms[Term.REGISTER_TILES], *whole.roofs.values())

    assert changed
