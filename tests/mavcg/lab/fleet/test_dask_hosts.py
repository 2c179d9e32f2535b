"""Boards behind Dask workers, which have them as resources: shared, killed in the middle, missing."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.mavcg.accelerators.explore.dask_cluster import cluster
from tests.mavcg.lab.fleet.conftest import LoopbackFleet

pytest.importorskip("distributed")
FleetOf = Callable[[int], LoopbackFleet]
pytestmark = [pytest.mark.usefixtures("fake_programs"), pytest.mark.long]


def resources(*boards: str) -> Sequence[str]:
    return ("--threads", str(len(boards)), "--resources", " ".join(f"board-{board}=1" for board in boards))


def test_a_worker_killed_loses_nothing(mavcg: Any, fleet_of: FleetOf, model: Path, tmp_path: Path) -> None:
    fleet = fleet_of(3)
    for board in fleet.boards:
        board.does("sleep 0.05")
    words = ("tune", model, "--runner", fleet.option, "--json", "--db")
    alone = json.loads(mavcg(*words, tmp_path / "alone.sqlite").stdout)
    ran = fleet.boards[2].calls
    both = resources("desk-0", "desk-1")
    with cluster((both, resources("desk-2"))) as made:
        fleet.write(f'scheduler = "{made.address}"', "[rules]", "late_s = 600")

        def kill() -> None:
            until = time.monotonic() + 300
            while fleet.boards[2].calls < ran + 3 and time.monotonic() < until:
                time.sleep(0.02)
            made.workers[1].kill()
            made.start_worker(*resources("desk-2"))

        killer = threading.Thread(target=kill)
        killer.start()
        done = mavcg(*words, tmp_path / "dask.sqlite")
        killer.join()
    assert done.status == 0 and len(made.workers) == 3, done.stderr
    document = json.loads(done.stdout)

    def costs(document: dict[str, Any]) -> dict[str, float]:
        return {cost["what"]: cost["ms"] for of in document["types"] for core in of["cores"] for cost in core["costs"]}

    assert costs(document) == costs(alone) and (document["left"], document["undecided"]) == (0, 0)
    assert all(board.calls for board in fleet.boards)


def test_a_board_that_no_worker_has(
    mavcg: Any, fleet_of: FleetOf, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mavcg.lab.jobs.dask_engine.PATIENCE_S", 4.0)
    fleet = fleet_of(2)
    with cluster((resources("desk-0"),)) as made:
        fleet.write(f'scheduler = "{made.address}"')
        done = mavcg("tune", model, "--runner", fleet.option, "--family", "sum2d", "--json")
    assert done.status == 0, done.stderr
    assert f'run mavcg farm join {made.address} --resources "board-desk-1=1"' in done.stderr
    (of_type,) = json.loads(done.stdout)["types"]
    assert of_type["cores"][0]["measured"] and fleet.boards[1].calls == 0


def test_a_scheduler_that_is_not_there(
    mavcg: Any, fleet_of: FleetOf, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mavcg.lab.jobs.dask_engine.WAIT_S", 1)
    fleet = fleet_of(0)
    fleet.path.write_text('scheduler = "dask://127.0.0.1:1"\n[[board]]\nname = "a"\ntype = "desk"\nrunner = "local"\n')
    done = mavcg("tune", model, "--runner", fleet.option)
    assert done.status == 2 and "fleet.toml: scheduler tcp://127.0.0.1:1: no scheduler answers" in done.stderr
