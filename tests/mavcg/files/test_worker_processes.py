"""Tasks in processes that are copies of this one."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from mavcg.errors import MavcgError, ToolError
from mavcg.files import forked_worker
from mavcg.files.scratch import making
from mavcg.files.worker_processes import Task, run_tasks, started_tasks


def squares(count: int) -> list[Task[tuple[int, int]]]:
    offset = 7  # what a task refers to is there without being sent
    return [Task(f"square {n}", lambda n=n: (n * n + offset, os.getpid())) for n in range(count)]  # type: ignore[misc]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_are_in_order_whatever_the_number_of_workers(workers: int) -> None:
    begun: list[str] = []
    results = run_tasks(squares(9), workers, begun.append)

    assert [value for value, _ in results] == [n * n + 7 for n in range(9)]
    assert sorted(begun) == [f"square {n}" for n in range(9)]
    assert ({process for _, process in results} == {os.getpid()}) == (workers == 1)


def test_threads_of_a_task_may_make_folders_and_processes() -> None:
    """They waited for ever for the lock that is held during the fork, such as compilers of kernels in a trial."""

    def is_free() -> bool:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(making.acquire, timeout=5).result()

    assert run_tasks([Task("a", is_free), Task("b", is_free)], 2) == [True, True]


def test_the_costliest_begin_first_and_results_keep_the_order() -> None:
    begun: list[str] = []
    tasks = [Task(str(cost), partial(time.sleep, 0.01), cost) for cost in (1, 5, 0, 9, 5)]
    marked = [Task(task.what, partial(str, number), task.cost) for number, task in enumerate(tasks)]

    assert run_tasks(marked, 2, begun.append) == ["0", "1", "2", "3", "4"]
    assert set(begun[:2]) == {"9", "5"} and set(begun[-2:]) == {"1", "0"}


def test_where_a_fork_is_not_safe_tasks_run_in_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(forked_worker, "FORKS", False)
    a, b = tmp_path / "a", tmp_path / "b"
    assert run_tasks(squares(5), 2) == [(n * n + 7, os.getpid()) for n in range(5)]
    assert run_tasks([Task("a", partial(_meet, a, b)), Task("b", partial(_meet, b, a))], 2) == [True, True]
    with pytest.raises(MavcgError, match="node 'x': is refused"):
        run_tasks([Task("a", _refuse), Task("b", partial(time.sleep, 0.01))], 2)


def test_one_task_and_none_need_no_process() -> None:
    assert run_tasks(squares(1), 4) == [(7, os.getpid())]
    assert run_tasks([], 4) == []


def _meet(own: Path, partner: Path) -> bool:
    own.touch()
    deadline = time.monotonic() + 60
    while not partner.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return partner.exists()


def test_two_workers_run_at_the_same_time(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    assert run_tasks([Task("a", partial(_meet, a, b)), Task("b", partial(_meet, b, a))], 2) == [True, True]


def _refuse() -> None:
    raise MavcgError("node 'x': is refused; take another")


def test_the_error_of_a_task_is_raised_here() -> None:
    before = threading.active_count()
    with pytest.raises(MavcgError, match="node 'x': is refused"):
        run_tasks([Task("a", _refuse), *[Task("b", partial(time.sleep, 0.01))] * 5], 2)
    assert threading.active_count() == before


def test_a_process_that_ends_is_an_error_with_its_status() -> None:
    with pytest.raises(ToolError, match="tuning f: the process ended with 3; take fewer --jobs"):
        run_tasks([Task("tuning f", partial(os._exit, 3)), Task("tuning g", partial(time.sleep, 0.1))], 2)


def test_no_process_outlives_the_tasks() -> None:
    processes = {process for _, process in run_tasks(squares(4), 2)}
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


@pytest.mark.parametrize("workers", [1, 2])
def test_started_tasks_run_beside_this_process(workers: int, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    tasks = [Task("meet", partial(_meet, a, b)), Task("who", os.getpid)]
    with started_tasks(tasks, workers) as results:
        assert _meet(b, a)
        met, process = results()
    assert met is True and process != os.getpid()


def test_started_tasks_without_workers_run_where_their_results_are_asked_for(tmp_path: Path) -> None:
    begun: list[str] = []
    with started_tasks([Task("touch", (tmp_path / "a").touch), Task("who", os.getpid)], 0, begun.append) as results:
        assert not begun and not (tmp_path / "a").exists()
        assert results() == [None, os.getpid()]
    assert begun == ["touch", "who"]


def test_started_tasks_end_with_their_context() -> None:
    before = threading.active_count()
    with pytest.raises(MavcgError, match="node 'x'"), started_tasks([Task("long", partial(time.sleep, 3600))], 1):
        _refuse()
    assert threading.active_count() == before


def test_the_error_of_a_started_task_is_raised_with_the_results() -> None:
    with started_tasks([Task("a", _refuse)], 1) as results, pytest.raises(MavcgError, match="node 'x': is refused"):
        results()


def test_workers_end_when_no_task_is_left_for_them() -> None:
    with started_tasks(squares(3), 2) as results:
        processes = {process for _, process in results()}
        deadline = time.monotonic() + 60
        while any(Path(f"/proc/{process}").exists() for process in processes) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not any(Path(f"/proc/{process}").exists() for process in processes)
