"""Run items in child processes: an item that crashes, hangs or takes too much memory ends its child and is reported."""

import os
import pickle
import resource
import select
import signal
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Died:
    """Cause of a missing result. kind: crash or hang."""

    kind: str
    reason: str


@dataclass(frozen=True)
class Result:
    """Result of item number `index`: the return value of `work`, or how its process died."""

    index: int
    value: Any


@dataclass
class _Child:
    """A forked process with the numbers of its remaining items, the current one first.

    since: start of the current item.
    """

    process: int
    pipe: int
    todo: list[int]
    data: bytes = b""
    since: float = field(default_factory=time.monotonic)


def each(
    work: Callable[[int], Any], count: int, seconds: float, memory_bytes: int | None = None, workers: int = 1
) -> Iterator[Result]:
    """Yield the results of work(0) .. work(count - 1), each in a child process, in the order of completion.

    seconds: limit of one item. memory_bytes: memory limit of a child, beyond which it gets MemoryErrors.
    """
    shares = [list(range(start, count, workers)) for start in range(workers)]
    children = [_started(work, share, memory_bytes) for share in shares if share]
    try:
        while children:
            left = min(child.since for child in children) + seconds - time.monotonic()
            ready, _, _ = select.select([child.pipe for child in children], [], [], max(0.0, left))
            for child in list(children):
                hung = child.pipe not in ready and time.monotonic() - child.since >= seconds
                if child.pipe not in ready and not hung:
                    continue
                chunk = b"" if hung else os.read(child.pipe, 1 << 16)
                child.data += chunk
                for value in _received(child):
                    child.since = time.monotonic()
                    yield Result(child.todo.pop(0), value)
                if chunk:
                    continue
                children.remove(child)
                died = _ended(child, hung, seconds)
                if child.todo:
                    yield Result(child.todo.pop(0), died)
                if child.todo:
                    children.append(_started(work, child.todo, memory_bytes))
    finally:
        for child in children:
            _ended(child, hung=True, seconds=seconds)


def _started(work: Callable[[int], Any], todo: Sequence[int], memory_bytes: int | None) -> _Child:
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return _Child(process, reading, list(todo))
    status = 1
    try:
        os.close(reading)
        if memory_bytes is not None:
            limit = memory_bytes + _address_bytes() - _resident_bytes()
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for index in todo:
            data = pickle.dumps(work(index))
            _write(writing, struct.pack("<q", len(data)) + data)
        status = 0
    finally:
        os._exit(status)


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _received(child: _Child) -> Iterator[Any]:
    while len(child.data) >= 8:
        end = 8 + struct.unpack("<q", child.data[:8])[0]
        if len(child.data) < end:
            return
        yield pickle.loads(child.data[8:end])  # of our own child
        child.data = child.data[end:]


def _ended(child: _Child, hung: bool, seconds: float) -> Died:
    """Return the cause of a child's death; a child that hangs is killed."""
    if hung:
        os.kill(child.process, signal.SIGKILL)
    os.close(child.pipe)
    _, status = os.waitpid(child.process, 0)
    if hung:
        return Died("hang", f"took more than {seconds:g} s")
    if os.WIFSIGNALED(status):
        return Died("crash", f"died of {signal.Signals(os.WTERMSIG(status)).name}")
    return Died("crash", f"ended with status {os.waitstatus_to_exitcode(status)}")


def _address_bytes() -> int:
    return _statm(0)


def _resident_bytes() -> int:
    return _statm(1)


def _statm(field: int) -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[field]) * resource.getpagesize()
