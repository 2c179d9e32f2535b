"""Child processes and connections of a command, seen by an audit hook: a Python among them is isolated.

So every test that runs a command looks for doors through which a module of the current folder could be executed, and
for ports that others could reach; no list of verbs is kept.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# multiprocessing starts interpreters without an audit event, but imports the module that does.
STARTERS = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver", "multiprocessing.forkserver")
_watched: list[list[list[str]]] = []  # the commands of the innermost watch; the hook stays for the process's life
_sockets: list[list[str]] = []  # addresses of the innermost watch


def commands_of(event: str, arguments: Sequence[Any]) -> list[str] | None:
    """The argument vector that an event starts; None for an event that starts no program. A fork starts none."""
    if event == "subprocess.Popen":
        words = arguments[1]
        return [os.fsdecode(word) for word in ([words] if isinstance(words, str | bytes | os.PathLike) else words)]
    if event in ("os.exec", "os.posix_spawn", "os.spawn"):
        return [os.fsdecode(word) for word in arguments[2 if event == "os.spawn" else 1]]
    if event == "os.system":
        return ["sh", "-c", os.fsdecode(arguments[0])]
    return [sys.executable, arguments[0]] if event == "import" and arguments[0] in STARTERS else None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _sockets and event in ("socket.bind", "socket.connect"):
        _sockets[-1].append(f"{event} {arguments[1]}")
    if _watched and (command := commands_of(event, arguments)) is not None:
        _watched[-1].append(command)


sys.addaudithook(_hook)


@contextmanager
def watched_children() -> Iterator[list[list[str]]]:
    """The argument vectors of the programs that are started within the context."""
    started: list[list[str]] = []
    _watched.append(started)
    for name in STARTERS:  # imported again, where another test has done so
        sys.modules.pop(name, None)
    try:
        yield started
    finally:
        _watched.remove(started)


@contextmanager
def watched_sockets() -> Iterator[list[str]]:
    """The addresses at which this process listens, and to which it connects, within the context."""
    addresses: list[str] = []
    _sockets.append(addresses)
    try:
        yield addresses
    finally:
        _sockets.remove(addresses)


def may_connect(words: Sequence[str]) -> bool:
    """Whether a command line names a farm, by an address or by a fleet's file."""
    return "farm" in words[:1] or any(word.startswith(("fleet:", "tls://", "tcp://", "dask://")) for word in words)


def is_open(command: Sequence[str]) -> bool:
    """Whether a command starts a Python that imports from the current folder, or heeds PYTHONPATH."""
    is_python = os.path.basename(command[0]).startswith("python") or command[0] == sys.executable
    return is_python and "-I" not in command[1:2]
