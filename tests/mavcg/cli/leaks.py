"""Resident memory that a process keeps after it has done something a thousand times."""

import gc
from collections.abc import Callable
from pathlib import Path


def kept_kib(run_once: Callable[[], object]) -> int:
    """Return the KiB that a process holds more after a thousand runs than after the first two hundred."""
    for _ in range(200):
        run_once()
    gc.collect()
    before = _resident_kib()
    for _ in range(1000):
        run_once()
    gc.collect()
    return _resident_kib() - before


def _resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4
