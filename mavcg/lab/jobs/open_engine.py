"""Choice of an exploration's engine: the one that the user names, else by the amount of work."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mavcg.files.forked_worker import FORKS
from mavcg.lab.jobs.dask_engine import DaskEngine, check_workers
from mavcg.lab.jobs.engine import Engine, LocalEngine
from mavcg.lab.jobs.forked_engine import ForkedEngine

# Amounts of work that this process finishes before other processes would have started.
FEW_SEARCHES = 20_000
FEW_TASKS = 4  # simulations, or predictions, of networks


@contextmanager
def open_engine(
    workers: str | None,
    is_little: bool,
    note: Callable[[str], None],
    digest: Callable[[], str],
    insecure: bool = False,
) -> Iterator[Engine]:
    """Open the engine for --workers; None: this process for little work, else one process for each of its CPUs.

    digest: as for DaskEngine. insecure: allow plain TCP to other machines. Raises: MavcgError as DaskEngine and
    check_workers.
    """
    number = None if workers is None else check_workers(workers, insecure)
    if number is None:
        number = 0 if is_little or not FORKS else len(os.sched_getaffinity(0))
    if isinstance(number, int) and number and not FORKS:
        note(f"--workers {number}: only one process works, because processes cannot be forked safely on this system")
        number = 0
    if number == 0:
        yield LocalEngine()
    elif isinstance(number, int):
        with ForkedEngine(number) as local:
            yield local
    else:
        with DaskEngine(number, digest) as engine:
            yield engine
