"""Tuning whose disk is full: a clear error, what was measured is kept, and --resume goes on."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mavcg.lab.fleet import hosts
from mavcg.lab.runners import shell_runner
from tests.mavcg.file_limit import files_of_at_most
from tests.mavcg.lab.fleet.conftest import LoopbackFleet
from tests.mavcg.lab.fleet.instant_boards import InstantBoards

pytestmark = pytest.mark.usefixtures("fake_programs")
# Bytes of the database: that of all jobs of the model is larger than both; the smaller one has no figure.
NO_ROOM, SOME_ROOM = 12_288, 49_152


def measured(path: Path) -> dict[str, float]:
    """Costs that count; the file has to be whole."""
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return dict(database.execute("SELECT what, ms FROM costs WHERE caches = 'warm'"))


@pytest.mark.parametrize("limit", [NO_ROOM, SOME_ROOM])
def test_a_fleet(
    mavcg: Any,
    fleet_of: Callable[[int], LoopbackFleet],
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
) -> None:
    monkeypatch.setattr(hosts, "LocalEngine", InstantBoards)
    fleet = fleet_of(0)
    fleet.path.write_text('[[board]]\nname = "desk-0"\ntype = "desk"\nrunner = "ssh:desk-0"\n')
    path = tmp_path / "costs.sqlite"
    words = ("tune", model, "--runner", fleet.option, "--db", path, "--json")
    with files_of_at_most(limit):
        done = mavcg(*words)
    assert done.status == 2 and done.stdout == "", done.stderr
    said = done.stderr.replace("\n", " ")
    assert f"{path}: cannot be used as a database of costs (the disk takes no more); make room, or name" in said
    kept = measured(path) if limit == SOME_ROOM else {}
    assert bool(kept) == (limit == SOME_ROOM)

    again = mavcg(*words, "--resume")
    assert again.status == 0, again.stderr
    document = json.loads(again.stdout)
    assert (document["already"], document["left"], document["undecided"]) == (len(kept), 0, 0)
    assert set(kept) < set(measured(path))


@pytest.mark.long
def test_a_board(
    mavcg: Any, fleet_of: Callable[[int], LoopbackFleet], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_runner, "with_own_cores", lambda facts: facts)  # the board "desk" is of files, too
    fleet_of(0)
    (tmp_path / "behaviour").write_text("")
    monkeypatch.setenv("BOARD_FOLDER", str(tmp_path))
    path = tmp_path / "costs.sqlite"
    words = ("tune", model, "--board", "desk", "--runner", "local", "--db", path, "--json")
    with files_of_at_most(SOME_ROOM):
        done = mavcg(*words)
    assert done.status == 2 and done.stdout == "", done.stderr
    assert "(the disk takes no more); make room, or name" in done.stderr.replace("\n", " ")
    kept = measured(path)

    again = json.loads(mavcg(*words, "--resume").stdout)
    assert kept and (again["already"], again["left"], again["undecided"]) == (len(kept), 0, 0)
