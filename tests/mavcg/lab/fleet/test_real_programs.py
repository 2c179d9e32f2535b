"""A fleet with the programs that boards get for good: compiled here, run over ssh on two loopback servers."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mavcg.lab.fleet.conftest import LoopbackFleet


@pytest.mark.long
def test_two_boards_measure_with_compiled_programs(
    mavcg: Any, fleet_of: Callable[[int], LoopbackFleet], model: Path, tmp_path: Path
) -> None:
    fleet = fleet_of(2)
    # Both are this machine, and disturb each other: what counts is that figures come, not which.
    fleet.write("[rules]", "slow = 50", "clock_drop = 1", "hot_celsius = 150")
    words = ("--family", "sum2d", "--db", tmp_path / "costs.sqlite", "--json")
    done = mavcg("tune", model, "--runner", fleet.option, *words)
    assert done.status == 0, done.stderr
    (of_type,) = json.loads(done.stdout)["types"]
    (core,) = of_type["cores"]

    assert core["measured"] > 0 and (core["left"], core["undecided"], core["failed"]) == (0, 0, [])
    assert core["program_bytes"] > 10_000 and all(cost["ms"] > 0 for cost in core["costs"])
    assert [row["aside"] for row in of_type["boards"]] == ["", ""] and "other results" not in done.stderr
    with sqlite3.connect(tmp_path / "costs.sqlite") as database:
        boards = {row[0] for row in database.execute("SELECT board FROM board_figures WHERE counts")}
        sums = database.execute("SELECT count(DISTINCT checksum) FROM board_figures GROUP BY what").fetchall()
    assert boards == {"desk-0", "desk-1"} and set(sums) == {(1,)}
    assert not list(tmp_path.glob("mavcg-*"))
