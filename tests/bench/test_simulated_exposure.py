"""Fractions of memory time from rows whose fractions are known."""

import random

import pytest

from bench.simulated_exposure import FITTED, LEAST_ROWS, errors, exposed_of, most_exposed
from bench.simulated_layers import NETWORKS
from mavcg.predict.exposure import PATTERNS

TRUE = {
    "products": (0.3, 0.8),
    "winograd": (0.1, 0.2),
    "unblocked": (0.2, 1.5),
    "direct": (0.5, 0.3),
    "depthwise": (1.1, 0.0),
    "pools": (2.0, 0.9),
    "columns": (2.5, 0.5),
    "moves": (0.6, 1.2),
}


def _rows(patterns: tuple[str, ...]) -> list[dict[str, object]]:
    pick = random.Random("rows")
    rows: list[dict[str, object]] = []
    for pattern in patterns:
        near, far = TRUE[pattern]
        for _ in range(2 * LEAST_ROWS):
            sizes = {"compute_ms": pick.uniform(1, 2), "near_ms": pick.uniform(0.1, 1), "far_ms": pick.uniform(0, 0.5)}
            simulated = sizes["compute_ms"] + near * sizes["near_ms"] + far * sizes["far_ms"] + 0.01
            rows.append({"pattern": pattern, **sizes, "overhead_ms": 0.01, "simulated_ms": simulated})
    return rows


def test_known_fractions_are_found_again_and_leave_no_error() -> None:
    rows = _rows(PATTERNS)
    exposed = exposed_of(rows)
    for pattern, (near, far) in TRUE.items():
        assert exposed[f"{pattern}_near"] == pytest.approx(near, abs=0.002)
        assert exposed[f"{pattern}_far"] == pytest.approx(far, abs=0.002)
    after, before = errors(rows, exposed), errors(rows, dict.fromkeys(exposed, 0.0))
    assert after["within_10_percent"] == 1.0 and after["ratio"] == pytest.approx(1.0, abs=0.01)
    assert before["within_10_percent"] < 0.5 and before["ratio"] < 0.9


def test_a_pattern_of_few_rows_has_the_fractions_of_products() -> None:
    exposed = exposed_of(_rows(("products",)))
    assert exposed["columns_near"] == exposed["products_near"] and exposed["moves_far"] == exposed["products_far"]


def test_networks_that_are_fitted_are_not_those_that_judge() -> None:
    assert not set(FITTED) & set(NETWORKS) and len(NETWORKS) == 5


def test_no_fraction_is_larger_than_what_a_core_can_show() -> None:
    rows = _rows(PATTERNS)
    limited = exposed_of(rows, (0.5, 0.6))
    assert all(value <= (0.5 if name.endswith("near") else 0.6) for name, value in limited.items())
    near, far = most_exposed("cortex-a55")
    assert 2 < near < 4 and 10 < far < 20  # 46 cycles for 16, 251 for 17
