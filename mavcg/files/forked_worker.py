"""Fork copies of this process that answer requests; no Python is started, so nothing is imported anew."""

import contextlib
import gc
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from mavcg.files.scratch import ENDING_SIGNALS, making
from mavcg.files.unpickling import own_pickles

FORKS = sys.platform.startswith("linux")  # macOS's frameworks do not survive a fork, and Windows has none


class WorkerEndedError(Exception):
    """A worker's process has ended, of itself or by a signal, without an answer."""


class ForkedWorker:
    """A copy of this process that answers requests one after the other; a context manager that ends it."""

    def __init__(self, answer: Callable[[Any], Any], others: Sequence["ForkedWorker"]) -> None:
        """Start the process.

        answer: called in the process for each request; its result can be pickled. others: the running workers of this
        process; the new one closes its copies of their pipes.
        """
        context = multiprocessing.get_context("fork")
        self._ending = threading.Lock()  # by its thread, and where the context ends
        self.pipe, theirs = context.Pipe()
        parents = (self.pipe, *(other.pipe for other in others))
        self._process = context.Process(target=_serve, args=(answer, theirs, parents), daemon=True)
        with making:  # no other thread then makes a folder or a process, and a signal's handler sees this one
            self._process.start()
        theirs.close()

    def run(self, request: object) -> Any:
        """Return the answer to a request. Raises: as the process's function; WorkerEndedError."""
        self.send(request)
        return self.receive()

    def send(self, request: object) -> None:
        """Send a request; if the process has ended, `receive` says so."""
        with contextlib.suppress(OSError):
            self.pipe.send(request)

    def receive(self) -> Any:
        """Return the answer to the request sent last. Raises: as `run`."""
        try:
            with own_pickles():
                succeeded, result = self.pipe.recv()
        except (OSError, EOFError) as error:
            raise WorkerEndedError from error
        if not succeeded:
            raise result
        return result

    def exit_status(self) -> int | None:
        """Wait for the end of the process; return its status, the negative number of a signal."""
        self._process.join()
        return self._process.exitcode

    def __enter__(self) -> "ForkedWorker":
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """End the process if it still runs; the answer to an unfinished request is lost."""
        with self._ending:
            self._process.kill()
            self._process.join()
            self.pipe.close()


def _serve(answer: Callable[[Any], Any], pipe: Connection, parents: Sequence[Connection]) -> None:
    """Answer requests as they arrive, until the parent closes its end of the pipe or ends."""
    making.release()  # this copy of the lock is held since the fork, and threads of a task would wait for it
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # folders are the parent's to remove
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the parent ends its workers
    for end in parents:
        end.close()
    # Inherited objects are excluded from garbage collection, so that their pages stay shared. A task's own garbage is
    # collected at its end, because collections during a task take a quarter of the time of emitting kernels. Objects
    # that a task leaves in caches are not collected; to traverse them after each task would take a tenth of a build's
    # time.
    gc.disable()
    gc.freeze()
    with contextlib.suppress(EOFError, OSError):
        while True:
            with own_pickles():
                request = pipe.recv()
            try:
                reply = True, answer(request)
            except Exception as error:
                reply = False, error
            pipe.send(reply)
            del request, reply
            gc.collect()
            gc.freeze()
