"""Limit the time and memory of a build: one that exceeds a limit is refused by name, with no files left behind.

A thread watches, since a single library call may take long. RLIMIT_AS does not help: LLVM and threads reserve many
times the memory that they touch. Memory is resident memory of this process, and of all under it what they do not share
with it.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from mavcg.cli.error_exit import EXIT_BAD_INPUT
from mavcg.cli.output import Progress
from mavcg.errors import MavcgError
from mavcg.files.scratch import descendants, end_process
from mavcg.graph import Node
from mavcg.text.terminal import say

SECONDS = 900.0  # by default, and for each MB of a model's file:
SECONDS_PER_MB = 30.0
PROGRAM_SECONDS = 3600.0
SHARE_OF_MEMORY = 0.8  # by default, of what the machine or the container has
FEWEST_BYTES = 64 << 20  # Python and its packages take as much
_POLL_S = 0.1
_CHILDREN_EVERY = 10  # polls: looking through all processes takes longer than looking at this one
_UNITS = {"": 1, "B": 1, "kB": 1000, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1 << 10, "MiB": 1 << 20,
          "GiB": 1 << 30}  # fmt: skip


@dataclass(frozen=True)
class ResourceLimits:
    """Limits on a build.

    Args:
        seconds: elapsed time.
        memory_bytes: resident memory of all its processes; None for no limit.
    """

    seconds: float
    memory_bytes: int | None


def build_limits(max_seconds: float | None, max_memory: str | int | None, model: Path | None = None) -> ResourceLimits:
    """Return the limits of the options, defaults where they are absent. Raises: MavcgError for invalid values."""
    if max_seconds is not None and not 0 < max_seconds < float("inf"):
        raise MavcgError(f"--max-seconds {max_seconds}: is no time to build in; give seconds, more than 0")
    seconds = PROGRAM_SECONDS
    if model is not None:
        with contextlib.suppress(OSError):
            seconds = SECONDS + SECONDS_PER_MB * model.stat().st_size / 1e6
    memory = _bytes(str(max_memory)) if max_memory is not None else _default_memory()
    return ResourceLimits(seconds if max_seconds is None else max_seconds, memory)


def _bytes(text: str) -> int:
    number = text.rstrip("BKMGki")
    unit = text[len(number) :]
    try:
        found = int(float(number) * _UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise MavcgError(f"--max-memory {text}: is no size; give bytes, or such as 4GB or 1500MiB") from None
    if found < FEWEST_BYTES:
        raise MavcgError(f"--max-memory {text}: is less than any build takes; give {FEWEST_BYTES >> 20}MiB or more")
    return found


def _default_memory() -> int | None:
    """Return a share of the machine's memory, or of the control group's limit if that is less, in bytes."""
    found = []
    with contextlib.suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # "max" where there is no limit
            found.append(int(Path(path).read_text()))
    return int(SHARE_OF_MEMORY * min(found)) if found else None


class LimitedProgress(Progress):
    """Progress that remembers the current stage."""

    stage = ""

    def __call__(self, message: str) -> None:
        self.stage = message
        super().__call__(message)


@contextlib.contextmanager
def enforce_limits(limits: ResourceLimits, what: str) -> Iterator[LimitedProgress]:
    """End the process with status 2 if it exceeds a limit meanwhile; its children end and its scratch files are
    removed.

    Args:
        what: the thing that is built, for the message.
    Raises: MavcgError where memory cannot be allocated at all.
    """
    done = threading.Event()
    main = threading.get_ident()
    progress = LimitedProgress()
    with progress:
        watcher = threading.Thread(target=_watch, args=(limits, what, progress, main, done), daemon=True)
        watcher.start()
        try:
            yield progress
        except MemoryError as error:
            node = _node_of_traceback(error)
            raise MavcgError(
                f"{what}: {_stage(progress, node)}: takes more memory than is available ({error}); {_remedy('memory')}"
            ) from error
        finally:
            done.set()
            watcher.join()


def _watch(limits: ResourceLimits, what: str, progress: LimitedProgress, main: int, done: threading.Event) -> None:
    started, polls, of_children = time.monotonic(), 0, 0
    while not done.wait(min(_POLL_S, limits.seconds)):
        if limits.memory_bytes and polls % _CHILDREN_EVERY == 0:
            of_children = private_bytes(descendants())
        polls += 1
        seconds = time.monotonic() - started
        resident = resident_bytes([os.getpid()]) + of_children if limits.memory_bytes else 0
        if seconds > limits.seconds:
            over = f"--max-seconds {limits.seconds:g}: it takes longer"
            remedy = _remedy("time")
        elif limits.memory_bytes and resident > limits.memory_bytes:
            over = f"--max-memory {limits.memory_bytes / 1e6:.0f}MB: it has taken {resident / 1e6:.0f} MB"
            remedy = _remedy("memory")
        else:
            continue
        stage = _stage(progress, _node_in(sys._current_frames().get(main)))
        progress.__exit__()
        end_process(EXIT_BAD_INPUT, partial(say, f"{what}: {over} ({stage}); {remedy}"))


def _remedy(short: str) -> str:
    if short == "time":
        return "give it more, or take fewer cores, --tune off or a smaller model"
    return "give it more, or take fewer --jobs and cores or a smaller model"


def _stage(progress: LimitedProgress, node: Node | None) -> str:
    named = f", node '{node.origin}' ({node.op})" if node is not None else ""
    return f"while {progress.stage or 'starting'}{named}"


def _node_in(frame: FrameType | None) -> Node | None:
    """Return the graph node that the innermost function with one works on."""
    while frame is not None:
        node = frame.f_locals.get("node")
        if isinstance(node, Node) and node.origin:
            return node
        frame = frame.f_back
    return None


def _node_of_traceback(error: BaseException) -> Node | None:
    trace, found = error.__traceback__, None
    while trace is not None:
        node = trace.tb_frame.f_locals.get("node")
        found = node if isinstance(node, Node) and node.origin else found
        trace = trace.tb_next
    return found


def private_bytes(processes: Iterable[int]) -> int:
    """Return the memory that these processes wrote and that no other has, in bytes: a copy of this process shares most
    of its pages with it. resident_bytes of them where Linux does not say it.
    """
    total = 0
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private_Dirty:"))
        except OSError:
            total += resident_bytes([process])
    return total


def resident_bytes(processes: Iterable[int]) -> int:
    """Return the memory of these processes alone, without files' pages, in bytes; 0 where there is no /proc."""
    total, page = 0, os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
    for process in processes:
        with contextlib.suppress(OSError, ValueError, IndexError):
            resident, shared = Path(f"/proc/{process}/statm").read_text().split()[1:3]
            total += (int(resident) - int(shared)) * page
    return total
