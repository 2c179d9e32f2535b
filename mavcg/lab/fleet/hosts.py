"""The hosts that reach the boards: this machine, or workers of a farm with boards as resources."""

import importlib
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from mavcg.errors import MavcgError
from mavcg.lab.farm.address import FarmAddress
from mavcg.lab.fleet.board_task import BoardAnswer, BoardTask, never, read_board_facts, run_board_task
from mavcg.lab.fleet.fleet_file import FleetBoard
from mavcg.lab.jobs.dask_engine import DaskEngine
from mavcg.lab.jobs.sources_digest import compiler_digest
from mavcg.lab.runners.facts import MachineFacts

LOOK_S = 2.0  # interval of checks which worker has a board
PATIENCE_S = 30.0  # time to wait for a worker with a board to come back
T = TypeVar("T")


class BoardHosts(Protocol):
    """Runs functions on the host that reaches a board."""

    def measure(self, board: FleetBoard, task: BoardTask, stopped: Callable[[], bool]) -> BoardAnswer:
        """Run a task on a board. stopped: returns True to end it early, which may be ignored."""

    def facts(self, board: FleetBoard) -> MachineFacts | str:
        """Return a board's facts, or the reason why they cannot be read."""


class OwnHost:
    """This machine as the host of all boards."""

    def measure(self, board: FleetBoard, task: BoardTask, stopped: Callable[[], bool]) -> BoardAnswer:
        """Implement `BoardHosts.measure`."""
        return run_board_task(task, stopped)

    def facts(self, board: FleetBoard) -> MachineFacts | str:
        """Implement `BoardHosts.facts`."""
        return read_board_facts(board.runner)


class DaskHosts:
    """The workers of a farm. A board is a resource of a worker, so that one task at a time uses it."""

    def __init__(self, scheduler: FarmAddress, path: Path) -> None:
        """Connect to the scheduler. path: of the fleet's file, for errors. Raises: as DaskEngine."""
        self._scheduler = scheduler.url
        with ExitStack() as stack:
            named = f"{path}: scheduler {scheduler.url}"
            self._engine = stack.enter_context(DaskEngine(scheduler, compiler_digest, named))
            self._stack = stack.pop_all()

    def __enter__(self) -> "DaskHosts":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def measure(self, board: FleetBoard, task: BoardTask, stopped: Callable[[], bool]) -> BoardAnswer:
        """Implement `BoardHosts.measure`. A task that is no longer needed is ended only if it has not begun."""
        answer = self._call(board, run_board_task, task, stopped)
        if answer is None:
            return BoardAnswer(())
        return BoardAnswer((), answer) if isinstance(answer, str) else answer

    def facts(self, board: FleetBoard) -> MachineFacts | str:
        """Implement `BoardHosts.facts`."""
        return self._call(board, read_board_facts, board.runner, never) or "nothing was read"

    def _call(
        self, board: FleetBoard, work: Callable[[Any], T], argument: object, stopped: Callable[[], bool]
    ) -> T | str | None:
        """Call a function on the board's worker; return its result, the reason for none, or None if it was stopped."""
        distributed: Any = importlib.import_module("distributed")
        future, digest = self._engine.submit(work, argument, uuid4().hex, {board.resource: 1})
        seen = time.monotonic()
        try:
            while True:
                try:
                    distributed.wait([future], timeout=LOOK_S)
                except TimeoutError:
                    if stopped():
                        return None
                    if board.resource in self._resources():
                        seen = time.monotonic()
                    elif time.monotonic() - seen > PATIENCE_S:
                        return self._absent(board)
                    continue
                if future.status != "finished":
                    return f"{self._scheduler}: its worker failed; see what it printed"
                result: T = self._engine.result(work, argument, digest, future)
                return result
        except MavcgError as error:
            return str(error)
        except Exception as error:  # of any class: a lost scheduler
            return f"{self._scheduler}: the scheduler failed ({type(error).__name__}: {error})"
        finally:
            future.cancel()

    def _resources(self) -> set[str]:
        """Return the names of the resources of all workers."""
        return {name for facts in self._engine.worker_facts().values() for name in facts["resources"]}

    def _absent(self, board: FleetBoard) -> str:
        return (
            f"no worker of {self._scheduler} has it; where {board.runner} is reached run "
            f'mavcg farm join {self._scheduler} --resources "{board.resource}=1"'
        )
