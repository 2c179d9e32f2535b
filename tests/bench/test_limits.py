"""bench.limits: what a record keeps of `mavcg bench --limit`, and its tables."""

from typing import Any

from bench.limits import MOST_LAYERS, row_of
from bench.tables.layers import limits


def layer(name: str, ms: float, limit_ms: float, over: float | None, **more: str) -> dict[str, Any]:
    return {"name": name, "op": "conv2d", "ms": ms, "limit_ms": limit_ms, "over": over, "bound_by": "memory", **more}


MEASURED = {
    "threads": 2,
    "median_ms": 6.0,
    "limits": {
        "layers": [
            layer("fast", 1.0, 0.99, 1.01),
            layer("worst", 2.0, 1.0, 2.0, primitive="winograd"),
            layer("short", 0.01, 0.001, 10.0),
            layer("nothing", 0.001, 0.0, None),
            layer("second", 1.5, 1.0, 1.5),
        ],
        "total": {"limit_ms": 3.0},
    },
}


def test_a_row_has_the_layers_that_lose_most_time_and_not_those_furthest_above() -> None:
    row = row_of("net", MEASURED, [6.0, 6.15, 5.9])

    assert row["spread"] == 1.042 and row["process_medians_ms"] == [6.0, 6.15, 5.9]
    assert (row["over"], row["layers"], row["above"]) == (2.0, 5, 3)
    assert [each["name"] for each in row["most"]] == ["worst", "second", "fast"]
    assert len(row["most"]) == MOST_LAYERS
    assert [each["primitive"] for each in row["most"]] == ["winograd", "", ""]


def test_tables_have_networks_and_their_layers() -> None:
    row = row_of("net", MEASURED, [6.0, 6.06])
    text = limits({"near": 1.15, "rows": [row]})

    assert "| net | 2 | 6.00 | 1.010 | 3.00 | 2.00 | 3 of 5 |" in text
    assert "| net | 2 | worst | winograd | 2.000 | 1.000 | memory |" in text
    assert "| net | 2 | second | conv2d | 1.500 | 1.000 | memory |" in text
