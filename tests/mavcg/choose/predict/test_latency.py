"""What must hold of every prediction, whatever the constants."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mavcg.choose.predict.latency import MEMORY, OVERHEAD, total_ms
from mavcg.cost.guided_chunks import simulated_ns
from tests.conftest import examples

ROWS = st.integers(1, 60)
CYCLES = st.floats(10, 1e6)


@settings(max_examples=examples(40, 5))
@given(rows=ROWS, cycles=CYCLES, factor=st.floats(1, 10))
def test_more_bandwidth_is_never_slower(make: Any, rows: int, cycles: float, factor: float) -> None:
    model = make.model(make.step(rows=rows, sizes=(10**6, 10**5, 10**6)), cycles)
    slow, fast = make.worker(), make.worker(bandwidths=(20 * factor, 10 * factor, 5 * factor))

    assert model.alone(fast).ms <= model.alone(slow).ms
    assert model.together([fast, fast]) <= model.together([slow, slow])


@settings(max_examples=examples(40, 5))
@given(rows=ROWS, cycles=CYCLES, cores=st.integers(2, 7))
def test_more_equal_cores_are_never_slower(make: Any, rows: int, cycles: float, cores: int) -> None:
    model = make.model(make.step(rows=rows), cycles)
    one = make.worker()

    assert model.together([one] * (cores + 1)) <= model.together([one] * cores) * (1 + 1e-12)


@settings(max_examples=examples(40, 5))
@given(rows=ROWS, cycles=CYCLES, big=st.integers(0, 10**7), ghz=st.floats(0.5, 4))
def test_never_below_either_roof(make: Any, rows: int, cycles: float, big: int, ghz: float) -> None:
    model = make.model(make.step(rows=rows, sizes=(big, 100, 100)), cycles)
    worker = make.worker(ghz=ghz)
    cost = model.alone(worker)

    assert cost.ms >= cost.compute_ms == pytest.approx(rows * cycles / ghz / 1e6)
    assert cost.ms >= cost.memory_ms >= big / 5.0 / 1e6
    assert model.together([worker] * 3) >= cost.compute_ms / 3


def test_a_slow_core_does_not_hold_the_last_task(make: Any) -> None:
    """Three tasks of 1 ms on two fast cores, and one ten times slower that leaves them alone."""
    model = make.model(make.step(rows=3), cycles_a_row=2e6, slower=10.0)
    fast, slow = make.worker(ghz=2.0), make.worker(ghz=2.0, cluster=1)

    assert model.together([fast, fast]) == pytest.approx(2.0, rel=0.01)
    assert model.together([fast, fast, slow]) == pytest.approx(2.0, rel=0.01)
    assert model.weights([fast, slow])[0] == 4096 and model.weights([fast, slow])[1] == pytest.approx(410, abs=2)


@settings(max_examples=examples(40, 5))
@given(rows=st.integers(100, 2000), ratios=st.lists(st.floats(1, 6), min_size=1, max_size=6))
def test_unequal_cores_end_near_the_ideal_split(rows: int, ratios: list[float]) -> None:
    per_row = [100.0, *(100.0 * ratio for ratio in ratios)]
    ideal = rows / sum(1 / ns for ns in per_row)

    ends = simulated_ns(rows, 1, per_row, [0.0] * len(per_row))
    assert ideal * (1 - 1e-9) <= ends <= ideal + 2 * max(per_row)


def test_a_single_task_is_one_core_s(make: Any) -> None:
    model = make.model(make.step(rows=4, grain=4))

    assert model.together([make.worker()] * 4) == model.alone(make.worker()).ms


def test_claims_smaller_than_a_task_end_together(make: Any) -> None:
    """14 rows in tasks of 5, of which two cores do 9 and 5; a chunk of channels may be less than a task as well."""
    tasks = make.step(rows=14, grain=5)
    chunks, channels = replace(tasks, min_chunk_rows=1), replace(tasks, min_chunk_rows=1, by_channels=True)
    both = [make.worker(ghz=2.0)] * 2
    by_tasks, by_claims, by_channels = (make.model(step, 2e6).together(both) for step in (tasks, chunks, channels))

    assert (tasks.chunk_rows, chunks.chunk_rows, channels.chunk_rows) == (5, 1, 1)
    assert by_tasks == pytest.approx(9.0, rel=0.01) and by_claims == pytest.approx(7.0, rel=0.01)
    assert by_channels == pytest.approx(by_claims, rel=0.01)
    halves = replace(make.step(rows=4, grain=4), min_chunk_rows=2)
    assert make.model(halves, 2e6).together(both) == pytest.approx(2.0, rel=0.01)


def test_the_bound_is_what_most_of_the_time_is(make: Any) -> None:
    assert make.model(make.step(rows=1), cycles_a_row=1.0, far=0).alone(make.worker()).bound == OVERHEAD
    assert make.model(make.step(rows=1, sizes=(10**7, 1, 1))).alone(make.worker()).bound == MEMORY


def test_totals_are_sums(make: Any) -> None:
    steps = [make.model(replace(make.step(rows=n), name=str(n))) for n in (1, 5, 9)]
    workers = [make.worker(), make.worker()]

    assert total_ms(steps, workers) == pytest.approx(sum(step.together(workers) for step in steps))
