"""`mavcg tune --runner fleet:FILE`, from the command line to the database, on servers on loopback."""

import json
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mavcg.lab.fleet import hosts
from tests.mavcg.lab.fleet.conftest import LoopbackFleet
from tests.mavcg.lab.fleet.instant_boards import InstantBoards

FleetOf = Callable[[int], LoopbackFleet]
pytestmark = pytest.mark.usefixtures("fake_programs")


def figures(path: Path) -> list[dict[str, Any]]:
    with sqlite3.connect(path) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute("SELECT * FROM board_figures")]


def tune(mavcg: Any, fleet: LoopbackFleet, model: Path, *more: object) -> Any:
    return mavcg("tune", model, "--runner", fleet.option, "--db", fleet.path.with_name("costs.sqlite"), "--json", *more)


def test_from_the_command_line_to_the_database(
    mavcg: Any, fleet_of: FleetOf, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "LocalEngine", InstantBoards)
    fleet = fleet_of(0)
    boards = [f'[[board]]\nname = "desk-{n}"\ntype = "desk"\nrunner = "ssh:desk-{n}"\n' for n in range(3)]
    fleet.path.write_text("".join(boards))
    done = tune(mavcg, fleet, model, "--family", "sum2d")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    (of_type,) = document["types"]

    assert document["measured"] > 0 and (document["left"], document["undecided"]) == (0, 0)
    assert [(row["name"], row["ratio"], row["outlier"]) for row in of_type["boards"]] == [
        ("desk-0", 1.0, False),
        ("desk-1", 2.0, True),
        ("desk-2", 1.0, False),
    ]
    rows = figures(tmp_path / "costs.sqlite")
    conditions = ("type", "khz_before", "khz_after", "celsius_before", "celsius_after")
    assert {tuple(row[key] for key in conditions) for row in rows} == {("desk", 2_000_000, 1_900_000, 40.0, 45.0)}
    assert {row["board"] for row in rows if row["counts"]} == {"desk-0", "desk-2"}
    again = json.loads(tune(mavcg, fleet, model, "--family", "sum2d", "--resume").stdout)
    assert (again["measured"], again["already"]) == (0, document["measured"])


@pytest.mark.long
def test_two_boards_share_the_jobs(mavcg: Any, fleet_of: FleetOf, model: Path, tmp_path: Path) -> None:
    fleet = fleet_of(2)
    fleet.boards[0].does("celsius 55", "clock 1900000")
    done = tune(mavcg, fleet, model, "--family", "sum2d")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)

    (of_type,) = document["types"]
    (core,) = of_type["cores"]
    assert core["measured"] > 0 and (document["left"], document["stopped"], core["failed"]) == (0, "", [])
    assert [(row["name"], row["aside"], row["outlier"]) for row in of_type["boards"]] == [
        ("desk-0", "", False),
        ("desk-1", "", False),
    ]
    assert all(board.calls for board in fleet.boards)
    rows = figures(tmp_path / "costs.sqlite")
    assert {row["board"] for row in rows if row["counts"]} <= {"desk-0", "desk-1"} and len(rows) >= core["measured"]
    conditions = ("khz_before", "khz_after", "celsius_before", "celsius_after")
    states = {tuple(row[key] for key in conditions) for row in rows if row["board"] == "desk-0"}
    assert states == {(2_000_000, 1_900_000, 41.0, 55.0)}
    assert not list(tmp_path.glob("mavcg-*"))


@pytest.mark.long
def test_slow_hot_and_dying_boards(mavcg: Any, fleet_of: FleetOf, model: Path, tmp_path: Path) -> None:
    fleet = fleet_of(5)
    slow, hot, dying, failing, _ = fleet.boards
    slow.does("times 2")
    hot.does("celsius 90")
    dying.does("die 9")
    failing.does("fail 130")
    fleet.write("[rules]", "rest_s = 0.5", "late_s = 5")
    done = tune(mavcg, fleet, model)
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    (of_type,) = document["types"]
    boards = {row["name"]: row for row in of_type["boards"]}

    assert (document["left"], document["undecided"], of_type["cores"][0]["failed"]) == (0, 0, [])
    assert boards["desk-0"]["outlier"] and boards["desk-0"]["ratio"] == pytest.approx(2)
    assert not any(boards[f"desk-{n}"]["outlier"] for n in (1, 3, 4)) and boards["desk-1"]["celsius"] == 90
    assert "connection" in boards["desk-2"]["aside"] or "refused" in boards["desk-2"]["aside"]
    rows = figures(tmp_path / "costs.sqlite")
    alone = [row for row in rows if not row["interleaved"]]
    assert {row["verdict"] for row in rows if row["board"] == "desk-1"} == {"hot"}
    assert all(not row["counts"] for row in rows if row["verdict"])
    # Each job once, with the figure of a board that is as it should be: no matter which.
    counting = {row["what"]: row["ms"] for row in alone if row["counts"]}
    assert len(counting) == sum(row["counts"] for row in alone) == document["measured"]
    single = fleet_of_one(mavcg, fleet, model)
    assert counting == {row["what"]: row["ms"] for row in single if not row["interleaved"]}


def fleet_of_one(mavcg: Any, fleet: LoopbackFleet, model: Path) -> list[dict[str, Any]]:
    """The figures that the last board gives alone."""
    good = LoopbackFleet(fleet.boards[-1:], fleet.path.with_name("one.toml"))
    good.write()
    database = fleet.path.with_name("one.sqlite")
    done = mavcg("tune", model, "--runner", good.option, "--db", database, "--json")
    assert done.status == 0, done.stderr
    return figures(database)


@pytest.mark.long
def test_a_fleet_whose_last_board_dies_goes_on_later(
    mavcg: Any, fleet_of: FleetOf, model: Path, tmp_path: Path
) -> None:
    fleet = fleet_of(2)
    for board in fleet.boards:
        board.does("die 12")
    done = tune(mavcg, fleet, model)
    assert done.status == 2 and "no board of type desk is left: desk-" in done.stderr and "--resume" in done.stderr
    known = len({row["what"] for row in figures(tmp_path / "costs.sqlite") if row["counts"]})
    assert known > 0

    for board in fleet.boards:
        board.does()
        board.server.stop()
        board.server.start()
    again = json.loads(tune(mavcg, fleet, model, "--resume").stdout)
    assert again["already"] == known and again["measured"] > 0 and (again["left"], again["undecided"]) == (0, 0)


@pytest.mark.long
def test_the_tables_and_the_check(mavcg: Any, fleet_of: FleetOf, model: Path) -> None:
    fleet = fleet_of(2)
    fleet.boards[0].does("times 1.5")
    done = mavcg("tune", model, "--runner", fleet.option, "--family", "sum2d")
    assert done.status == 0 and "Boards of type desk" in done.stdout and "outlier" in done.stdout, done.stderr

    fleet.boards[1].server.stop()
    checked = json.loads(mavcg("tune", "--runner", fleet.option, "--check", "--json").stdout)
    assert [bool(row["fault"]) for row in checked["boards"]] == [False, True]
    assert "refused" in mavcg("tune", "--runner", fleet.option, "--check").stdout
    left_out = mavcg("tune", model, "--runner", fleet.option, "--family", "sum2d", "--json")
    assert left_out.status == 0 and "desk-1: is left out: " in left_out.stderr


def test_bad_requests_are_refused_with_a_reason(mavcg: Any, tmp_path: Path, model: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('[[board]]\nname = "a"\ntype = "rk3588"\nrunner = "ssh:nobody@127.0.0.1:1"\n')
    for words, message in (
        ([model, "--runner", "fleet:none.toml"], "none.toml: cannot be read"),
        ([model, "--runner", f"fleet:{path}", "--board", "exynos9820"], "--board exynos9820: "),
        ([model, "--runner", f"fleet:{path}", "--core", "cortex-a7"], "--core cortex-a7: no board of "),
        ([model, "--runner", f"fleet:{path}"], "no board of type rk3588 can be used: a: "),
    ):
        done = mavcg("tune", *words, "--db", tmp_path / "costs.sqlite")
        assert done.status == 2 and message in done.stderr and done.stdout == "", done.stderr


@pytest.mark.long
def test_ctrl_c_keeps_what_is_known_and_leaves_nothing(
    mavcg: Any, fleet_of: FleetOf, model: Path, tmp_path: Path
) -> None:
    fleet = fleet_of(2)
    for board in fleet.boards:
        board.does("sleep 0.02")

    def interrupt() -> None:
        until = time.monotonic() + 300
        while sum(board.calls for board in fleet.boards) < 7 and time.monotonic() < until:
            time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    done = tune(mavcg, fleet, model)
    interrupter.join()
    assert done.status == 130 and "stopped: " in done.stderr and "--resume continues" in done.stderr, done.stderr
    document = json.loads(done.stdout)
    known = {row["what"] for row in figures(tmp_path / "costs.sqlite") if row["counts"]}
    assert document["stopped"] == "interrupt" and document["left"] > 0 and len(known) == document["measured"] > 0
    assert not list(tmp_path.glob("mavcg-*"))

    for board in fleet.boards:
        board.does()
    again = json.loads(tune(mavcg, fleet, model, "--resume").stdout)
    assert (again["already"], again["left"], again["undecided"]) == (len(known), 0, 0)
