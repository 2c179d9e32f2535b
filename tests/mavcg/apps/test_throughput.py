"""Modelled throughput: sums, pipelines, phases; cuts against brute force."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.apps.application import Application, Cnn, DataEdge, Layer, Partition, in_order, sequential, whole_phases
from mavcg.apps.throughput import LayerTime, balanced_cuts, phase_cost_ms, throughputs
from mavcg.hardware.cost_fit import StepFit
from tests.conftest import examples

CNN = Cnn(
    "n", tuple(Layer(f"l{i}", "conv", 4) for i in range(3)), (DataEdge("l0", "l1", 4, 4), DataEdge("l1", "l2", 4, 4))
)
TIMES = {("n", f"l{i}"): LayerTime((1.0 + i, 2.0 + 2 * i), 2, (0.5, 1.0)) for i in range(3)}


def test_one_partition_adds_up_on_the_fastest_cluster() -> None:
    app = Application((CNN,), (sequential(CNN),))

    assert throughputs(app, whole_phases(app), TIMES) == {"n": pytest.approx(1e3 / 6)}
    phases = dict(whole_phases(app)) | {("n", "l1"): 4}  # two of which its two calls are anyhow
    assert throughputs(app, phases, TIMES) == {"n": pytest.approx(1e3 / 7)}


def test_a_pipeline_is_as_fast_as_its_slowest_stage() -> None:
    parts = tuple(Partition(f"p{i}", "n", names, in_order(names)) for i, names in enumerate((("l0", "l1"), ("l2",))))
    pipeline = Application((CNN,), parts, (frozenset(("p0", "p1")),))

    assert throughputs(pipeline, whole_phases(pipeline), TIMES) == {"n": pytest.approx(1e3 / 6)}  # l2 on cluster 1
    apart = Application((CNN,), parts)
    assert throughputs(apart, whole_phases(apart), TIMES) == {"n": pytest.approx(1e3 / 6)}  # 1 + 2 + 3 on cluster 0


@settings(max_examples=examples(30, 5))
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=8), st.integers(1, 3))
def test_cuts_are_the_best(rows: list[tuple[int, int]], count: int) -> None:
    cnn = Cnn("n", tuple(Layer(f"l{i}") for i in range(len(rows))), ())
    times = {("n", f"l{i}"): LayerTime((float(a), float(b)), 1, (0.0, 0.0)) for i, (a, b) in enumerate(rows)}

    def slowest(cuts: tuple[int, ...]) -> float:
        bounds = list(zip((0, *cuts), (*cuts, len(rows)), strict=True))
        return max(sum(rows[i][min(s, 1)] for i in range(a, b)) for s, (a, b) in enumerate(bounds))

    cuts = tuple(balanced_cuts(cnn, times, count))
    assert len(cuts) == count - 1
    assert slowest(cuts) == min(map(slowest, combinations(range(1, len(rows)), count - 1)))


def test_weights_that_fit_a_cache_are_not_read_again_from_behind_it() -> None:
    levels = ((1000, 10_000), (8.0, 2.0))
    small, middle, large = (phase_cost_ms(size, *levels, 2.0, StepFit(100, 12, 600)) for size in (1000, 4000, 20_000))

    assert middle - small == pytest.approx(4000 / 8.0 / 1e6) and large - small == pytest.approx(20_000 / 2.0 / 1e6)
