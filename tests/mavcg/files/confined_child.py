"""A copy of the testing process that confines itself, since nothing lifts a confinement again."""

from collections.abc import Callable
from typing import Any

import pytest

from mavcg.files.forked_worker import FORKS, ForkedWorker
from mavcg.files.sandbox import missing_parts


def in_confined_child(work: Callable[[], Any]) -> Any:
    """Do work that confines its process in a copy of this one; returns what it returns, raises what it raises."""
    if not FORKS or missing_parts():
        pytest.skip(f"this system has no {', '.join(missing_parts()) or 'fork'}")
    with ForkedWorker(lambda request: work(), []) as worker:
        return worker.run(None)


def outcome(action: Callable[[], Any]) -> str:
    """Return the outcome of an action: "done", or the name of the error's number, or a status other than 0."""
    import errno

    try:
        result = action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return f"status {result}" if isinstance(result, int) and result else "done"
