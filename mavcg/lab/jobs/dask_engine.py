"""Runs tasks on the workers of a farm, through Dask, given its scheduler's address.

A task is a plain function of frozen values and may run twice: the work of a worker that was killed is repeated by
another one. Requests and answers are messages of data, and an answer counts only if it fits its request.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.lab.connections.address import DEFAULT_PORT, FarmAddress, is_address, read_address
from mavcg.lab.connections.check_scheduler import check_scheduler, farm_security
from mavcg.lab.connections.dask_limits import limited_client, silence_dask
from mavcg.lab.connections.token import token_path
from mavcg.lab.jobs.engine import ATTEMPTS, DIED, Call, Item, OnResults, Result, Stopped, Work, tasks_of
from mavcg.lab.jobs.remote_tasks import (
    OTHER_VERSION,
    VERSION_KEY,
    WorkerFault,
    answer_request,
    read_answer,
    request_digest,
    request_message,
)

WAIT_S = 30  # seconds to wait for a scheduler's answer, and for its first worker
LOOK_S = 0.2  # interval of looks for the first worker
CHECK_S = 2.0  # interval of checks which worker has a resource
PATIENCE_S = 30.0  # time to wait for a worker with a resource to come back
_MOST_PROCESSES = 4096


def check_workers(text: str, insecure: bool = False) -> int | FarmAddress:
    """Parse a number of processes, or a scheduler's address. insecure: as in read_address.

    Raises: MavcgError for anything else, and as read_address.
    """
    if text.isdecimal() and int(text) <= _MOST_PROCESSES:
        return int(text)
    if not is_address(text):
        raise MavcgError(
            f"--workers {text}: is neither a number of processes (0: this one) nor an address tls://HOST:{DEFAULT_PORT}"
        )
    return read_address(text, insecure, f"--workers {text}")


class DaskEngine:
    """Engine that runs tasks on a farm; a context manager that closes the connection."""

    def __init__(self, workers: FarmAddress, digest: Callable[[], str], option: str = "") -> None:
        """Connect to a scheduler.

        workers: its address. digest: a function of remote_tasks.VERSIONS, which returns a digest of everything that
        results depend on, and must be equal in each worker and in this process. option: where the user named the
        workers, for errors; "": the option --workers. Raises: MavcgError if Dask is not installed, if the scheduler is
        not reached, has another token or no workers, or if a worker has another version of mavcg or none.
        """
        self.named = option or f"--workers {workers.url}"
        self.workers = workers
        self._digest = digest
        try:
            import dask
            import distributed
        except ImportError:
            remedy = "pip install 'mavcg[explore]', or --workers 0 to use this process alone"
            raise MavcgError(f"{self.named}: needs dask.distributed, which is not installed; {remedy}") from None
        self._distributed: Any = distributed
        with ExitStack() as stack:
            folder = stack.enter_context(scratch_folder("mavcg-dask-"))
            stack.enter_context(dask.config.set({"temporary-directory": str(folder)}))
            silence_dask()
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "Sending large graph")  # models are large
            self.client: Any = self._client(stack)
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

        Raises: MavcgError if the scheduler is gone, if workers die repeatedly during a task, or if an answer does not
        fit its request; and what the task refuses.
        """
        pending: dict[str, tuple[tuple[Item, ...], str, int]] = {}
        completed = self._distributed.as_completed([])

        def submit(task: tuple[Item, ...], attempt: int) -> None:
            future, digest = self._submit(work, task, f"{attempt}")
            pending[future.key] = task, digest, attempt
            completed.add(future)

        try:
            for task in tasks_of(items, most, max(1, len(self.worker_facts()))):
                submit(task, 0)
            for future in completed:
                task, digest, attempt = pending.pop(future.key)
                if future.status == "finished":
                    on_results(task, self._result(work, task, digest, future))
                elif future.status != "error" and not self._is_lost(future):
                    raise OSError(f"a task was {future.status}")
                elif attempt + 1 == ATTEMPTS:
                    raise MavcgError(f"{self.named}: {DIED}")
                else:
                    submit(task, attempt + 1)
        except (OSError, self._distributed.client.FutureCancelledError) as error:
            raise MavcgError(
                f"{self.named}: the scheduler is gone ({error or type(error).__name__}); results so far are "
                "kept: give the same command again"
            ) from error

    def call(self, work: Call[Item, Result], argument: Item, resource: str, stopped: Stopped) -> Result | None:
        """Run a task on the worker that has a resource; one that is no longer needed is ended only if it has not begun.

        Raises: MavcgError as result, if no worker has the resource, and if the scheduler is gone.
        """
        future, digest = self._submit(work, argument, uuid4().hex, {resource: 1})
        seen = time.monotonic()
        try:
            while not self._is_done(future):
                if stopped():
                    return None
                if any(resource in facts["resources"] for facts in self.worker_facts().values()):
                    seen = time.monotonic()
                elif time.monotonic() - seen > PATIENCE_S:
                    raise MavcgError(
                        f"no worker of {self.workers.url} has it; where it is reached run "
                        f'mavcg farm join {self.workers.url} --resources "{resource}=1"'
                    )
            if future.status != "finished":
                raise MavcgError(f"{self.workers.url}: its worker failed; see what it printed")
            result: Result = self._result(work, argument, digest, future)
            return result
        except MavcgError:
            raise
        except Exception as error:  # of any class: a lost scheduler
            raise MavcgError(
                f"{self.workers.url}: the scheduler failed ({type(error).__name__}: {error}); start it again"
            ) from error
        finally:
            future.cancel()

    def _is_done(self, future: Any) -> bool:
        """Wait a while for a task; return True if it has ended in any way."""
        try:
            self._distributed.wait([future], timeout=CHECK_S)
        except TimeoutError:
            return False
        return True

    def _submit(
        self, work: Callable[..., Any], argument: object, suffix: str, resources: Mapping[str, float] | None = None
    ) -> tuple[Any, str]:
        """Send a request; return its future and its digest. suffix: makes its name differ from those of equal ones."""
        request = request_message(work, argument, self._digest)
        digest = request_digest(request)
        name = f"{work.__name__}-{digest[:32]}-{suffix}"
        future = self.client.submit(answer_request, request, key=name, resources=resources, retries=0)
        return future, digest

    def _result(self, work: Callable[..., Any], argument: object, digest: str, future: Any) -> Any:
        """Return the result of a finished task. digest: of its request.

        Raises: MavcgError that names the worker if its answer does not fit the request; what the task refuses.
        """
        who: Mapping[str, Sequence[str]] = self.client.who_has([future])
        worker = next(iter(who.get(future.key) or ()), "one that has left")
        try:
            return read_answer(work, argument, digest, future.result())
        except WorkerFault as error:
            raise MavcgError(f"{self.named}: worker {worker} {error}") from error

    def worker_facts(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what the scheduler knows about each worker, by its address."""
        facts: Mapping[str, Mapping[str, Any]] = self.client.scheduler_info(n_workers=-1)["workers"]
        return facts

    def _is_lost(self, future: Any) -> bool:
        """True if a worker died with a finished result before it was transferred, while the scheduler still runs."""
        return bool(future.status == "lost" and self.client.status == "running")

    def _client(self, stack: ExitStack) -> Any:
        """Return a client of the scheduler, which ends with the stack."""
        token = token_path()
        security = farm_security(self.workers, token)
        check_scheduler(self.workers, security, token, self.named, WAIT_S)
        try:
            return stack.enter_context(limited_client(self.workers.url, security, WAIT_S))
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise MavcgError(f"{self.named}: no scheduler answers there ({reason})") from None

    def _check(self) -> None:
        """Raise MavcgError unless there are workers, and all have this process's version."""
        until = time.monotonic() + WAIT_S
        while not (facts := self.worker_facts()):
            if time.monotonic() > until:
                raise MavcgError(
                    f"{self.named}: the scheduler has no workers; start some with `mavcg farm join "
                    f"{self.workers.url}`, where mavcg is installed"
                )
            time.sleep(LOOK_S)
        own = self._digest()
        for name, worker in facts.items():
            versions = worker.get(VERSION_KEY)
            if not isinstance(versions, Mapping):
                raise MavcgError(f"{self.named}: worker {name} was not started by `mavcg farm join`; end it")
            if versions.get(self._digest.__name__) != own:
                raise MavcgError(f"{self.named}: worker {name} {OTHER_VERSION}")
