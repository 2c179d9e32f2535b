"""Make temporary folders and files that are removed when the process ends, also by a signal.

Every folder for intermediate files is made here, and every file that is written beside its final path
(mavcg/files/whole_file.py) is registered here. A context manager removes it on every exit from Python, including
Ctrl-C. On SIGTERM and SIGHUP, `remove_on_signals` removes all of them, after it has ended the processes that might
still write there.
"""

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ENDING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_KILL_ROUNDS, _ROUND_S, _GATE_S = 40, 0.025, 5
_made: dict[str, None] = {}  # in this process, and not removed yet; the oldest first

# Held while a path or a process is made, and by a signal's handler from its beginning: other threads make nothing then.
making = threading.RLock()


@contextlib.contextmanager
def scratch_folder(prefix: str, beside: Path | None = None) -> Iterator[Path]:
    """Make a folder that only this user can enter, and remove it with its contents at the end.

    beside: folder to make it in, for files that are then renamed into that folder; None for the temporary folder.
    Raises: OSError if it cannot be made.
    """
    folder = fresh_path(beside or Path(tempfile.gettempdir()), prefix)
    with registration(folder, lambda: folder.mkdir(mode=0o700)):  # fails for whatever is there already, a link too
        yield folder


@contextlib.contextmanager
def registration(path: Path, make: Callable[[], object]) -> Iterator[None]:
    """Make a path, and remove it at the end or at a signal.

    make: makes the path; raises if it exists already.
    """
    with making:
        _made[str(path)] = None  # first: a signal may come right after
        try:
            make()
        except BaseException:
            del _made[str(path)]
            raise
    try:
        yield
    finally:
        _remove(str(path))
        _made.pop(str(path), None)


def fresh_path(folder: Path, prefix: str, suffix: str = "") -> Path:
    """Return an unpredictable path that does not exist."""
    return folder / f"{prefix}{os.urandom(8).hex()}{suffix}"


def remove_on_signals() -> None:
    """Make signals that end the process end its children first, and remove all registered paths.

    It is for command lines; a library leaves signals to its program. Ignored signals (nohup) stay ignored.
    """
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, lambda number, frame: end_by_signal(number))


@contextlib.contextmanager
def interrupts_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM and SIGHUP within the context.

    It is for work that has more to clean up than folders.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, signal.default_int_handler) for number in (ENDING_SIGNALS if main else ())}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_process(status: int, say: Callable[[], object]) -> None:
    """End this process from any thread: end its children, remove the registered paths, then call `say`."""
    _clear()
    say()
    os._exit(status)


def _clear() -> None:
    making.acquire(timeout=_GATE_S)
    _end_children()
    for path in reversed(list(_made)):
        _remove(path)


def end_by_signal(number: int) -> None:
    """End this process by a signal: end its children and remove the registered paths first."""
    for signal_number in ENDING_SIGNALS:
        signal.signal(signal_number, signal.SIG_IGN)
    _clear()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)  # whoever started us sees which signal it was


def _end_children() -> None:
    """Send SIGTERM to all descendants of this process, then SIGKILL to those that remain."""
    for round_number in range(_KILL_ROUNDS):
        running = descendants()
        if not running:
            return
        for process in running:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL if round_number > _KILL_ROUNDS // 4 else signal.SIGTERM)
        time.sleep(_ROUND_S)


def descendants() -> list[int]:
    """Return the descendants of this process that are not zombies, from Linux's /proc; [] on systems without it."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError, ValueError, IndexError):
                # pid (name) state parent: the name may have spaces and parentheses
                state, parent = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
                if state != "Z":
                    children.setdefault(int(parent), []).append(int(entry.name))
    processes, todo = list[int](), [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        processes += below
        todo += below
    return processes


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
            if os.path.isdir(path):  # to list a folder takes a descriptor, of which there may have been none
                shutil.rmtree(path, ignore_errors=True)
                os.rmdir(path)
        else:
            os.unlink(path)
