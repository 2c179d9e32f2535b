"""A pool of boards: who gets what, and what is done again elsewhere. Boards are functions here."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest

from mavcg.lab.fleet.board_pool import BoardPool
from mavcg.lab.fleet.board_task import BoardAnswer, BoardTask, Result, run_board_task
from mavcg.lab.fleet.fleet_file import FleetBoard, FleetRules
from mavcg.lab.fleet.hosts import BoardHosts
from mavcg.lab.jobs.engine import LocalEngine
from mavcg.lab.runners.bench_lines import Condition, InterleavedTimes, JobFailed, JobTimes, Rounds
from mavcg.lab.runners.bench_run import BenchOptions
from mavcg.lab.runners.transport import RunnerError

RULES = FleetRules(rest_s=0.0, late_s=0.1, late=2.0)
PROBE = 0


@dataclass
class Behaviour:
    """How a board behaves. slow: factor on all times; celsius, khz: after a job; fails: jobs; dies_at: a job."""

    slow: float = 1.0
    celsius: float = 40.0
    khz: int = 2_000_000
    fails: tuple[int, ...] = ()
    dies_at: int = -1
    hangs: bool = False


@dataclass
class Boards(LocalEngine):
    """Boards by name; calls: which board was given which units."""

    of: dict[str, Behaviour]
    calls: list[tuple[str, tuple[tuple[int, ...], ...]]] = field(default_factory=list)

    def call(self, work: Any, argument: Any, resource: str, stopped: Callable[[], bool]) -> Any:
        name, task = resource.removeprefix("board-"), argument
        assert work is run_board_task and task.runner == f"ssh:{name}" and task.cpus == (int(name[1:]),)
        self.calls.append((name, task.units))
        behaviour, results = self.of[name], list[Result]()
        while behaviour.hangs and not stopped():
            time.sleep(0.01)
        for unit in task.units:
            if behaviour.dies_at in unit:
                return BoardAnswer(tuple(results), f"{task.runner}: the connection was lost")
            for job in unit:
                results.append(self.result(behaviour, job, task.interleaved))
        return BoardAnswer(tuple(results), seconds=0.001)

    def result(self, behaviour: Behaviour, job: int, interleaved: bool) -> Result:
        if job in behaviour.fails:
            return JobFailed(job, "it wrote outside")
        ms, ends = (1 + job) * behaviour.slow, (Condition(2_000_000, 40.0), Condition(behaviour.khz, behaviour.celsius))
        if interleaved:
            return InterleavedTimes(job, "s", (ms, ms), (False, False), 2, *ends)
        return JobTimes(job, Rounds(ms, 0.0, 5, 5, 0), None, "s", *ends)


def pool_of(*behaviours: Behaviour, rules: FleetRules = RULES) -> tuple[BoardPool, Boards]:
    boards = [FleetBoard(f"b{number}", "rk3588", f"ssh:b{number}") for number in range(len(behaviours))]
    hosts = Boards({board.name: behaviour for board, behaviour in zip(boards, behaviours, strict=True)})
    cpus = {board.name: (number,) for number, board in enumerate(boards)}
    return BoardPool(boards, cpus, rules, BoardHosts(hosts), Event()), hosts


def task_of(units: Sequence[tuple[int, ...]], interleaved: bool = False) -> BoardTask:
    return BoardTask("", b"", 9, tuple(units), interleaved, (), None, BenchOptions())


JOBS = task_of([(1,), (2,), (3,)])
CALIBRATION = task_of([(PROBE,)])


def test_good_figures_of_one_board_are_enough() -> None:
    pool, hosts = pool_of(Behaviour(), Behaviour())
    with pool:
        answer = pool.measure(JOBS, (PROBE,))

    assert [(each.unit, each.verdict) for each in answer.accepted] == [((1,), ""), ((2,), ""), ((3,), "")]
    assert answer.rejected == () and hosts.calls == [("b0", ((0,), (1,), (2,), (3,)))]


def test_a_slow_board_is_known_from_the_probe_and_measured_again_elsewhere() -> None:
    pool, _ = pool_of(Behaviour(slow=2.0), Behaviour(), Behaviour())
    with pool:
        pool.calibrate(CALIBRATION)
        assert {each.board for each in pool.measure(JOBS, (PROBE,)).accepted} <= {"b1", "b2"}  # the slow one comes last
        pool._begun.update(b1=9, b2=9)
        slow, _, _ = pool.summaries()
    assert (slow.ratio, slow.outlier, slow.probe_ms) == (2.0, True, 2.0)

    pool, _ = pool_of(Behaviour(slow=2.0), Behaviour())
    with pool:
        pool.measure(task_of([(5,)]), (PROBE,))  # b0 alone: nothing to compare with
        pool.measure(task_of([(5,)]), (PROBE,))  # b1
        pool._begun.update(b1=99)
        pool._probes["b0"].clear()  # its slowness begins now
        answer = pool.measure(JOBS, (PROBE,))
    assert {each.board for each in answer.accepted} == {"b1"}
    assert {(each.board, each.verdict) for each in answer.rejected} == {("b0", "slow")}


@pytest.mark.parametrize("hot", [Behaviour(celsius=80.0), Behaviour(khz=1_500_000)])
def test_a_hot_boards_figures_are_measured_again_elsewhere(hot: Behaviour) -> None:
    pool, hosts = pool_of(hot, Behaviour())
    with pool:
        answer = pool.measure(JOBS, (PROBE,))
        summary, _ = pool.summaries()

    assert {each.board for each in answer.accepted} == {"b1"} and len(answer.rejected) == 3
    assert [name for name, _ in hosts.calls] == ["b0", "b1"] and summary.repeated == 3


def test_where_all_boards_are_hot_the_best_is_kept_and_says_so() -> None:
    pool, _ = pool_of(Behaviour(celsius=90.0, slow=1.1), Behaviour(celsius=80.0))
    with pool:
        answer = pool.measure(JOBS, (PROBE,))

    assert [(each.board, each.verdict) for each in answer.accepted] == [("b1", "hot")] * 3
    assert {each.board for each in answer.rejected} == {"b0"}


def test_a_hot_board_rests() -> None:
    pool, hosts = pool_of(Behaviour(celsius=80.0), Behaviour(), rules=FleetRules(rest_s=60.0))
    with pool:
        for _ in range(3):
            pool.measure(JOBS, (PROBE,))

    assert [name for name, _ in hosts.calls] == ["b0", "b1", "b1", "b1"]


def test_what_a_dead_board_gave_counts_and_the_rest_is_measured_elsewhere() -> None:
    pool, hosts = pool_of(Behaviour(dies_at=2), Behaviour())
    with pool:
        answer = pool.measure(JOBS, (PROBE,))
        dead, _ = pool.summaries()
        pool.measure(JOBS)

    assert [each.board for each in answer.accepted] == ["b0", "b1", "b1"]
    assert hosts.calls[1] == ("b1", ((0,), (2,), (3,))) and dead.aside == "ssh:b0: the connection was lost"
    assert hosts.calls[2][0] == "b1"


def test_no_board_is_left() -> None:
    pool, _ = pool_of(Behaviour(dies_at=3), Behaviour(dies_at=PROBE))
    with pool:
        answer = pool.measure(JOBS, (PROBE,))
    assert [each.unit for each in answer.accepted] == [(1,), (2,)]  # what it gave before counts
    assert re.fullmatch(r"no board of type rk3588 is left: b0: .*lost; b1: .*run again with --resume", answer.fault)
    pool, _ = pool_of(Behaviour(dies_at=PROBE))
    with pool, pytest.raises(RunnerError, match="no board of type rk3588 is left"):
        pool.calibrate(CALIBRATION)


def test_a_job_that_fails_is_tried_on_two_boards() -> None:
    pool, hosts = pool_of(*(Behaviour(fails=(2,)) for _ in range(4)))
    with pool:
        answer = pool.measure(JOBS, (PROBE,))

    assert [each.verdict for each in answer.accepted] == ["", "failed", ""] and len(hosts.calls) == 2
    pool, _ = pool_of(Behaviour(fails=(2,)), Behaviour())
    with pool:
        assert [each.verdict for each in pool.measure(JOBS, (PROBE,)).accepted] == ["", "", ""]


def test_a_late_task_is_begun_on_another_board_too() -> None:
    pool, hosts = pool_of(Behaviour(hangs=True), Behaviour())
    with pool:
        answer = pool.measure(JOBS, (PROBE,))

    assert {each.board for each in answer.accepted} == {"b1"} and [name for name, _ in hosts.calls] == ["b0", "b1"]


def test_groups_of_interleaved_jobs() -> None:
    pool, _ = pool_of(Behaviour(celsius=80.0), Behaviour())
    with pool:
        answer = pool.measure(task_of([(0, 1), (0, 2, 3)], interleaved=True))

    assert [(each.unit, each.board) for each in answer.accepted] == [((0, 1), "b1"), ((0, 2, 3), "b1")]
    assert [each.unit for each in answer.rejected] == [(0, 1), (0, 2, 3)]


def test_a_pool_that_is_stopped_keeps_what_it_has() -> None:
    pool, hosts = pool_of(Behaviour(dies_at=2), Behaviour(hangs=True))
    with pool:
        pool.stopped.set()
        assert pool.measure(JOBS, (PROBE,)).accepted == () and hosts.calls == []
