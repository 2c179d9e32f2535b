"""A pool of boards of one type: a task goes to a free board, and units with a bad figure again to another board."""

import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from threading import Condition, Event

from mavcg.lab.fleet.board_task import BoardAnswer, BoardTask, Result, Unit
from mavcg.lab.fleet.fleet_file import FleetBoard, FleetRules
from mavcg.lab.fleet.hosts import BoardHosts
from mavcg.lab.fleet.verdicts import FAILED, GOOD, HOT, BoardSummary, reference_ms, summary, verdict
from mavcg.lab.runners.bench_lines import JobFailed, JobTimes
from mavcg.lab.runners.transport import RunnerError

POLL_S = 0.1
MOST_FAILURES = 2  # number of boards on which a job fails before the job is at fault


@dataclass(frozen=True)
class Attempt:
    """The results of a unit's jobs on a board. verdict: GOOD, or the reason why they do not count."""

    unit: Unit
    results: tuple[Result, ...]
    board: str
    verdict: str


@dataclass(frozen=True)
class PoolAnswer:
    """The result of a task.

    accepted: one attempt per unit, unless the pool was stopped; if no board gave a good figure for a unit, its best
    attempt. rejected: all other attempts. fault: the reason why units are missing, or "".
    """

    accepted: tuple[Attempt, ...]
    rejected: tuple[Attempt, ...]
    fault: str = ""


class BoardPool:
    """The boards of a type, free and busy; a context manager whose methods several threads may call."""

    def __init__(
        self,
        boards: Sequence[FleetBoard],
        cpus: Mapping[str, tuple[int, ...]],
        rules: FleetRules,
        hosts: BoardHosts,
        stopped: Event,
    ) -> None:
        """cpus: name of a board -> CPUs to measure on. stopped: when set, no further task is begun."""
        self.boards, self.rules, self.stopped = tuple(boards), rules, stopped
        self.notes: list[str] = []
        self._cpus, self._hosts = cpus, hosts
        self._changed = Condition()
        self._free = {board.name for board in boards}
        self._aside: dict[str, str] = {}
        self._resting: dict[str, float] = {}
        self._begun: dict[str, int] = {board.name: 0 for board in boards}
        self._probes: dict[str, list[float]] = {board.name: [] for board in boards}
        self._seconds: list[float] = []  # seconds per unit of finished tasks
        self._given: dict[str, list[tuple[Result, str]]] = {board.name: [] for board in boards}
        self._stack = ExitStack()
        self._threads = self._stack.enter_context(ThreadPoolExecutor(max(1, len(boards))))

    def __enter__(self) -> "BoardPool":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def calibrate(self, task: BoardTask) -> None:
        """Measure the probe on all boards at once, so that slow boards are known from the beginning.

        Raises: RunnerError if no board can be used.
        """

        def calibrate_board(board: FleetBoard) -> None:
            with self._changed:
                self._free.discard(board.name)
                self._begun[board.name] += 1
            self._judge(board, task, self._run(board, task, Event()), (0,))

        list(self._threads.map(calibrate_board, self.boards))
        if fault := self._no_board():
            raise RunnerError(fault)

    def measure(self, task: BoardTask, probes: Sequence[int] = ()) -> PoolAnswer:
        """Run a task's units on boards until each has a good figure, or was run on all boards.

        probes: jobs, not units, that are run with every part of the task. The task gets the runner and CPUs of each
        board.
        """
        left = list(task.units)
        accepted: list[Attempt] = []
        rejected: list[Attempt] = []
        tried: set[str] = set()
        running: dict[Future[BoardAnswer], tuple[FleetBoard, BoardTask, Event, float]] = {}
        while (left and not self.stopped.is_set()) or running:
            latest = max((begun for *_, begun in running.values()), default=0.0)
            is_late = time.monotonic() - latest > self._patience_s(len(left))
            board = self._take(tried, bool(not running)) if left and (not running or is_late) else None
            if board is not None:
                tried.add(board.name)
                part = replace(task, units=tuple(sorted((*left, *((probe,) for probe in probes)))))
                ended = Event()
                running[self._threads.submit(self._run, board, part, ended)] = board, part, ended, time.monotonic()
            elif not running:
                break
            for future in wait(running, POLL_S, FIRST_COMPLETED).done:
                board, part, *_ = running.pop(future)
                for attempt in self._judge(board, part, future.result(), probes):
                    if attempt.unit not in left:
                        continue
                    failures = 1 + sum(
                        rejection.unit == attempt.unit and rejection.verdict == FAILED for rejection in rejected
                    )
                    if attempt.verdict == GOOD or (attempt.verdict == FAILED and failures >= MOST_FAILURES):
                        accepted.append(attempt)
                        left.remove(attempt.unit)
                    else:
                        rejected.append(attempt)
            if not left or self.stopped.is_set():
                for _, _, ended, _ in running.values():
                    ended.set()
        fault = ""
        for unit in left:
            best = _best([rejection for rejection in rejected if rejection.unit == unit])
            if best is not None:
                accepted.append(best)
                rejected.remove(best)
            elif not self.stopped.is_set():
                fault = self._no_board() or f"no board measured job {unit[0]}; run again with --resume"
        order = {unit: number for number, unit in enumerate(task.units)}
        accepted.sort(key=lambda entry: order[entry.unit])
        return PoolAnswer(tuple(accepted), tuple(rejected), fault)

    def summaries(self) -> list[BoardSummary]:
        """Return the summary of each board."""
        with self._changed:
            return [
                summary(
                    board.name,
                    board.kind,
                    self._probes,
                    self._given[board.name],
                    self.rules,
                    self._aside.get(board.name, ""),
                )
                for board in self.boards
            ]

    def _take(self, tried: set[str], patient: bool) -> FleetBoard | None:
        """Take a free board that was not tried, the one with the fewest tasks; None if there is none.

        patient: True to wait for a board that is busy or rests.
        """
        with self._changed:
            while not self.stopped.is_set():
                left = [b for b in self.boards if b.name not in tried and b.name not in self._aside]
                now = time.monotonic()
                free = [b for b in left if b.name in self._free and self._resting.get(b.name, 0.0) <= now]
                if free:
                    chosen = min(free, key=lambda b: (self._slowdown(b.name) > self.rules.slow, self._begun[b.name]))
                    self._free.remove(chosen.name)
                    self._begun[chosen.name] += 1
                    return chosen
                if not left or not patient:
                    return None
                self._changed.wait(POLL_S)
        return None

    def _run(self, board: FleetBoard, task: BoardTask, ended: Event) -> BoardAnswer:
        """Run a task on a board; afterwards the board is free, rests, or is put aside."""
        own = replace(task, runner=board.runner, cpus=self._cpus[board.name])
        answer = BoardAnswer((), "its task was not done")
        try:
            answer = self._hosts.measure(board, own, lambda: ended.is_set() or self.stopped.is_set())
        finally:
            with self._changed:
                self._free.add(board.name)
                if answer.fault:
                    self._aside[board.name] = answer.fault
                self._changed.notify_all()
        return answer

    def _judge(self, board: FleetBoard, task: BoardTask, answer: BoardAnswer, probes: Sequence[int]) -> list[Attempt]:
        """Return an attempt for each unit with results; record the board's probes and conditions."""
        with self._changed:
            self.notes += [note for note in answer.notes if note not in self.notes]
            timed = [times for times in answer.results if isinstance(times, JobTimes) and times.job in probes]
            self._probes[board.name] += [times.warm.ms for times in timed]
            if not answer.fault and answer.results:
                self._seconds.append(answer.seconds / len(answer.results))
            slowdown = self._slowdown(board.name, len(timed))
            attempts = []
            for unit, results in _by_unit(task.units, answer.results):
                word = verdict(results, slowdown, self.rules)
                if word == HOT:
                    self._resting[board.name] = time.monotonic() + self.rules.rest_s
                if unit not in [(probe,) for probe in probes]:
                    attempts.append(Attempt(unit, results, board.name, word))
                    self._given[board.name] += [(result, word) for result in results]
            return attempts

    def _slowdown(self, name: str, last: int = 2) -> float:
        """Return the time of a board's last probes relative to the boards of its type."""
        reference, own = reference_ms(self._probes), self._probes[name][-max(1, last) :]
        return min(own) / reference if own and reference else 1.0

    def _patience_s(self, units: int) -> float:
        """Return the seconds after which a task with this number of units is late."""
        with self._changed:
            typical = statistics.median(self._seconds) * units if self._seconds else 0.0
        return max(self.rules.late_s, self.rules.late * typical)

    def _no_board(self) -> str:
        """Return the reason why no board is left; "" if there is one."""
        with self._changed:
            if len(self._aside) < len(self.boards):
                return ""
            reasons = "; ".join(f"{name}: {why}" for name, why in self._aside.items())
        return f"no board of type {self.boards[0].kind} is left: {reasons}; repair one, and run again with --resume"


def _by_unit(units: Sequence[Unit], results: Sequence[Result]) -> list[tuple[Unit, tuple[Result, ...]]]:
    """Return the results of each unit that has all of them; results come in the order of units."""
    complete, start = [], 0
    for unit in units:
        part = tuple(results[start : start + len(unit)])
        if tuple(result.job for result in part) != unit:
            break
        complete.append((unit, part))
        start += len(unit)
    return complete


def _best(attempts: Sequence[Attempt]) -> Attempt | None:
    """Return the attempt with the least time; any attempt if none has a time; None without attempts."""

    def ms(attempt: Attempt) -> float:
        times = [float("inf") if isinstance(result, JobFailed) else result.run_ms for result in attempt.results]
        return sum(times) if times else float("inf")

    return min(attempts, key=ms, default=None)
