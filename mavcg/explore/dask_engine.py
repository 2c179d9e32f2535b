"""Runs tasks on the workers of Dask: processes of this machine, or a cluster by its scheduler's address.

Tasks are a plain function of frozen values, and their results may be had twice: what a worker had when it was killed is
done again by another one.
"""

import hashlib
import importlib
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.explore.engine import Found, Item, Result, Work, tasks_of
from mavcg.files.scratch import scratch_folder
from mavcg.planner.accelerators.schedule_cache import fingerprint

ATTEMPTS = 10  # for a task whose workers end: then it is the task that ends them
WAIT_S = 30  # for a scheduler's answer, and for its first worker
_ANY_PORT = "127.0.0.1:0"  # of the pages about scheduler and workers, which would else be everybody's to read
_ADDRESS = re.compile(r"(?:dask|tcp|tls)://[^\s/]+:\d+/?")
_CONFIG = {"distributed.scheduler.allowed-failures": ATTEMPTS}


def check_workers(text: str) -> int | str:
    """Return a number of processes, or the address of a scheduler. Raises: MavcgError for what is neither."""
    if text.isdecimal() and int(text) <= 4096:
        return int(text)
    if not _ADDRESS.fullmatch(text):
        raise MavcgError(f"--workers {text}: is no number of processes (0: this one) and no address dask://HOST:PORT")
    return re.sub("^dask:", "tcp:", text).rstrip("/")


class DaskEngine:
    """Tasks of Dask. To be used by `with`: processes that it started end with it."""

    def __init__(self, workers: int | str, same: Callable[[], str] = fingerprint, named: str = "") -> None:
        """workers: a number of processes to start here, or a scheduler's address. same: gives a digest of all that
        results depend on, which each worker must have in common with this process. named: where the user named it,
        for errors; "": the option --workers.

        Raises: MavcgError where Dask is not installed, the scheduler is not reached or has no workers, or where a
        worker has another mavcg or none.
        """
        self.named = named or f"--workers {workers}"
        try:
            dask: Any = importlib.import_module("dask")
            distributed: Any = importlib.import_module("distributed")
        except ImportError:
            remedy = "pip install 'mavcg[explore]', or --workers 0 to use this process alone"
            raise MavcgError(f"{self.named}: needs dask.distributed, which is not installed; {remedy}") from None
        self._distributed = distributed
        self.workers = workers
        self._same = same
        with ExitStack() as stack:
            folder = stack.enter_context(scratch_folder("mavcg-dask-"))
            settings = dict(_CONFIG, **{"temporary-directory": str(folder)})
            stack.enter_context(dask.config.set(settings))
            _silence()
            self.client: Any = stack.enter_context(self._client(stack, folder))
            self._check()
            self._stack = stack.pop_all()

    def __enter__(self) -> "DaskEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, work: Work[Item, Result], items: Sequence[Item], most: int, found: Found[Item, Result]) -> None:
        """Do the work on all items; results are handed over in the order in which tasks end.

        Raises: MavcgError where the scheduler is gone, or workers end again and again in a task.
        """
        count = self.workers if isinstance(self.workers, int) else len(self._known_workers())
        pending: dict[str, tuple[tuple[Item, ...], int]] = {}
        completed = self._distributed.as_completed([])

        def submit(task: tuple[Item, ...], attempt: int) -> None:
            digest = hashlib.sha256(repr(task).encode()).hexdigest()[:24]
            name = f"{getattr(work, '__name__', 'task')}-{digest}-{attempt}"
            pending[name] = (task, attempt)
            completed.add(self.client.submit(work, task, key=name))

        try:
            for task in tasks_of(items, most, max(1, count)):
                submit(task, 0)
            for future in completed:
                task, attempt = pending.pop(future.key)
                if future.status == "finished":
                    found(task, future.result())
                elif not self._is_lost(future) and not isinstance(
                    error := self._error(future), self._distributed.KilledWorker
                ):
                    raise error
                elif attempt + 1 == ATTEMPTS:
                    raise MavcgError(
                        f"{self.named}: workers ended again and again during a task, such as for want of "
                        "memory; what was found is kept"
                    )
                else:
                    submit(task, attempt + 1)
        except (OSError, self._distributed.client.FutureCancelledError) as error:
            raise MavcgError(
                f"{self.named}: the scheduler is gone ({error or type(error).__name__}); what was found is "
                "kept: give the same command again"
            ) from error

    def _is_lost(self, future: Any) -> bool:
        """True if a result went with its worker before it came here, while the scheduler is there."""
        return bool(future.status == "lost" and self.client.status == "running")

    def _error(self, future: Any) -> BaseException:
        if future.status == "error":
            error: BaseException = future.exception()
            return error
        return OSError(f"a task was {future.status}")

    def _client(self, stack: ExitStack, folder: Path) -> Any:
        """Return a client of the requested cluster, which it starts if it is one of this machine."""
        if isinstance(self.workers, int):
            # security: other users of this machine could send work to a scheduler that requires no certificate.
            cluster = self._distributed.LocalCluster(
                n_workers=self.workers, threads_per_worker=1, processes=True, security=True,
                dashboard_address=_ANY_PORT, worker_dashboard_address=_ANY_PORT,
                silence_logs=logging.CRITICAL, local_directory=str(folder),
                preload=["mavcg.explore.quiet_worker"],
            )  # fmt: skip
            return self._distributed.Client(stack.enter_context(cluster), timeout=10 * WAIT_S)
        try:
            return self._distributed.Client(self.workers, timeout=WAIT_S)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise MavcgError(
                f"{self.named}: no scheduler is reached there ({reason}); start one with `dask scheduler`, "
                "or give a number of processes"
            ) from None

    def _check(self) -> None:
        """Raise MavcgError unless there are workers, and all have what this process has."""
        if isinstance(self.workers, int):
            return
        try:
            self.client.wait_for_workers(1, timeout=WAIT_S)
        except TimeoutError:
            raise MavcgError(
                f"{self.named}: the scheduler has no workers; start some with "
                f"`dask worker {self.workers}`, where mavcg is installed"
            ) from None
        try:
            of_workers: dict[str, str] = self.client.run(self._same)
        except Exception as error:  # of any kind: it comes from a worker's Python
            raise MavcgError(f"{self.named}: a worker cannot run mavcg ({error}); install it there") from None
        own = self._same()
        if others := [name for name, of_worker in of_workers.items() if of_worker != own]:
            raise MavcgError(
                f"{self.named}: worker {others[0]} has another mavcg, or other measured costs; install "
                "this one there, and copy ~/.cache/mavcg"
            )

    def _known_workers(self) -> Sequence[str]:
        workers: Callable[[], dict[str, Any]] = self.client.nthreads
        return tuple(workers())


def _silence() -> None:
    """Keep Dask from printing tracebacks about lost connections: errors say what is needed."""
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
