"""A Dask scheduler with workers, started as a user starts them: by their command lines, in processes of their own."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Process = subprocess.Popen[bytes]
LOG: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@dataclass
class DaskCluster:
    """A scheduler's address, its process and those of its workers."""

    address: str
    scheduler: Process
    workers: list[Process]

    def start_worker(self, *options: str) -> Process:
        """Start a worker with these options of `dask worker`."""
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--no-dashboard", "--no-nanny"]
        self.workers.append(subprocess.Popen([*command, *options], **LOG))
        return self.workers[-1]


@contextmanager
def cluster(options: Sequence[Sequence[str]] = ((),)) -> Iterator[DaskCluster]:
    """Start a scheduler and a worker for each list of options; all are ended at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    scheduler = subprocess.Popen([sys.executable, "-m", *words], **LOG)
    made = DaskCluster(f"tcp://127.0.0.1:{port}", scheduler, [])
    try:
        until = time.monotonic() + 200
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < until and scheduler.poll() is None
                time.sleep(0.1)
        for each in options:
            made.start_worker(*each)
        yield made
    finally:
        for process in (*made.workers, scheduler):
            process.kill()
            process.wait()
