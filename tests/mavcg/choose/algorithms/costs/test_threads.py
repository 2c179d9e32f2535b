"""Costs of several threads by the model: rows as the kernels have them, shares, and what does not spread."""

from dataclasses import replace

import pytest

from mavcg.choose.algorithms.costs.modelled import ModelledCosts, modelled_costs
from mavcg.choose.algorithms.costs.threads import ThreadedCosts, threaded_costs
from mavcg.choose.algorithms.select_workers import label_of, workers_of
from mavcg.cost.guided_chunks import simulated_ns
from mavcg.errors import MavcgError
from mavcg.hosts.host import find_board
from mavcg.kernels.primitives.eight_bit import EightBit
from mavcg.kernels.primitives.registry import all_primitives, find_primitive
from mavcg.specs.primitive import Layout, Scenario

BOARD = find_board("exynos9820")  # 2 M4, 2 A75, 4 A55
USUAL = Scenario(64, 56, 56, 1, 3, 64, 1)
SCENARIOS = (
    Scenario(24, 28, 28, 1, 3, 40, 1),
    Scenario(3, 30, 30, 2, 7, 16, 3),
    Scenario(160, 14, 14, 1, 1, 512),
    Scenario(16, 13, 13, 1, 5, 32, 2, 2),
    Scenario(80, 20, 20, 1, 3, 80, 1, 80),
    Scenario(5, 9, 7, 1, 3, 3, 2, 1, 2),
    Scenario(16, 7, 7, 1, 3, 128, 1),
    Scenario(48, 13, 13, 1, 1, 40),
    Scenario(1, 1, 1, 1, 1, 1),
)


# A 3x3 convolution of 56x56 by its definition, stage by stage: rows of the image; patches by rows; a border of one
# pixel more on each side, then the blocks of 16 channels; 14 x 14 tiles of F(4x4) and their 36 planes, 10 x 10 of
# F(6x6); the coefficients of a real FFT of 16; 49 runs of 64 pixels for each of 9 taps.
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("im2row_hwc_hwc", [56, 56]),
        ("im2col_strips_chw_chw", [56]),
        ("implicit_gemm_hwc_chwc", [58, 56, 56, 56, 56]),
        ("winograd_2d_f4_k3_staged_hwc_hwc", [196, 36, 196]),
        ("winograd_2d_f6_k3_hwc_hwc", [100]),
        ("fft_hwc_hwc", [58, 9, 56]),
        ("kn2row_full_chw_chw", [49 * 9, 56]),
    ],
)
def test_rows_of_the_stages(name: str, rows: list[int]) -> None:
    stages = replace(one_thread(), block=16).stages(USUAL, find_primitive(name))

    assert stages is not None and [stage.rows for stage in stages] == rows


def test_a_batch_of_plain_products_is_one_run_of_pixels() -> None:
    one, three = (replace(Scenario(48, 13, 13, 1, 1, 40), batch=batch) for batch in (1, 3))
    model, staged = one_thread(), find_primitive("im2row_hwc_hwc")

    assert len(model.stages(three, staged) or ()) == 3 * len(model.stages(one, staged) or ()) == 6
    assert len(model.stages(three, find_primitive("implicit_gemm_hwc_hwc")) or ()) == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_every_stage_has_rows_and_cycles(scenario: Scenario) -> None:
    applying = [p for p in all_primitives() if p.applies(scenario) and not isinstance(p, EightBit)]
    stages = [stage for primitive in applying for stage in one_thread().stages(scenario, primitive) or (None,)]

    assert all(stage is not None and stage.rows >= 1 and stage.cycles.total > 0 for stage in stages)


def one_thread(number: int = 0) -> ModelledCosts:
    return modelled_costs(workers_of(BOARD, BOARD.clusters[number].core)[0])


@pytest.mark.parametrize("scenario", SCENARIOS[:3], ids=str)
def test_one_thread_costs_what_it_does_alone(scenario: Scenario) -> None:
    alone, threads = one_thread(), threaded_costs(workers_of(BOARD, BOARD.clusters[0].core))
    for primitive in all_primitives():
        a, b = alone.primitive(scenario, primitive), threads.primitive(scenario, primitive)
        assert (a is None) == (b is None)
        assert a is None or b is None or (a.ms == pytest.approx(b.ms) and a.kind == b.kind)
    a, b = (costs.conversion(Layout.CHW, Layout.HWC, 8, 30, 30) for costs in (alone, threads))
    assert a is not None and b is not None and a.ms == pytest.approx(b.ms)


def ms(costs: ThreadedCosts | ModelledCosts, scenario: Scenario, name: str) -> float:
    primitive_cost = costs.primitive(scenario, find_primitive(name))
    assert primitive_cost is not None
    return primitive_cost.ms


def test_more_threads_are_never_slower_and_never_more_than_as_much_faster() -> None:
    four = threaded_costs(workers_of(BOARD, "cortex-a55", 4))
    alone = ThreadedCosts(four.workers[:1])  # with the same share of caches and bandwidth
    for primitive in all_primitives():
        if primitive.applies(USUAL):
            slow, fast = ms(alone, USUAL, primitive.name), ms(four, USUAL, primitive.name)
            assert slow / 4 < fast <= slow, primitive.name
    assert ms(four, USUAL, "im2row_strips_hwc_hwc") < 0.3 * ms(alone, USUAL, "im2row_strips_hwc_hwc")


def test_a_stage_of_one_row_is_one_threads() -> None:
    four = threaded_costs(workers_of(BOARD, "cortex-a55", 4))
    alone = ThreadedCosts(four.workers[:1])
    flat = Scenario(256, 1, 6, 1, 3, 256, 1)  # F(6 x 6): a single tile
    (stage,) = one_thread().stages(flat, find_primitive("winograd_2d_f6_k3_hwc_hwc")) or ()
    assert stage.rows == 1
    assert ms(four, flat, "winograd_2d_f6_k3_hwc_hwc") == ms(alone, flat, "winograd_2d_f6_k3_hwc_hwc")
    three = Scenario(256, 13, 6, 1, 3, 256, 1)  # three tiles: a third of the time, and handing over
    shared = ms(four, three, "winograd_2d_f6_k3_hwc_hwc") / ms(alone, three, "winograd_2d_f6_k3_hwc_hwc")
    assert 1 / 3 < shared < 0.34


def test_what_is_done_before_it_could_be_handed_over_is_not() -> None:
    four = threaded_costs(workers_of(BOARD, "cortex-a55", 4))
    tiny = Scenario(1, 4, 4, 1, 1, 1)
    name = "im2row_hwc_hwc"
    assert ms(four, tiny, name) == pytest.approx(ms(ThreadedCosts(four.workers[:1]), tiny, name))


def test_threads_read_the_weights_each() -> None:
    # All but a few bytes are weights, in kernels that part pixels alone: nobody is sooner done than with all of them.
    two = threaded_costs(workers_of(BOARD, "cortex-a55", 2))
    (alone,) = {worker for worker in two.workers}
    heavy = Scenario(512, 7, 7, 1, 3, 512, 1)
    plain = replace(alone, readers=1)
    strips, staged = find_primitive("kn2col_acc_hwc_hwc"), find_primitive("winograd_2d_f4_k3_staged_hwc_hwc")
    more = ms(alone, heavy, strips.name) - ms(plain, heavy, strips.name)
    assert more > 0
    assert ms(alone, heavy, staged.name) == ms(plain, heavy, staged.name)  # planes are parted


def test_unequal_cores_share_by_their_speed() -> None:
    both = threaded_costs(workers_of(BOARD, "cortex-a75,cortex-a55", 4))
    name = "im2col_strips_chw_chw"
    (rows,) = (stage.rows for stage in both.workers[0].stages(USUAL, find_primitive(name)) or ())
    alone = [ms(ThreadedCosts((worker,)), USUAL, name) * 1e6 for worker in both.workers]

    assert ms(both, USUAL, name) < min(alone) / 1e6
    assert ms(both, USUAL, name) * 1e6 == pytest.approx(
        simulated_ns(rows, 1, [a / rows for a in alone], [0.0] * 4), rel=0.02
    )


def test_workers_are_the_fastest_cores_first() -> None:
    assert label_of(workers_of(BOARD, threads=2)) == "exynos-m4"
    assert label_of(workers_of(BOARD, threads=5)) == "2xexynos-m4+2xcortex-a75+1xcortex-a55"
    assert label_of(workers_of(BOARD, "cortex-a55", 3)) == "cortex-a55"
    assert label_of(workers_of(BOARD, "cortex-a55, cortex-a75", 3)) == "2xcortex-a75+1xcortex-a55"
    one, four = (workers_of(BOARD, "cortex-a55", n)[0].levels for n in (1, 4))
    assert four[-1].bandwidth_gb_per_s <= one[-1].bandwidth_gb_per_s


@pytest.mark.parametrize(
    ("core", "threads", "words"),
    [
        ("", 9, "there are only 8 cores on exynos9820"),
        ("cortex-a55", 5, "there are only 4 cores of cortex-a55"),
        ("", 0, "give 1 or more"),
        ("cortex-a76", 1, "no such core"),
    ],
)
def test_threads_that_cannot_be_are_one_error(core: str, threads: int, words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        workers_of(BOARD, core, threads)
