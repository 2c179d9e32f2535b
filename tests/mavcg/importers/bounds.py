"""The bounds on what a small file may take: CPU seconds and memory of its import and of all graph passes."""

import contextlib
import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.importers.load import import_model
from mavcg.passes.graph.pipeline import optimise

SECONDS = 15  # of CPU, for import and all passes; without bounds 40 and more
MOST_BYTES = 3 << 30  # resident, a few times the bound on evaluated constants


def import_and_optimise(path: Path) -> None:
    optimise(import_model(path, {}))


def check_bounds(path: Path, read: Callable[[Path], object] = import_and_optimise) -> None:
    """Read a file in a child, which must end within the bounds; it may refuse the file."""
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=_measure, args=(path, read, results))
    child.start()
    child.join()
    assert child.exitcode == 0
    seconds, more_bytes = results.get()
    assert seconds < SECONDS and more_bytes < MOST_BYTES


def _measure(path: Path, read: Callable[[Path], object], results: Any) -> None:
    """Answer with the CPU seconds and with the bytes by which the peak grew."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_CPU, (4 * SECONDS, 4 * SECONDS))
    started = time.process_time()
    with contextlib.suppress(MavcgError):
        read(path)
    used = time.process_time() - started
    results.put((used, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)))
