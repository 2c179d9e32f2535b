"""Boards behind the engine of jobs that reaches them: this process, or workers of a farm with boards as resources."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from mavcg.errors import MavcgError
from mavcg.lab.fleet.board_task import BoardAnswer, BoardTask, read_board_facts, run_board_task
from mavcg.lab.fleet.fleet_file import Fleet, FleetBoard
from mavcg.lab.jobs.dask_engine import DaskEngine
from mavcg.lab.jobs.engine import Engine, LocalEngine, Stopped, never
from mavcg.lab.jobs.sources_digest import compiler_digest
from mavcg.lab.runners.facts import MachineFacts


@dataclass(frozen=True)
class BoardHosts:
    """Runs tasks on the host that reaches a board."""

    engine: Engine

    def measure(self, board: FleetBoard, task: BoardTask, stopped: Stopped) -> BoardAnswer:
        """Run a task on a board. stopped: returns True to end it early, which may be ignored."""
        try:
            return self.engine.call(run_board_task, task, board.resource, stopped) or BoardAnswer(())
        except MavcgError as error:
            return BoardAnswer((), str(error))

    def facts(self, board: FleetBoard) -> MachineFacts | str:
        """Return a board's facts, or the reason why they cannot be read."""
        try:
            return self.engine.call(read_board_facts, board.runner, board.resource, never) or "nothing was read"
        except MavcgError as error:
            return str(error)


@contextmanager
def open_hosts(fleet: Fleet) -> Iterator[BoardHosts]:
    """Open the hosts of the fleet's boards. Raises: MavcgError if the scheduler is not reached."""
    if fleet.scheduler is None:
        yield BoardHosts(LocalEngine())
        return
    named = f"{fleet.path}: scheduler {fleet.scheduler.url}"
    with DaskEngine(fleet.scheduler, compiler_digest, named) as engine:
        yield BoardHosts(engine)


def fleet_facts(fleet: Fleet, hosts: BoardHosts) -> dict[FleetBoard, MachineFacts | str]:
    """Return board -> its facts, or the reason why they cannot be read; all boards are queried at once."""
    with ThreadPoolExecutor(len(fleet.boards)) as threads:
        return dict(zip(fleet.boards, threads.map(hosts.facts, fleet.boards), strict=True))
