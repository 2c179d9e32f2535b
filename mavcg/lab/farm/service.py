"""Scheduler and workers of a farm: Dask's servers with the limits of dask_limits, on the interface that is named."""

import asyncio
import importlib.util
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.files.scratch import ENDING_SIGNALS, scratch_folder
from mavcg.lab.connections.address import FarmAddress, in_brackets
from mavcg.lab.connections.check_scheduler import check_scheduler, farm_security
from mavcg.lab.connections.dask_limits import limited_pickles, limited_server, silence_dask
from mavcg.lab.jobs.remote_tasks import VERSION_KEY, become_worker, own_versions

JOIN_S = 30  # seconds for which a worker waits for its scheduler
BOARD_PREFIX = "board-"  # of the resources that are boards
_MOST_THREADS = 1024
Note = Callable[[str], None]


@dataclass(frozen=True)
class WorkerOffer:
    """The tasks that a worker accepts.

    threads: number at a time. resources: name -> amount. host: address of its own port, or "".
    """

    threads: int
    resources: Mapping[str, float]
    host: str = ""


def read_resources(text: str) -> dict[str, float]:
    """Parse "board-desk-1=1 board-desk-2=1". Raises: MavcgError."""
    resources = {}
    for word in text.replace(",", " ").split():
        name, _, amount = word.partition("=")
        if not name or not amount.isdecimal() or not 0 < int(amount) <= _MOST_THREADS:
            raise MavcgError(f"--resources {text}: {word} is not NAME=NUMBER; write board-desk-1=1")
        resources[name] = float(amount)
    return resources


def require_dask(verb: str) -> None:
    """Raise MavcgError if Dask is not installed. verb: the command that needs it."""
    if importlib.util.find_spec("distributed") is None:
        raise MavcgError(f"{verb}: needs dask.distributed, which is not installed; pip install 'mavcg[explore]'")


def serve(address: FarmAddress, token: Path, ready: Callable[[FarmAddress], None], note: Note) -> None:
    """Run a scheduler until a signal ends it.

    address: where it listens; port 0 for any. ready: called with the address when it listens. note: called for each
    worker that comes or goes. Raises: MavcgError if it cannot listen there.
    """
    with _dask_process("Scheduler"):
        security = farm_security(address, token)
        asyncio.run(_serve(address, security, ready, note))


async def _serve(address: FarmAddress, security: Any, ready: Callable[[FarmAddress], None], note: Note) -> None:
    end_requested = _event_of_signals()
    try:
        scheduler: Any = limited_server(
            "Scheduler",
            host=in_brackets(address.host),
            port=address.port,
            protocol=address.protocol,
            security=security,
            dashboard=False,
            preload=[],
            extensions=_extensions(),
            plugins=[_watcher(note)],
        )
        async with scheduler:
            ready(FarmAddress(address.host, int(scheduler.port), address.encrypted))
            await _until_ended(scheduler, end_requested)
    except (OSError, ValueError, RuntimeError) as error:
        cause = error.__cause__ or error  # Dask raises RuntimeError from what happened
        reason = getattr(cause, "strerror", None) or str(cause)
        raise MavcgError(f"{address.url}: cannot listen there ({reason}); name another --address or --port") from None


def join(address: FarmAddress, offer: WorkerOffer, token: Path, named: str, ready: Callable[[str], None]) -> None:
    """Run a worker until a signal ends it.

    named: where the user named the address, for errors. ready: called with the worker's address when it has joined.
    Raises: MavcgError if the scheduler is not reached, or ends.
    """
    with _dask_process("Worker") as folder:
        security = farm_security(address, token)
        own = check_scheduler(address, security, token, named)
        become_worker(boards=any(name.startswith(BOARD_PREFIX) for name in offer.resources))
        ended_by_signal = asyncio.run(_join(address, offer, security, offer.host or own, folder, ready))
    if not ended_by_signal:
        raise MavcgError(f"{named}: the scheduler is gone; start it again, then join again")


async def _join(
    address: FarmAddress, offer: WorkerOffer, security: Any, host: str, folder: Path, ready: Callable[[str], None]
) -> bool:
    """Run the worker; return True if a signal ended it, False if the scheduler did.

    Raises: MavcgError if the system has no room, port or process for it.
    """
    end_requested, versions = _event_of_signals(), own_versions()
    worker: Any = limited_server(
        "Worker",
        scheduler_ip=address.url,
        nthreads=offer.threads,
        resources=dict(offer.resources),
        security=security,
        host=in_brackets(host),
        protocol=address.protocol,
        local_directory=str(folder),
        dashboard=False,
        preload=[],
        death_timeout=JOIN_S,
        name=f"{socket.gethostname()}-{os.getpid()}",
        startup_information={VERSION_KEY: lambda worker: versions},
    )
    try:
        async with worker:
            ready(str(worker.address))
            return await _until_ended(worker, end_requested)
    except RuntimeError as error:
        if not isinstance(cause := error.__cause__, OSError):  # Dask raises RuntimeError from what happened
            raise
        raise MavcgError(f"{address.url}: no worker starts here ({cause}); correct that, then join again") from None


def _event_of_signals() -> asyncio.Event:
    """Return an event that is set by signals that end a process, which then ends in order."""
    event = asyncio.Event()
    for number in (signal.SIGINT, *ENDING_SIGNALS):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    return event


async def _until_ended(server: Any, end_requested: asyncio.Event) -> bool:
    """Wait until the server has ended, or the event is set; return True for the event."""
    waiting = [asyncio.ensure_future(server.finished()), asyncio.ensure_future(end_requested.wait())]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for each in waiting:
        each.cancel()
    return end_requested.is_set()


@contextmanager
def _dask_process(kind: str) -> Iterator[Path]:
    """Set up this process for a server of Dask; yield a folder for its files, which is removed at the end."""
    import dask
    import distributed  # noqa: F401 - its loggers are there from now on

    silence_dask()
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder("mavcg-dask-"))
        stack.enter_context(dask.config.set({"temporary-directory": str(folder)}))
        stack.enter_context(limited_pickles(kind))
        yield folder


def _extensions() -> dict[str, Any]:
    """Return the scheduler's extensions: one moves waiting tasks to idle workers, the other reads workers' reports."""
    from distributed.scheduler import DEFAULT_EXTENSIONS

    return {name: DEFAULT_EXTENSIONS[name] for name in ("stealing", "spans")}


def _watcher(note: Note) -> Any:
    """Return a plugin of the scheduler that notes which workers come and go; Dask calls its methods."""
    from distributed import SchedulerPlugin

    class Watcher(SchedulerPlugin):
        name = "mavcg-farm"

        def add_worker(self, scheduler: Any, worker: str) -> None:
            state = scheduler.workers[worker]
            resources = "".join(f", {name}" for name in sorted(state.resources))
            note(f"worker {state.name} joined from {worker}: {state.nthreads} tasks at a time{resources}")

        def remove_worker(self, scheduler: Any, worker: str, **_: object) -> None:
            note(f"worker at {worker} left")

    return Watcher()
