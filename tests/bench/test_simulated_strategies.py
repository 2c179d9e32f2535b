"""Networks built by two strategies, simulated."""

from typing import Any

import pytest

from bench import simulated_strategies
from bench.simulated_strategies import row_of
from bench.tables.unsure import simulated_strategies as table_of


def test_a_ratio_below_one_says_that_the_selection_pays() -> None:
    row = row_of("net", "rk3588", "cortex-a76", 3, 20.0, 18.0)
    assert row["ratio"] == pytest.approx(0.9) and row["primitives"] == 3

    assert "| net | rk3588 | cortex-a76 | 3 | 20.00 | 18.00 | 0.900 |" in table_of({"rows": [row]})


@pytest.mark.long
def test_both_libraries_of_a_small_network_are_simulated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written: dict[str, Any] = {}

    def write(name: str, record: dict[str, Any]) -> str:
        written[name] = record
        return name

    monkeypatch.setattr(simulated_strategies, "write", write)
    monkeypatch.setattr(simulated_strategies, "BOARDS", ("rk3588",))
    assert simulated_strategies.main(["blazeface"]) == 0
    rows = written["simulated_strategies"]["rows"]
    assert [row["core"] for row in rows] == ["cortex-a55", "cortex-a76"]
    assert all(row["engine_ms"] > 0 and row["pbqp_ms"] > 0 for row in rows)
