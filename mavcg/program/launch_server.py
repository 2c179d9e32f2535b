"""The resident process of `mavcg launch`: it runs the commands of a build that follow, without a start of Python.

A command of `mavcg launch` that has made an object with versions forks it as it ends, with all that is imported by
then. It lets in processes of its own user in its own circumstances (launch_door.py), and forks for each command a
process that has the command's folder, streams and environment and runs what `mavcg launch` runs. It ends after a minute
without a command, where its socket is removed, and where a file of mavcg is no longer the one that it imported.
"""

import contextlib
import fcntl
import functools
import gc
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence

from mavcg.files.own_file import is_own_folder
from mavcg.files.scratch import end_by_signal
from mavcg.program.launch_door import DESCRIPTORS, MAGIC, connect, folder_path, identity, peer_of, socket_name
from mavcg.program.made_with import files_of_mavcg, programs

IDLE_S = 60.0
LOOK_S = 5.0  # between looks at its socket
_GREETING_S = 10.0  # that a command may take to say what it wants
_MOST_BYTES = 64 << 20  # of a command with its environment
_FIRST_FD = 3
# Whose caches depend on more than their arguments and mavcg's own files.
_FORGOTTEN = ("mavcg.program.", "mavcg.assembly.", "mavcg.files.", "mavcg.hosts.", "mavcg.cli.", "mavcg.console.")
Launch = Callable[[list[str]], int]


def start_server(launch: Launch) -> None:
    """Fork the resident process of this build, unless there is one or it is switched off.

    launch: runs the words of a command, and returns its exit status.
    """
    from pathlib import Path

    name = socket_name(identity())
    if not name or not is_own_folder(Path(folder_path())):
        return
    os.chmod(folder_path(), 0o700)
    running = connect(name)
    if not isinstance(running, str):
        running.close()
        return
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork():
        return
    with contextlib.suppress(BaseException):  # it has nobody to tell, and must not run what follows in its parent
        _become_resident()
        serve(name, launch)
    os._exit(0)


def _become_resident() -> None:
    """Leave the session, folder, streams and descriptors of the command: a build waits for the end of its pipes."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(_FIRST_FD):
        os.dup2(null, number)
    sys.stdout = os.fdopen(1, "w", errors=sys.stdout.errors, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors=sys.stderr.errors, closefd=False)
    os.closerange(_FIRST_FD, os.sysconf("SC_OPEN_MAX"))


def serve(name: str, launch: Launch) -> None:
    """Listen at a socket of the user's cache, and run commands, until there is a reason to end.

    name: of the socket, whose folder is there. launch: as start_server.
    """
    folder = os.open(folder_path(), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    lock = os.open(f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another command has started one
        return
    os.truncate(lock, 0)
    os.write(lock, b"%d\n" % os.getpid())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as listener:
        listener.bind(f"/proc/self/fd/{folder}/{name}")
        bound = os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino
        listener.listen(128)
        _forget()
        server = _Server(listener, launch, lambda: _inode(name, folder) == bound)
        try:
            server.run()
        finally:
            if _inode(name, folder) == bound:
                os.unlink(name, dir_fd=folder)
        while server.accept():  # commands that came before the socket was removed
            pass


def _inode(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino
    except OSError:
        return 0


def _forget() -> None:
    """Forget what the first command has found out of its folder, environment and compilers.

    What is imported stays, and what comes of mavcg's own files: of the facts about cores and the selector's C.
    """
    tempfile.tempdir = None
    for found in gc.get_objects():
        if isinstance(found, functools._lru_cache_wrapper) and found.__module__.startswith(_FORGOTTEN):
            found.cache_clear()
    gc.freeze()  # the collector of a command's process would copy the pages of all that is imported


class _Server:
    def __init__(self, listener: socket.socket, launch: Launch, is_there: Callable[[], bool]) -> None:
        self.listener = listener
        self.launch = launch
        self.is_there = is_there
        # Of each job only these are looked at: to list them takes longer than to ask for their states.
        self.files = list(dict.fromkeys([*files_of_mavcg(), *programs()]))
        self.state = _state(self.files)
        self.is_stale = False  # once a file of mavcg is no longer the one that was imported
        self.running: set[int] = set()
        self.last = time.monotonic()

    def run(self) -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda number, frame: self._reap())
        waiting = select.poll()
        waiting.register(self.listener, select.POLLIN)
        while self.running or time.monotonic() - self.last < IDLE_S:
            if waiting.poll(LOOK_S * 1000):
                self.accept()
            if self.is_stale or not self.is_there():
                return

    def _reap(self) -> None:
        for process in list(self.running):
            if os.waitpid(process, os.WNOHANG)[0]:
                self.running.discard(process)
                self.last = time.monotonic()

    def accept(self) -> bool:
        """Begin the next command that waits; return False if there is none."""
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return False
        with connection, contextlib.suppress(OSError):
            if peer_of(connection)[1] != os.geteuid():
                return True
            self.is_stale = self.is_stale or _state(self.files) != self.state
            if self.is_stale:
                _refuse(connection)
                return True
            held = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
            process = os.fork()
            if process:
                self.running.add(process)
                self.last = time.monotonic()
                signal.pthread_sigmask(signal.SIG_SETMASK, held)
                return True
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            with contextlib.suppress(BaseException):
                self.listener.close()
                _run_command(connection, self.launch)
            os._exit(1)
        return True


def _refuse(connection: socket.socket) -> None:
    """Tell a command that it must do its own work; what it sends is read first, as its answer would be lost else."""
    connection.settimeout(_GREETING_S)
    connection.sendall(b"s")
    while connection.recv(1 << 20):
        pass


def _state(files: Sequence[str]) -> list[tuple[str, int, int, int]]:
    """Return what identifies the contents of files; of one that is gone, nothing."""
    seen = []
    for path in files:
        with contextlib.suppress(OSError):
            status = os.stat(path)
            seen.append((path, status.st_mtime_ns, status.st_size, status.st_ino))
    return seen


def _run_command(connection: socket.socket, launch: Launch) -> None:
    """Run the command that a connection brings, and send its exit status; ends at a signal if the other side goes."""
    connection.settimeout(_GREETING_S)
    words, environment, descriptors = read_command(connection)
    connection.settimeout(None)
    os.fchdir(descriptors[0])
    for number, descriptor in enumerate(descriptors[1:]):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    os.environb.clear()
    os.environb.update(environment)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: end_by_signal(number))
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    try:
        status = launch(words)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    with contextlib.suppress(OSError):  # a full disk behind it: the exit status stays what it is
        sys.stdout.flush()
    connection.sendall(b"d" + bytes([status & 0xFF]))
    os._exit(0)


def _end_with(connection: socket.socket) -> None:
    """End this process when the command's own one has ended before it, as by Ctrl-C."""
    with contextlib.suppress(OSError):
        if not connection.recv(1):
            os.kill(os.getpid(), signal.SIGTERM)


def read_command(connection: socket.socket) -> tuple[list[str], dict[bytes, bytes], Sequence[int]]:
    """Read a command: words, environment, descriptors of its folder and streams. Raises: ValueError, OSError."""
    head, descriptors, flags, _ = socket.recv_fds(connection, len(MAGIC) + 8, DESCRIPTORS, socket.MSG_WAITALL)
    size = int.from_bytes(head[len(MAGIC) :], "little")
    if head[: len(MAGIC)] != MAGIC or size > _MOST_BYTES or flags & socket.MSG_CTRUNC or len(descriptors) < DESCRIPTORS:
        raise ValueError("is not a command of mavcg launch")
    content = bytearray()
    while len(content) < size:
        part = connection.recv(min(size - len(content), 1 << 20))
        if not part:
            raise ValueError("a command ends too early")
        content += part
    count, *parts = bytes(content).split(b"\0")[:-1]
    words, entries = parts[: int(count)], parts[int(count) :]
    pairs = [entry.partition(b"=") for entry in entries]
    return [os.fsdecode(word) for word in words], {name: value for name, _, value in pairs if name}, descriptors
