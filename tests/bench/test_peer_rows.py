"""Ratios, goals and tables of the comparison with other runtimes."""

import math
from typing import Any

import pytest

from bench.peer_rows import cells, geometric_mean, goal, row_of

VERSIONS = {"mavcg": "0.1", "fast": "1.0", "slow": "2.0", "wrong": "3.0"}
APART = {"mavcg": 1e-6, "fast": 0.0, "slow": 1e-5, "wrong": 0.5}


def row(network: str = "resnet50-random", **medians: list[float]) -> dict[str, Any]:
    times = {"mavcg": [4.0, 4.0, 8.0], "fast": [5.0, 4.0, 5.0], "slow": [9.0, 9.0, 9.0], **medians}
    return row_of(network, 1, times, VERSIONS, APART, {}) | {"counts": True}


def test_ratio_is_the_median_of_the_rounds_ratios() -> None:
    first_row = row()

    assert first_row["fastest"] == "fast"
    assert (first_row["ratio_low"], first_row["ratio"], first_row["ratio_high"]) == (0.8, 1.0, 1.6)
    assert first_row["runtimes"]["mavcg"] == {
        "ms": 4.0,
        "low": 4.0,
        "high": 8.0,
        "version": "0.1",
        "apart": 1e-6,
        "agrees": True,
    }


def test_the_fastest_peer_is_the_one_that_we_come_off_worst_beside_in_its_rounds() -> None:
    # Its median is the larger one, of rounds that were slow for everybody; within each round it is the faster one.
    first_row = row(mavcg=[4.0, 8.0, 8.0], fast=[6.0, 6.0, 14.0], slow=[5.0, 10.0, 10.0])

    assert (first_row["fastest"], first_row["ratio"]) == ("slow", 0.8)


def test_a_wrong_network_is_shown_and_not_compared_with() -> None:
    first_row = row(wrong=[1.0, 1.0, 1.0])

    assert first_row["fastest"] == "fast"
    assert not first_row["runtimes"]["wrong"]["agrees"]
    _, lines, notes = cells([first_row], ["mavcg", "wrong"])
    assert lines[0][2] == "1.00 [1]"
    assert notes == ["[1] wrong: its output is another one; not compared with"]


def test_8_bit_networks_may_be_further_apart() -> None:
    apart = {**APART, "wrong": 0.02}
    times = {"mavcg": [1.0], "wrong": [2.0]}

    assert row_of("net-int8", 1, times, VERSIONS, apart, {})["fastest"] == "wrong"
    assert "fastest" not in row_of("net", 1, times, VERSIONS, apart, {})


@pytest.mark.parametrize(("mavcg", "peers"), [(0.5, {}), (1e-6, {"fast": float("inf")})])
def test_no_ratio_without_two_right_networks(mavcg: float, peers: dict[str, float]) -> None:
    found = row_of("net", 2, {"mavcg": [1.0], "fast": [1.0]}, VERSIONS, {**APART, **peers, "mavcg": mavcg}, {})

    assert "ratio" not in found
    assert geometric_mean([found | {"counts": True}]) is None
    assert cells([found | {"counts": True}], ["mavcg", "fast"])[1][0][3:] == ["", "", "", ""]


def test_reasons_stand_in_the_table_once() -> None:
    made = [row_of("net", 1, {"mavcg": [1.0]}, VERSIONS, APART, {"fast": "reads no such file"}) | {"counts": True}] * 2
    _, lines, notes = cells(made, ["mavcg", "fast", "slow"])

    assert [line[2] for line in lines] == ["[1]", "[1]"]
    assert notes == ["[1] fast: reads no such file"]
    assert lines[0][3] == ""  # was not asked for


def test_geometric_mean_is_of_those_that_count() -> None:
    rows = [row(mavcg=[2.0] * 3, fast=[4.0] * 3), row(mavcg=[8.0] * 3, fast=[4.0] * 3)]
    other = row(mavcg=[40.0] * 3) | {"counts": False}

    assert geometric_mean([*rows, other]) == pytest.approx(math.sqrt(0.5 * 2.0))
    lines = cells([*rows, other], ["mavcg"])[1]
    assert [line[0] for line in lines] == ["resnet50", "resnet50", "geometric mean", "resnet50"]


def test_goals() -> None:
    assert (
        goal("vgg19-random")
        == goal("resnet50-random")
        == goal("inception_v1-random")
        == pytest.approx(0.8333, abs=1e-4)
    )
    assert goal("mobilenet_v2") == goal("resnet50-random-int8") == pytest.approx(1.1111, abs=1e-4)
    lines = cells([row("mobilenet_v2"), row()], ["mavcg"])[1]
    assert [line[-1] for line in lines] == ["1.11 met", "0.83 missed", "1.00 missed"]
