"""Answers of workers and requests of clients: messages of each task's types, compared with a request.

The input: a byte that chooses the task, then a message. Its digest is made right, so that its rows are read.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.mutation.messages import message_mutator
from fuzz.targets import call_target

PACKAGES = (
    "mavcg.lab.jobs.messages",
    "mavcg.lab.jobs.message_types",
    "mavcg.lab.jobs.remote_tasks",
    "mavcg.lab.farm.library_checks",
)
DIGEST = "0" * 64  # of the request
mutate = message_mutator(b"mavcg-message-1\n", prefix=1)


def run(data: bytes) -> None:
    """Read the message as the answer to a request, and as a request for its arguments."""
    from mavcg.lab.jobs.messages import Message
    from mavcg.lab.jobs.remote_tasks import read_answer

    work, argument, expected = tasks()[data[0] % len(tasks())] if data else tasks()[0]
    call_target(lambda: read_answer(work, argument, DIGEST, data[1:]))
    call_target(lambda: Message(data[1:]).value(expected))


@cache
def tasks() -> tuple[tuple[Callable[..., Any], Any, Any], ...]:
    """Return (function, argument of the request, type of the argument) of each task whose results are compared."""
    from mavcg.accelerators.explore.board_predictions import BoardPrediction, predict_boards
    from mavcg.accelerators.explore.simulations import TargetSimulation, simulate_targets
    from mavcg.accelerators.explore.tilings import SearchKey, search_tilings
    from mavcg.accelerators.target import find_target
    from mavcg.lab.farm.library_tasks import EmittedModule, LibraryTask, compile_modules, prepare_libraries
    from mavcg.lab.fleet.board_task import BoardTask, read_board_facts, run_board_task
    from mavcg.lab.runners.bench_run import BenchOptions

    board = BoardTask("local", b"", 2, ((0,), (1,)), False, (0,), None, BenchOptions())
    simulation = TargetSimulation("vgg16", "0" * 64, find_target("small"), "none")
    return (
        (search_tilings, (None,), tuple[SearchKey, ...]),
        (simulate_targets, (simulation,), tuple[TargetSimulation, ...]),
        (predict_boards, (None,), tuple[BoardPrediction, ...]),
        (prepare_libraries, (None,), tuple[LibraryTask, ...]),
        (compile_modules, (_Module(),), tuple[EmittedModule, ...]),
        (run_board_task, board, BoardTask),
        (read_board_facts, "local", str),
    )


class _Module:
    """Stands for the module that was to be compiled, whose digest an error names."""

    digest = "0" * 64
    path = Path("x.so")
