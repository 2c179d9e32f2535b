"""The log of `mavcg launch`, a JSON line per object, for the `mavcg build` that started the build."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mavcg.files.decode import json_document, read_text

_AGAIN = "build again"
VARIABLE = "MAVCG_LAUNCH_LOG"  # path of the log; if it is not set, nothing is written


@dataclass(frozen=True)
class LaunchedObject:
    """An object with versions. object: its path. functions: their names."""

    object: str
    functions: tuple[str, ...]


def log_versions(unit: Path, functions: Sequence[str]) -> None:
    """Add an object with versions to the log.

    Each line is one write to a file opened for appending: POSIX does not interleave such writes of parallel compilers.
    """
    log = os.environ.get(VARIABLE)
    if not log:
        return
    line = json.dumps({"object": str(unit.absolute()), "functions": list(functions)}) + "\n"
    with suppress(OSError):  # a log that cannot be written must not fail the build
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def read_log(path: Path) -> tuple[LaunchedObject, ...]:
    """Return the entries of a log in the order in which they were written. Raises: MavcgError for another file."""
    lines = enumerate(read_text(path, _AGAIN).splitlines(), 1)
    return tuple(
        json_document(line, f"{path}:{number}", _AGAIN, file_names=True).decode(LaunchedObject)
        for number, line in lines
    )
