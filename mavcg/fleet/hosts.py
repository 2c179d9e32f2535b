"""The hosts that reach the boards: this machine, or Dask workers with boards as resources."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from mavcg.explore.dask_engine import DaskEngine
from mavcg.farm.sources_digest import compiler_digest
from mavcg.fleet.board_task import BoardAnswer, BoardTask, never, read_board_facts, run_board_task
from mavcg.fleet.fleet_file import Fleet, FleetBoard
from mavcg.runners.facts import MachineFacts

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
    """The workers of a Dask scheduler. A board is a resource of a worker, so that one task at a time uses it."""

    def __init__(self, fleet: Fleet) -> None:
        """Connect to the scheduler. Raises: as DaskEngine."""
        self._fleet = fleet
        with ExitStack() as stack:
            named = f"{fleet.path}: scheduler {fleet.scheduler}"
            engine = stack.enter_context(DaskEngine(fleet.scheduler, compiler_digest, named))
            self._client: Any = engine.client
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
        key = f"{getattr(work, '__name__', 'work')}-{board.name}-{uuid4().hex}"
        future = self._client.submit(work, argument, key=key, resources={board.resource: 1}, pure=False, retries=0)
        seen = time.monotonic()
        try:
            while True:
                try:
                    result: T = future.result(timeout=LOOK_S)
                    return result
                except TimeoutError:
                    if stopped():
                        return None
                    if board.resource in self._resources():
                        seen = time.monotonic()
                    elif time.monotonic() - seen > PATIENCE_S:
                        return self._absent(board)
        except Exception as error:  # of any class: a worker's end, a lost scheduler, an exception in a worker
            return f"{self._fleet.scheduler}: its worker failed ({type(error).__name__}: {error}); see the worker's log"
        finally:
            future.cancel()

    def _resources(self) -> set[str]:
        """Return the names of the resources of all workers."""
        return {name for of_worker in self._client.run(_resources_of, on_error="ignore").values() for name in of_worker}

    def _absent(self, board: FleetBoard) -> str:
        return (
            f"no worker of {self._fleet.scheduler} has it; where {board.runner} is reached run "
            f'dask worker {self._fleet.scheduler} --resources "{board.resource}=1"'
        )


def _resources_of(dask_worker: Any) -> tuple[str, ...]:
    """Return the names of a worker's resources; called on the worker."""
    return tuple(dask_worker.state.total_resources)
