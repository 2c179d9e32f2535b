"""Fractions of memory time from rows whose fractions are known."""

import random
from typing import Any

import pytest

from bench.simulated_exposure import FITTED, LEAST_KNOWN_KERNELS, TIMES, errors, exposed_of, known_of
from bench.simulated_layers import NETWORKS

TRUE = dict(zip(TIMES, (1.1, 0.3, 0.2, 0.5, 1.3, 0.0, 0.2, 0.7), strict=True))


def _rows(count: int, pattern: str = "products") -> list[dict[str, Any]]:
    pick = random.Random("rows")
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        times = {name: pick.uniform(0.05, 1) for name in TIMES}
        compute_ms = pick.uniform(1, 2)
        simulated = compute_ms + sum(TRUE[name] * ms for name, ms in times.items()) + 0.01
        rows.append(
            {
                "pattern": pattern,
                "kernel": f"{pattern} {len(rows)}",
                "compute_ms": compute_ms,
                "memory_ms": 0.1,
                **times,
                "overhead_ms": 0.01,
                "simulated_ms": simulated,
            }
        )
    return rows


def test_known_fractions_are_found_again_and_leave_no_error() -> None:
    rows = _rows(60)
    exposed = exposed_of(rows)
    assert exposed == pytest.approx(TRUE, abs=0.002)
    after, before = errors(rows, exposed), errors(rows, dict.fromkeys(exposed, 0.0))
    assert after["within_10_percent"] == 1.0 and after["ratio"] == pytest.approx(1.0, abs=0.01)
    assert before["within_10_percent"] < 0.5 and before["ratio"] < 0.9


def test_a_few_layers_that_something_else_slows_down_change_little() -> None:
    rows = _rows(60)
    for row in rows[:5]:
        row["simulated_ms"] *= 3
    exposed = exposed_of(rows)
    assert errors(rows[5:], exposed)["within_10_percent"] == 1.0


def test_how_often_a_pattern_is_right_is_known_with_enough_rows() -> None:
    rows = [*_rows(LEAST_KNOWN_KERNELS), *_rows(LEAST_KNOWN_KERNELS - 1, "moves")]
    for row in rows[: LEAST_KNOWN_KERNELS // 2]:
        row["simulated_ms"] *= 2
    known = known_of(rows, TRUE)
    assert known["products_known"] == 0.5 and known["moves_known"] == 0.0
    again = [*rows, *(row for row in rows if row["pattern"] == "moves")]
    assert known_of(again, TRUE) == known  # layers that share a kernel say nothing more


def test_networks_that_are_fitted_are_not_those_that_judge() -> None:
    assert not set(FITTED) & set(NETWORKS) and len(NETWORKS) == 5
