"""Tests of the share of kernels, by access pattern, for which the fitted fractions of memory time are right."""

from bench.simulated_exposure import LEAST_KNOWN_KERNELS, TIMES, known_of

EXPOSED = dict.fromkeys(TIMES, 0.5)


def rows(pattern: str, right: int, wrong: int) -> list[dict[str, object]]:
    """Rows of different kernels."""
    row = {"pattern": pattern, "compute_ms": 1.0, "memory_ms": 0.4, "overhead_ms": 0.0, **dict.fromkeys(TIMES, 0.05)}
    times = [1.2] * right + [2.4] * wrong
    return [row | {"kernel": f"{pattern} {number}", "simulated_ms": ms} for number, ms in enumerate(times)]


def test_a_pattern_is_known_by_its_share_of_kernels_within_a_tenth() -> None:
    few = rows("pools", LEAST_KNOWN_KERNELS - 1, 0)
    known_fractions = known_of([*rows("products", 6, 2), *rows("moves", 1, 9), *few, *few], EXPOSED)

    assert known_fractions["products_known"] == 0.75 and known_fractions["moves_known"] == 0.1
    assert known_fractions["pools_known"] == 0.0 and known_fractions["columns_known"] == 0.0
