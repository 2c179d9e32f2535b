"""Choice of an exploration's engine: the one that the user names, else by the amount of work."""

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mavcg.explore.dask_engine import DaskEngine, check_workers
from mavcg.explore.engine import Engine, LocalEngine
from mavcg.planner.accelerators.schedule_cache import fingerprint

# Amounts of work that this process finishes before other processes would have started.
FEW_SEARCHES = 20_000
FEW_SIMULATIONS = 4
FEW_PREDICTIONS = 4


@contextmanager
def open_engine(
    workers: str | None, is_little: bool, note: Callable[[str], None], digest: Callable[[], str] = fingerprint
) -> Iterator[Engine]:
    """Open the engine for --workers; None: this process for little work, else one process for each of its CPUs.

    digest: as for DaskEngine. Raises: MavcgError as DaskEngine and check_workers.
    """
    number = None if workers is None else check_workers(workers)
    if number is None:
        number = 0 if is_little else len(os.sched_getaffinity(0))
        if number and importlib.util.find_spec("distributed") is None:
            note(
                "only one process works, because dask.distributed is not installed (pip install 'mavcg[explore]'); "
                "--workers 0 requests this"
            )
            number = 0
    if number == 0:
        yield LocalEngine()
        return
    with DaskEngine(number, digest) as engine:
        yield engine
