"""Tests of the share of layers, by access pattern, for which the fitted fractions of memory time are right."""

from bench.simulated_exposure import LEAST_KNOWN_ROWS, known_of
from mavcg.predict.exposure import PATTERNS

EXPOSED = {f"{pattern}_{end}": 0.5 for pattern in PATTERNS for end in ("near", "far")}


def rows(pattern: str, right: int, wrong: int) -> list[dict[str, object]]:
    row = {"pattern": pattern, "compute_ms": 1.0, "near_ms": 0.2, "far_ms": 0.2, "overhead_ms": 0.0}
    return [row | {"simulated_ms": 1.2}] * right + [row | {"simulated_ms": 2.4}] * wrong


def test_a_pattern_is_known_by_its_share_of_layers_within_a_tenth() -> None:
    known_fractions = known_of(
        [*rows("products", 6, 2), *rows("moves", 1, 9), *rows("pools", LEAST_KNOWN_ROWS - 1, 0)], EXPOSED
    )

    assert known_fractions["products_known"] == 0.75 and known_fractions["moves_known"] == 0.1
    assert known_fractions["pools_known"] == 0.0 and known_fractions["columns_known"] == 0.0
