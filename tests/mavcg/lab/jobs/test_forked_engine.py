"""Tasks on forked processes: results of one process, also if processes are killed; nothing is left behind."""

import multiprocessing
import os
import tempfile
from pathlib import Path

import pytest

from mavcg.accelerators.plans.schedule_cache import fingerprint
from mavcg.errors import MavcgError
from mavcg.lab.jobs import open_engine as opening
from mavcg.lab.jobs.engine import ATTEMPTS, LocalEngine
from mavcg.lab.jobs.forked_engine import ForkedEngine
from tests.mavcg.accelerators.explore.explored import KillingEngine, explored_by

Numbers = tuple[int, ...]


def squares(numbers: Numbers) -> Numbers:
    """Return squares; written so that it can be sent to a process."""
    return tuple(number * number for number in numbers)


def squares_or_end(numbers: Numbers) -> Numbers:
    """Return squares; the process ends at 7."""
    if 7 in numbers:
        os._exit(9)
    return squares(numbers)


def squares_or_refuse(numbers: Numbers) -> Numbers:
    """Return squares; 7 is refused."""
    if 7 in numbers:
        raise MavcgError("7: is refused")
    return squares(numbers)


def numbers_of_processes(numbers: Numbers) -> Numbers:
    """Return this process's number for each item, and leave a folder in the temporary folder."""
    tempfile.mkdtemp()
    return (os.getpid(),) * len(numbers)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_with_their_items_and_processes_stay_for_the_next_work(workers: int) -> None:
    results: dict[int, int] = {}
    processes: list[set[int]] = []
    with ForkedEngine(workers) as engine:
        engine.run(squares, range(20), 3, lambda task, done: results.update(zip(task, done, strict=True)))
        for _ in range(2):
            processes.append(set())
            engine.run(numbers_of_processes, range(20), 1, lambda task, done: processes[-1].update(done))

    assert results == {number: number * number for number in range(20)}
    assert processes[1] <= processes[0] and os.getpid() not in processes[0] and len(processes[0]) <= workers
    assert not multiprocessing.active_children()


def test_what_processes_leave_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ForkedEngine(2) as engine:
        engine.run(numbers_of_processes, range(4), 1, lambda task, done: None)
        assert len(list(tmp_path.rglob("tmp*"))) == 4
    assert not list(tmp_path.iterdir())


def test_a_task_that_ends_its_process_is_repeated_but_not_for_ever() -> None:
    results: list[int] = []
    with ForkedEngine(2) as engine:
        with pytest.raises(MavcgError, match="--workers 2: workers died repeatedly during a task"):
            engine.run(squares_or_end, range(9), 1, lambda task, done: results.extend(done))
        assert sorted(results) == [number * number for number in range(9) if number != 7]
        engine.run(squares, range(3), 1, lambda task, done: results.extend(done))
    assert sorted(results[-3:]) == [0, 1, 4] and ATTEMPTS == 10


def test_the_error_of_a_task_is_raised_and_the_engine_goes_on() -> None:
    results: list[int] = []
    with ForkedEngine(3) as engine:
        with pytest.raises(MavcgError, match="7: is refused"):
            engine.run(squares_or_refuse, range(30), 1, lambda task, done: None)
        engine.run(squares, range(30), 1, lambda task, done: results.extend(done))
    assert sorted(results) == [number * number for number in range(30)]
    assert not multiprocessing.active_children()


def test_an_error_of_who_takes_results_ends_the_work() -> None:
    def refuse(task: object, done: object) -> None:
        raise MavcgError("the store is full")

    with ForkedEngine(2) as engine, pytest.raises(MavcgError, match="the store is full"):
        engine.run(squares, range(9), 1, refuse)
    assert not multiprocessing.active_children()


def test_where_a_fork_is_not_safe_one_process_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "FORKS", False)
    notes: list[str] = []
    with opening.open_engine("4", False, notes.append, fingerprint) as engine:
        assert isinstance(engine, LocalEngine) and "only one process works" in notes[0]
    with opening.open_engine(None, False, notes.append, fingerprint) as engine:
        assert isinstance(engine, LocalEngine) and len(notes) == 1


@pytest.mark.long
def test_two_processes_make_the_database_of_one(tmp_path: Path) -> None:
    with ForkedEngine(2) as engine:
        assert explored_by(engine, tmp_path, "two.sqlite") == explored_by(LocalEngine(), tmp_path, "one.sqlite")


@pytest.mark.long
def test_killed_processes_lose_nothing(tmp_path: Path) -> None:
    with ForkedEngine(2) as engine:
        killing = KillingEngine(engine, 6)
        exploration = explored_by(killing, tmp_path, "killed.sqlite")

    assert killing.kills == 0
    assert exploration == explored_by(LocalEngine(), tmp_path, "one.sqlite")
