"""Searches on workers of Dask: the database of one process; schedulers that end or are missing."""

import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mavcg.accelerators.plans.schedule_cache import fingerprint
from mavcg.errors import MavcgError
from mavcg.lab.connections.address import FarmAddress, read_address
from mavcg.lab.jobs.dask_engine import DaskEngine, check_workers
from mavcg.lab.jobs.engine import LocalEngine
from tests.mavcg.accelerators.explore.dask_cluster import cluster
from tests.mavcg.accelerators.explore.explored import content, explored_by
from tests.mavcg.accelerators.explore.spaces import WIDE, space_of

pytest.importorskip("distributed")


class EndingEngine(LocalEngine):
    """Ends the scheduler when a task's results have come."""

    def __init__(self, engine: DaskEngine, scheduler: "subprocess.Popen[str]") -> None:
        self.engine = engine
        self.scheduler = scheduler

    def run(self, work: Any, items: Sequence[Any], most: int, found: Any) -> None:
        def then_end(task: Sequence[Any], results: Any) -> None:
            found(task, results)
            self.scheduler.kill()

        self.engine.run(work, items, 5, then_end)


@pytest.mark.long
def test_a_scheduler_that_goes_loses_nothing_that_was_found(tmp_path: Path, capfd: Any) -> None:
    import dask

    with cluster() as made, dask.config.set({"distributed.comm.timeouts.connect": "5s"}):
        with (
            DaskEngine(read_address(made.address, False, ""), fingerprint) as engine,
            pytest.raises(MavcgError, match="the scheduler is gone .* are kept"),
        ):
            explored_by(EndingEngine(engine, made.scheduler), tmp_path, "gone.sqlite")
    kept = content(tmp_path / "gone.sqlite")["tilings"]

    alone = explored_by(LocalEngine(), tmp_path, "one.sqlite")
    assert 0 < len(kept) < len(alone["tilings"])
    assert explored_by(LocalEngine(), tmp_path, "gone.sqlite") == alone
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.long
def test_the_verb_on_a_cluster(mavcg: Any, tmp_path: Path) -> None:
    space_of(tmp_path, WIDE)
    words = ("explore", "alexnet", "--space", str(tmp_path / "space.toml"), "--json", "-o")
    with cluster() as made:
        done = mavcg(*words, str(tmp_path / "a.sqlite"), "--workers", made.address)
    assert done.status == 0, done.stderr
    mavcg(*words, str(tmp_path / "b.sqlite"), "--workers", "0")

    assert content(tmp_path / "a.sqlite") == content(tmp_path / "b.sqlite")


def test_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mavcg.lab.jobs.dask_engine.WAIT_S", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(MavcgError, match=f"--workers tcp://127.0.0.1:{port}: no scheduler answers there"):
        DaskEngine(FarmAddress("127.0.0.1", port, False), fingerprint)


@pytest.mark.parametrize("text", ["-1", "many", "dask://", "http://host:80", "tls://host:0", "99999", "1.5", ""])
def test_what_is_no_number_of_workers(text: str) -> None:
    with pytest.raises(MavcgError, match="is neither a number of processes"):
        check_workers(text)


def test_numbers_and_addresses() -> None:
    assert check_workers("0") == 0 and check_workers("12") == 12
    assert check_workers("tls://farm:8787") == FarmAddress("farm", 8787, True)
