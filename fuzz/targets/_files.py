"""Input files of targets that take a path: one a process, in memory where the system allows it."""

import os
import tempfile
from functools import cache
from pathlib import Path


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="mavcg-fuzz-", dir=memory if os.access(memory, os.W_OK) else None)


def file_with(data: bytes, name: str) -> Path:
    """A file of these bytes; the next call with the same name overwrites it."""
    path = Path(_folder().name) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path
