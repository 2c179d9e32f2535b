"""Tests of the choice of primitives to simulate for a selection."""

from dataclasses import replace

import pytest

from mavcg.choose.algorithms.choice import Alternative
from mavcg.choose.algorithms.costs.provider import MEASURED, MODELLED, SIMULATED, Cost
from mavcg.choose.algorithms.costs.rows import Conversion
from mavcg.kernels.primitives.registry import all_primitives, find_primitive
from mavcg.lab.tuning.simulated_choices import jobs_of_choice
from mavcg.lab.tuning.work_list import Job, WorkList, unsure_jobs
from mavcg.specs.primitive import Layout, Scenario

SCENARIO = Scenario(32, 14, 14, 1, 3, 48, 1)
DEFAULT, WINOGRAD, IM2, DIRECT = (
    "implicit_gemm_hwc_hwc",
    "winograd_2d_f4_k3_staged_hwc_hwc",
    "im2row_hwc_hwc",
    "direct_channels_chw_hwc",
)


def job(name: str, ms: float, scenario: Scenario = SCENARIO) -> Job:
    return Job((scenario, name), ms, find_primitive(name))


def alternative(name: str, ms: float, kind: str = MODELLED) -> Alternative:
    primitive = find_primitive(name)
    return Alternative(primitive, primitive.layout_in, primitive.layout_out, Cost(ms, kind))


def test_primitives_near_the_fastest_are_unsure_with_the_default() -> None:
    other = replace(SCENARIO, c=16)
    jobs = (
        job(WINOGRAD, 1.0),
        job(IM2, 1.2),
        job(DIRECT, 1.3),
        job(DEFAULT, 2.0),  # 1.1 * 1.1 = 1.21
        job(WINOGRAD, 1.0, other),
        job(IM2, 1.5, other),
        job(DEFAULT, 1.6, other),
        Job(Conversion(Layout.CHW, Layout.HWC, 32, 14, 14), 0.1),
    )
    plan = WorkList((SCENARIO, other), (), jobs, 0)

    assert unsure_jobs(plan, 1.1) == (jobs[0], jobs[1], jobs[3])
    assert unsure_jobs(plan, 1.0) == ()
    assert set(unsure_jobs(plan, 1.3)) == set(jobs[:7])


def test_scenarios_that_differ_in_sparsity_are_one_choice() -> None:
    sparse = replace(SCENARIO, sparsity=60)
    dense, csr = job(DEFAULT, 1.0), job(IM2, 1.05, sparse)

    assert unsure_jobs(WorkList((sparse,), (), (dense, csr), 0), 1.1) == (dense, csr)


@pytest.mark.parametrize("kind", [SIMULATED, MEASURED])
def test_the_chosen_one_its_rival_and_the_default_are_simulated(kind: str) -> None:
    made = [alternative(WINOGRAD, 1.0), alternative(IM2, 1.1), alternative(DIRECT, 1.01), alternative(DEFAULT, 1.2)]
    unsure = {(SCENARIO, name): job(name, 1.0) for name in (WINOGRAD, IM2, DIRECT, DEFAULT)}

    def names(alternatives: list[Alternative], chosen: int = 0) -> list[str]:
        return [each.what[1] for each in jobs_of_choice(SCENARIO, alternatives[chosen], alternatives, unsure)]  # type: ignore[index, arg-type]

    assert names(made) == [WINOGRAD, IM2, DEFAULT]  # DIRECT has other layouts
    known = [alternative(WINOGRAD, 1.0, kind), *made[1:]]
    assert names(known) == [IM2, DEFAULT]
    assert names([alternative(each.name, each.cost.ms, kind) for each in made]) == []
    assert names(made, 2)[0] == DIRECT


def test_nothing_is_simulated_where_the_model_is_sure() -> None:
    made = [alternative(WINOGRAD, 1.0), alternative(DEFAULT, 2.0)]

    assert list(jobs_of_choice(SCENARIO, made[0], made, {})) == []
    assert len({primitive.name for primitive in all_primitives()}) > 50
