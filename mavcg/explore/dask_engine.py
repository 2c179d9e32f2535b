"""Runs tasks on Dask workers, a cluster given by its scheduler's address.

A task is a plain function of frozen values and may run twice: the work of a worker that was killed is repeated by
another one.
"""

import hashlib
import importlib
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from mavcg.errors import MavcgError
from mavcg.explore.engine import ATTEMPTS, DIED, Item, OnResults, Result, Work, tasks_of
from mavcg.files.scratch import scratch_folder
from mavcg.planner.accelerators.schedule_cache import fingerprint

WAIT_S = 30  # seconds to wait for a scheduler's answer, and for its first worker
_ADDRESS = re.compile(r"(?:dask|tcp|tls)://[^\s/]+:\d+/?")
_CONFIG = {"distributed.scheduler.allowed-failures": ATTEMPTS}


def check_workers(text: str) -> int | str:
    """Parse a number of processes, or a scheduler's address. Raises: MavcgError for anything else."""
    if text.isdecimal() and int(text) <= 4096:
        return int(text)
    if not _ADDRESS.fullmatch(text):
        raise MavcgError(
            f"--workers {text}: is neither a number of processes (0: this one) nor an address dask://HOST:PORT"
        )
    return re.sub("^dask:", "tcp:", text).rstrip("/")


class DaskEngine:
    """Engine that runs tasks on Dask; a context manager that closes the connection."""

    def __init__(self, workers: str, digest: Callable[[], str] = fingerprint, option: str = "") -> None:
        """Connect to a scheduler.

        workers: its address. digest: returns a digest of everything
        that results depend on, which must be equal in each worker and in this process. option: where the user named
        the workers, for errors; "": the option --workers. Raises: MavcgError if Dask is not installed, if the
        scheduler is not reached or has no workers, or if a worker has another version of mavcg or none.
        """
        self.named = option or f"--workers {workers}"
        try:
            dask: Any = importlib.import_module("dask")
            distributed: Any = importlib.import_module("distributed")
        except ImportError:
            remedy = "pip install 'mavcg[explore]', or --workers 0 to use this process alone"
            raise MavcgError(f"{self.named}: needs dask.distributed, which is not installed; {remedy}") from None
        self._distributed = distributed
        self.workers = workers
        self._digest = digest
        with ExitStack() as stack:
            folder = stack.enter_context(scratch_folder("mavcg-dask-"))
            settings = dict(_CONFIG, **{"temporary-directory": str(folder)})
            stack.enter_context(dask.config.set(settings))
            _silence()
            self.client: Any = stack.enter_context(self._client())
            self._check()
            self._stack = stack.pop_all()

    def __enter__(self) -> "DaskEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(
        self, work: Work[Item, Result], items: Sequence[Item], most: int, on_results: OnResults[Item, Result]
    ) -> None:
        """Run the work on all items; results are passed on in the order in which tasks end.

        Raises: MavcgError if the scheduler is gone, or if workers die repeatedly during a task.
        """
        count = len(self._known_workers())
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
                    on_results(task, future.result())
                elif not self._is_lost(future) and not isinstance(
                    error := self._error(future), self._distributed.KilledWorker
                ):
                    raise error
                elif attempt + 1 == ATTEMPTS:
                    raise MavcgError(f"{self.named}: {DIED}")
                else:
                    submit(task, attempt + 1)
        except (OSError, self._distributed.client.FutureCancelledError) as error:
            raise MavcgError(
                f"{self.named}: the scheduler is gone ({error or type(error).__name__}); results so far are "
                "kept: give the same command again"
            ) from error

    def _is_lost(self, future: Any) -> bool:
        """True if a worker died with a finished result before it was transferred, while the scheduler still runs."""
        return bool(future.status == "lost" and self.client.status == "running")

    def _error(self, future: Any) -> BaseException:
        if future.status == "error":
            error: BaseException = future.exception()
            return error
        return OSError(f"a task was {future.status}")

    def _client(self) -> Any:
        """Return a client of the scheduler."""
        try:
            return self._distributed.Client(self.workers, timeout=WAIT_S)
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise MavcgError(
                f"{self.named}: no scheduler answers there ({reason}); start one with `dask scheduler`, "
                "or give a number of processes"
            ) from None

    def _check(self) -> None:
        """Raise MavcgError unless there are workers, and all have this process's digest."""
        try:
            self.client.wait_for_workers(1, timeout=WAIT_S)
        except TimeoutError:
            raise MavcgError(
                f"{self.named}: the scheduler has no workers; start some with "
                f"`dask worker {self.workers}`, where mavcg is installed"
            ) from None
        try:
            digests: dict[str, str] = self.client.run(self._digest)
        except Exception as error:  # any kind: it is raised by the worker's Python
            raise MavcgError(f"{self.named}: a worker cannot run mavcg ({error}); install it there") from None
        own = self._digest()
        if others := [name for name, digest in digests.items() if digest != own]:
            raise MavcgError(
                f"{self.named}: worker {others[0]} has another version of mavcg, or other measured costs; install "
                "this one there, and copy ~/.cache/mavcg"
            )

    def _known_workers(self) -> Sequence[str]:
        workers: Callable[[], dict[str, Any]] = self.client.nthreads
        return tuple(workers())


def _silence() -> None:
    """Keep Dask from printing tracebacks about lost connections; the errors raised here say what to do."""
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
