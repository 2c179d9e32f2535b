"""Input files of targets that take a path, one a process, and temporary files: in memory where the system allows it."""

import os
import tempfile
from functools import cache
from pathlib import Path


def temporary_in_memory() -> None:
    """Have temporary files of this process, a reader's own too, in memory where the system allows it."""
    memory = "/dev/shm"
    if os.access(memory, os.W_OK):
        tempfile.tempdir = memory


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="mavcg-fuzz-")


def file_with(data: bytes, name: str) -> Path:
    """A file of these bytes; the next call with the same name overwrites it."""
    path = Path(_folder().name) / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path
