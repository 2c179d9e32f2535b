"""Limits on what Dask's schedulers, workers and clients do for each other: no function of others is called.

Dask sends functions, results and errors as pickles, and its servers have operations that call functions, load modules
and write files. In a process of a farm, pickles may name the classes of Dask's own messages and one function of mavcg,
which reads data; and servers keep only the operations that a farm uses.
"""

import importlib
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from mavcg.files.unpickling import only_names

_BYTES = frozenset({"builtins:bytes"})  # the class of results, and of errors that are not read
_TASK = frozenset({"dask._task_spec:Task", "mavcg.lab.jobs.remote_tasks:answer_request"})
_GRAPH = frozenset({"dask._expr:Expr._reconstruct", "dask._expr:LLGExpr"})
# Names in pickles, by the kind of process that reads them.
_NAMES = {"Scheduler": _BYTES | _TASK | _GRAPH, "Worker": _BYTES | _TASK, "Client": _BYTES}
_LOGGERS = ("distributed", "tornado", "asyncio")
# Operations by the kind of server: those for which a connection asks, and those of an established stream.
_OPERATIONS = {
    "Scheduler": {
        "register-client",
        "register-worker",
        "unregister",
        "heartbeat_worker",
        "identity",
        "ncores",
        "who_has",
        "gather",
    },
    "Worker": {"get_data", "terminate"},
}
_STREAMS = {
    "Scheduler": {
        "update-graph",
        "client-desires-keys",
        "client-releases-keys",
        "heartbeat-client",
        "close-client",
        "subscribe-topic",
        "unsubscribe-topic",
        "cancel-keys",
        "task-finished",
        "task-erred",
        "release-worker-data",
        "add-keys",
        "long-running",
        "reschedule",
        "keep-alive",
        "worker-status-change",
        "request-refresh-who-has",
        "log-event",
        "steal-response",
    },
    "Worker": {
        "close",
        "cancel-compute",
        "acquire-replicas",
        "compute-task",
        "free-keys",
        "remove-replicas",
        "steal-request",
        "refresh-who-has",
        "worker-status-change",
        "remove-worker",
    },
}


def limited_pickles(kind: str) -> AbstractContextManager[None]:
    """Return a context in which pickles name only what a process of this kind needs: Scheduler, Worker, Client."""
    return only_names(_NAMES[kind])


def limited_server(kind: str, **options: Any) -> Any:
    """Return one of Dask's servers, a Scheduler or a Worker, that has no HTTP port and only a farm's operations."""
    import distributed

    made = type(kind, (getattr(distributed, kind),), {"start_http_server": _no_http})
    server: Any = made(**options)
    server.blocked_handlers = sorted(set(server.handlers) - _OPERATIONS[kind] - {"connection_stream"})
    for name in set(server.stream_handlers) - _STREAMS[kind]:
        server.stream_handlers[name] = _ignore
    return server


class Unreadable(Exception):
    """Stands for a value that a client does not read."""


@contextmanager
def limited_client(url: str, security: Any, timeout_s: float) -> Iterator[Any]:
    """Open a client of Dask that reads bytes alone, and no errors and prints of workers.

    Raises: as Dask's Client.
    """
    distributed: Any = importlib.import_module("distributed")
    core: Any = importlib.import_module("distributed.protocol.core")
    made = type("Client", (distributed.Client,), {"_handle_task_erred": _unread_error})
    read = core.merge_and_deserialize

    def read_or_not(*arguments: Any, **options: Any) -> Any:
        try:
            return read(*arguments, **options)
        except Exception as error:  # of any class, which would end the client's thread: it would wait for ever
            return Unreadable(str(error))

    with limited_pickles("Client"):
        core.merge_and_deserialize = read_or_not
        try:
            with made(url, security=security, timeout=timeout_s) as client:
                for topic in list(client._default_event_handlers):  # workers could print on this terminal
                    client.unsubscribe_topic(topic)
                yield client
        finally:
            core.merge_and_deserialize = read


def _unread_error(client: Any, key: Any = None, exception: object = None, traceback: object = None) -> None:
    """Note that a task has failed, by Dask's fault or a worker's: mavcg's tasks answer their errors."""
    if key in client.futures:
        client.futures[key].set_error(Unreadable("an error of Dask"), None)


def _no_http(server: Any, *arguments: object, **options: object) -> None:
    """Open no port for HTTP, which would show everybody the state of the server."""


def _ignore(*arguments: object, **options: object) -> None:
    """Do nothing: in place of a stream's operation that a farm does not use."""


def silence_dask() -> None:
    """Keep Dask from printing tracebacks about lost connections; mavcg's errors say what to do."""
    for name in [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _LOGGERS]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
