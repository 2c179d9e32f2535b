"""Choose the engine of an exploration: what the user names, else by how much there is to do."""

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mavcg.explore.dask_engine import DaskEngine, check_workers
from mavcg.explore.engine import Engine, LocalEngine
from mavcg.planner.accelerators.schedule_cache import fingerprint

# Work that this process does while others would start.
FEW_SEARCHES = 20_000
FEW_SIMULATIONS = 4
FEW_PREDICTIONS = 4


@contextmanager
def open_engine(
    workers: str | None, is_little: bool, note: Callable[[str], None], same: Callable[[], str] = fingerprint
) -> Iterator[Engine]:
    """Open the engine for --workers; None: this process for little work, else a process for each of its CPUs.

    same: as DaskEngine has it. Raises: MavcgError as DaskEngine and check_workers.
    """
    number = None if workers is None else check_workers(workers)
    if number is None:
        number = 0 if is_little else len(os.sched_getaffinity(0))
        if number and importlib.util.find_spec("distributed") is None:
            note(
                "one process works: dask.distributed is not installed (pip install 'mavcg[explore]'); "
                "--workers 0 asks for no other"
            )
            number = 0
    if number == 0:
        yield LocalEngine()
        return
    with DaskEngine(number, same) as engine:
        yield engine
