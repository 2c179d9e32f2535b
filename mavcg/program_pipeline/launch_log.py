"""The log that `mavcg launch` writes for the `mavcg build` that started the build: a JSON line for each object."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

VARIABLE = "MAVCG_LAUNCH_LOG"  # names the file; without it nothing is written


def log_versions(unit: Path, functions: Sequence[str]) -> None:
    """Add an object that got versions to the log.

    Each line is one write to a file opened for appending: compilers run in parallel, and POSIX does not interleave such
    writes.
    """
    log = os.environ.get(VARIABLE)
    if not log:
        return
    line = json.dumps({"object": str(unit.absolute()), "functions": list(functions)}) + "\n"
    with suppress(OSError):  # a log that cannot be written must not fail somebody's build
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def read_log(path: Path) -> tuple[dict[str, Any], ...]:
    """Return the objects of a log, in the order in which they were finished: "object" and "functions"."""
    return tuple(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
