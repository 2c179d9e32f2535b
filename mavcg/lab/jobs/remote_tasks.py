"""The tasks that workers run, by their names: a request names one and has its argument, an answer has its result.

Requests and answers are bytes, because workers, schedulers and clients then need to load nothing else of each other's.
A worker runs no other function, and reads its argument as of the type that the function is declared to take. The client
reads the result as of the type that it is declared to return, and compares it with the request.
"""

import hashlib
import importlib
from collections.abc import Callable
from typing import Any, get_type_hints

from mavcg.errors import MavcgError
from mavcg.lab.jobs.messages import Message, MessageError, pack_message

# Name of a task -> module of its function.
TASKS = {
    "prepare_libraries": "mavcg.lab.farm.library_tasks",
    "compile_modules": "mavcg.lab.farm.library_tasks",
    "link_libraries": "mavcg.lab.farm.library_tasks",
    "search_tilings": "mavcg.accelerators.explore.tilings",
    "simulate_targets": "mavcg.accelerators.explore.simulations",
    "predict_boards": "mavcg.accelerators.explore.board_predictions",
    "run_board_task": "mavcg.lab.fleet.board_task",
    "read_board_facts": "mavcg.lab.fleet.board_task",
}
# Name of a task -> module of the function `check_NAME`, by which the client compares a result with its request.
CHECKS = {
    "prepare_libraries": "mavcg.lab.farm.library_checks",
    "compile_modules": "mavcg.lab.farm.library_checks",
    "link_libraries": "mavcg.lab.farm.library_checks",
    "search_tilings": "mavcg.accelerators.explore.tilings",
    "simulate_targets": "mavcg.accelerators.explore.simulations",
    "predict_boards": "mavcg.accelerators.explore.board_predictions",
    "run_board_task": "mavcg.lab.fleet.board_task",
}
BOARD_TASKS = frozenset({"run_board_task", "read_board_facts"})  # only of workers that were given boards
# What a worker's results depend on, which must be equal in the client.
VERSIONS = {
    "fingerprint": "mavcg.accelerators.plans.schedule_cache",
    "compiler_digest": "mavcg.lab.jobs.sources_digest",
    "worker_digest": "mavcg.lab.jobs.sources_digest",
}
VERSION_KEY = "mavcg"  # of a worker's facts in a scheduler's answers
OTHER_VERSION = "has another version of mavcg, or other measured costs; install this one there, and copy ~/.cache/mavcg"
_OTHER_VERSION, _REFUSED, _FAILED = "other version", "refused", "failed"
_allowed: set[str] = set()  # tasks that this process runs: none unless it is a worker


class WorkerFault(MavcgError):
    """Raised for a worker that did not do what was requested; the message begins after its name."""


def become_worker(boards: bool) -> None:
    """Let this process run tasks that arrive as messages. boards: those of boards too, which run programs."""
    _allowed.update(name for name in TASKS if boards or name not in BOARD_TASKS)


def is_worker() -> bool:
    """Return True if this process runs tasks of other machines' clients."""
    return bool(_allowed)


def own_versions() -> dict[str, str]:
    """Return what results of this process depend on, by the names of VERSIONS."""
    return {name: _version(name) for name in VERSIONS}


def _version(name: str) -> str:
    version: str = getattr(importlib.import_module(VERSIONS[name]), name)()
    return version


def request_message(work: Callable[..., Any], argument: Any, version: Callable[[], str]) -> bytes:
    """Return the message that requests a call of a task's function. version: a function of VERSIONS."""
    return pack_message(argument, task=work.__name__, version=version(), version_of=version.__name__)


def answer_request(request: Any) -> bytes:
    """Run the task that a request names, in a worker; return the message with its result, or with what failed."""
    content = bytes(request)
    labels = {"request": request_digest(content)}
    try:
        message = Message(content)
        function = _function(message.labels)
        expected, _ = _types(function)
        result = function(message.value(expected))
        return pack_message(result, **labels)
    except _Other:
        return pack_message(None, fault=_OTHER_VERSION, **labels)
    except MessageError as error:
        return pack_message(str(error), fault=_FAILED, **labels)
    except MavcgError as error:
        return pack_message(str(error), fault=_REFUSED, **labels)
    except Exception as error:  # of any class: a fault of the task, which the client reports
        return pack_message(f"{type(error).__name__}: {error}", fault=_FAILED, **labels)


class _Other(Exception):
    """Raised if the client has another version."""


def _function(labels: dict[str, str]) -> Callable[..., Any]:
    """Return the function of the task. Raises: MessageError if this process does not run it; _Other."""
    name, version_of = labels.get("task", ""), labels.get("version_of", "")
    if name not in _allowed or version_of not in VERSIONS:
        boards = "; it was given no boards with --resources" if name in BOARD_TASKS and _allowed else ""
        raise MessageError(f"it does not run the task {name!r}{boards}")
    if labels.get("version") != _version(version_of):
        raise _Other
    function: Callable[..., Any] = getattr(importlib.import_module(TASKS[name]), name)
    return function


def request_digest(request: bytes) -> str:
    """Return the digest by which an answer names its request."""
    return hashlib.sha256(request).hexdigest()


def read_answer(work: Callable[..., Any], argument: Any, digest: str, answer: Any) -> Any:
    """Return the result of a task that a worker ran. digest: of the request.

    Raises: WorkerFault if the answer is not one to this request, if its result is not what the task returns or does not
    fit the argument, and for a worker of another version; MavcgError for what the task itself refused.
    """
    try:
        message = Message(answer)
        if message.labels.get("request") != digest:
            raise MessageError("an answer to another request")
        fault = message.labels.get("fault")
        if fault is None:
            result = message.value(_types(work)[1])
            if isinstance(argument, tuple) and len(result) != len(argument):
                raise MessageError(f"{len(result)} results for {len(argument)} requests")
            if work.__name__ in CHECKS:
                getattr(importlib.import_module(CHECKS[work.__name__]), f"check_{work.__name__}")(argument, result)
            return result
        reason = message.value(str | None) or ""
    except MessageError as error:
        raise WorkerFault(f"sent {error}") from error
    if fault == _REFUSED:
        raise MavcgError(reason)
    raise WorkerFault(OTHER_VERSION if fault == _OTHER_VERSION else f"failed ({reason})")


def _types(function: Callable[..., Any]) -> tuple[Any, Any]:
    """Return the types of a task's first argument and of its result."""
    hints = get_type_hints(function)
    result = hints.pop("return")
    return next(iter(hints.values())), result
