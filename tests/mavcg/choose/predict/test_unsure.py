"""Tests of the rule for layers that the model is unsure of, and of simulated times in their place."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.predict import unsure
from mavcg.choose.predict.exposure import PATTERNS, LineTimes, StepLines
from mavcg.choose.predict.kernel_cycles import WORK
from mavcg.choose.predict.latency import MODELLED, SIMULATED, StepModel
from mavcg.choose.predict.memory import step_traffic
from mavcg.choose.predict.unsure import LEAST_KNOWN, known_fraction, unsure_because
from mavcg.cost.memory import level_ns
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.cost_fit import IN_ORDER, OUT_OF_ORDER_AARCH64, X86
from mavcg.profiles.cost_fits import fit_of_kind
from tests.conftest import examples

ALMOST_NOTHING = (64, 64, 64)
PRODUCT, COPY = "conv2d_f32_nhwc_1x1", "copy_x32_8"


@pytest.fixture
def by_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels of these tests, which have no blocks, count as those of the pipeline model, and bytes as lines."""

    def bytes_as_lines(step: StepModel, worker: CoreModel, sizes: tuple[int, ...]) -> StepLines:
        levels = worker.levels
        moved = step_traffic(step.work, step.distances, levels, waits_for_write_backs=False)
        *near_ns, far_ns = level_ns(moved.crossing, levels)
        return StepLines(moved, LineTimes(near_seen=sum(near_ns), far_unseen=far_ns))

    monkeypatch.setattr(unsure, "PIPELINE", WORK)
    monkeypatch.setattr(StepModel, "_count_lines", bytes_as_lines)


def in_order(make: Any, cluster: int = 0) -> CoreModel:
    worker: CoreModel = make.worker(cluster=cluster)
    return replace(worker, fit=fit_of_kind(IN_ORDER))


def layer(
    make: Any, kernel: str = PRODUCT, cycles: float = 1e6, sizes: Any = ALMOST_NOTHING, far: int = 100
) -> StepModel:
    """A step of one task."""
    model: StepModel = make.model(replace(make.step(grain=10, sizes=sizes), kernel=kernel), cycles, far)
    return model


@pytest.mark.usefixtures("by_pipeline")
def test_mostly_arithmetic_of_a_known_pattern_is_sure(make: Any) -> None:
    assert unsure_because(layer(make), in_order(make)) == ""


def test_unknown_lines_are_unsure(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsure, "PIPELINE", WORK)
    assert "addresses" in unsure_because(layer(make), in_order(make))


def test_cycles_that_are_not_of_the_pipeline_model_are_unsure(make: Any) -> None:
    assert "elementary operations" in unsure_because(layer(make), in_order(make))


@pytest.mark.usefixtures("by_pipeline")
def test_each_condition_makes_a_layer_unsure(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    core = in_order(make)

    with monkeypatch.context() as patched:
        patched.setattr(unsure, "known_fraction", lambda pattern, fit: 0.5)
        assert unsure_because(layer(make, COPY), core).startswith("moves: 50% of the kernels")
    assert unsure_because(layer(make, "direct_columns_f32"), core).startswith("columns: few kernels")
    large = layer(make, cycles=1000.0, sizes=(10**6, 10**5, 10**6), far=1 << 20)
    assert "of the time" in unsure_because(large, core)


@pytest.mark.usefixtures("by_pipeline")
def test_a_working_set_near_a_caches_size_is_unsure(make: Any) -> None:
    """Twice as far back, the operands lie in memory, whose lines an in-order core waits for."""
    core, sizes = in_order(make), (16 << 10,) * 3
    near = layer(make, cycles=1.2e4, sizes=sizes, far=9000)
    sure = layer(make, cycles=1.2e4, sizes=sizes, far=100)

    assert near.alone(core).compute_ms / near.alone(core).ms > 0.9
    assert "near a cache's size" in unsure_because(near, core)
    assert unsure_because(sure, core) == ""


@pytest.mark.usefixtures("by_pipeline")
def test_cores_whose_fractions_were_not_fitted_are_not_judged(make: Any) -> None:
    worker = make.worker()
    x86 = replace(worker, fit=fit_of_kind(X86))

    assert fit_of_kind(X86).exposed is None
    assert unsure_because(layer(make, COPY), x86) == ""


@pytest.mark.parametrize("kind", [IN_ORDER, OUT_OF_ORDER_AARCH64])
def test_the_record_says_which_patterns_are_known(kind: str) -> None:
    fit = fit_of_kind(kind).exposed
    assert fit is not None
    known = {pattern for pattern in PATTERNS if known_fraction(pattern, fit) >= LEAST_KNOWN}

    assert "products" in known
    assert not known & {"unblocked", "pools", "columns"}  # few kernels, or many that are off


@settings(max_examples=examples(40, 5))
@given(rows=st.integers(1, 60), cycles=st.floats(100, 1e6), simulated_ms=st.floats(0.01, 10))
def test_a_simulated_time_takes_the_place_of_the_kernels(
    make: Any, rows: int, cycles: float, simulated_ms: float
) -> None:
    core, fit = in_order(make), fit_of_kind(IN_ORDER).steps
    model = make.model(make.step(rows=rows), cycles)
    simulated = model.with_simulated([(core, simulated_ms)])
    calls_ms = fit.call_cycles * model.work.tasks / core.ghz / 1e6
    expected = max(simulated_ms, calls_ms) + fit.step_cycles / core.ghz / 1e6

    assert simulated.alone(core).ms == pytest.approx(expected, rel=1e-6)
    assert (model.alone(core).source, simulated.alone(core).source) == (MODELLED, SIMULATED)
    assert simulated.together([core]) == simulated.alone(core).ms


def test_other_clusters_stay_modelled_and_teams_scale(make: Any) -> None:
    first, second = in_order(make), in_order(make, cluster=1)
    model = make.model(make.step(rows=40), 1e6, slower=2.0)
    twice = model.with_simulated([(first, 2 * model.alone(first).kernel_ms)])

    assert twice.alone(second) == model.alone(second)
    ratio = twice.together([first, first]) / model.together([first, first])
    assert ratio == pytest.approx(2.0, rel=0.02)
