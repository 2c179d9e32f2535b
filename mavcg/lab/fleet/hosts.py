"""Boards behind the engine of jobs that reaches them: this process, or workers of a farm with boards as resources."""

from dataclasses import dataclass

from mavcg.errors import MavcgError
from mavcg.lab.fleet.board_task import BoardAnswer, BoardTask, read_board_facts, run_board_task
from mavcg.lab.fleet.fleet_file import FleetBoard
from mavcg.lab.jobs.engine import Engine, Stopped, never
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
