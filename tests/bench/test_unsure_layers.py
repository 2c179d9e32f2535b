"""Counts of layers that the model is sure and unsure of."""

from bench.simulated_layers import BOARD, CORES
from bench.unsure_layers import cores_alone, counts
from mavcg.profiles.load import load_board


def row(modelled: float, estimated: float, unsure: str = "", source: str = "modelled") -> dict[str, object]:
    return {
        "simulated_ms": 1.0,
        "modelled_ms": modelled,
        "estimated_ms": estimated,
        "unsure": unsure,
        "source": source,
    }


def test_sure_and_unsure_layers_are_counted_apart() -> None:
    counted = counts(
        [
            row(1.05, 1.05),
            row(1.2, 1.2),
            row(0.5, 0.95, "far", "simulated"),
            row(1.0, 1.5, "far", "simulated"),
            row(0.8, 0.8, "far"),
        ]
    )

    assert (counted["sure"], counted["sure_within"]) == (2, 1)
    assert (counted["unsure"], counted["unsure_within"]) == (3, 1)
    assert (counted["simulated_alone"], counted["simulated_within"]) == (2, 1)
    assert counted["all_modelled_within"] == 2 and counted["all_estimated_within"] == 2
    assert counted["modelled_ratio"] == 0.91 and counted["estimated_ratio"] == 1.1


def test_the_board_has_the_compared_cores_only() -> None:
    board = cores_alone(load_board(BOARD))

    assert [cluster.core for cluster in board.clusters if cluster.core not in CORES] == []
    assert {cluster.core for cluster in board.clusters} == set(CORES)
