"""Limit the time and memory of a build: a build that exceeds a limit ends with an error and leaves no files behind.

A thread watches, because a single library call may take long. RLIMIT_AS does not help: LLVM and threads reserve many
times the memory that they touch. Memory is the resident memory of this process plus, for all processes below it, the
memory that they do not share with it.
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

from mavcg.console.error_exit import EXIT_BAD_INPUT
from mavcg.console.output import Progress
from mavcg.errors import MavcgError
from mavcg.files.scratch import descendants, end_process
from mavcg.graph import Node
from mavcg.text.byte_sizes import parse_bytes
from mavcg.text.terminal import say

SECONDS = 900.0  # default for a model, to which this is added for each MB of its file:
SECONDS_PER_MB = 30.0
PROGRAM_SECONDS = 3600.0  # default for a program
SHARE_OF_MEMORY = 0.8  # default, as a fraction of the memory of the machine or container
FEWEST_BYTES = 64 << 20  # Python and its packages alone take this much
_POLL_S = 0.1
# Seconds of CPU after which a build says what it does, where no terminal shows it; then at each doubling. One that
# waits says so after as many times more seconds.
_REPORT_S, _WAITING = 10.0, 6
_CHILDREN_EVERY = 10  # polls; reading the memory of all processes takes longer than that of this one


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
    """Return the limits that the options set, or the defaults. model: file to be built; None for a program.

    Raises: MavcgError for invalid values.
    """
    if max_seconds is not None and not 0 < max_seconds < float("inf"):
        raise MavcgError(f"--max-seconds {max_seconds}: is not a time; give a number of seconds above 0")
    seconds = PROGRAM_SECONDS
    if model is not None:
        with contextlib.suppress(OSError):
            seconds = SECONDS + SECONDS_PER_MB * model.stat().st_size / 1e6
    memory = _memory_bytes(str(max_memory)) if max_memory is not None else _default_memory()
    return ResourceLimits(seconds if max_seconds is None else max_seconds, memory)


def _memory_bytes(text: str) -> int:
    size = parse_bytes(text)
    if size is None:
        raise MavcgError(
            f"--max-memory {text}: is not a size; give a number of bytes, or a size such as 4GB or 1500MiB"
        )
    if size < FEWEST_BYTES:
        raise MavcgError(f"--max-memory {text}: is less than any build takes; give {FEWEST_BYTES >> 20}MiB or more")
    return size


def _default_memory() -> int | None:
    """Return a share of the machine's memory, or of the control group's limit if that is less, in bytes."""
    sizes = []
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # "max" if there is no limit
            sizes.append(int(Path(path).read_text()))
    return int(SHARE_OF_MEMORY * min(sizes)) if sizes else None


class LimitedProgress(Progress):
    """Progress that remembers the current stage."""

    stage = ""

    def __call__(self, message: str) -> None:
        self.stage = message
        super().__call__(message)


@contextlib.contextmanager
def enforce_limits(limits: ResourceLimits, product: str) -> Iterator[LimitedProgress]:
    """End the process with status 2 if it exceeds a limit within the context; child processes and scratch files too.

    Args:
        product: name of what is built, for the message.
    Raises: MavcgError if memory cannot be allocated.
    """
    done = threading.Event()
    main = threading.get_ident()
    progress = LimitedProgress()
    with progress:
        watcher = threading.Thread(target=_watch, args=(limits, product, progress, main, done), daemon=True)
        try:
            watcher.start()
        except RuntimeError as error:  # its stack does not fit the address space
            raise MavcgError(
                f"{product}: more memory is needed than is available ({error}); {_remedy('memory')}"
            ) from error
        try:
            yield progress
        except MemoryError as error:
            node = _node_of_traceback(error)
            size = f" ({error})" if str(error) else ""
            raise MavcgError(
                f"{product}: {_stage(progress, node)}: more memory is needed than is available{size}; "
                f"{_remedy('memory')}"
            ) from error
        finally:
            done.set()
            watcher.join()


def _watch(limits: ResourceLimits, product: str, progress: LimitedProgress, main: int, done: threading.Event) -> None:
    """Poll time and memory until the build is done; end the process at an excess. main: id of the main thread.

    Where there is no memory to look, the main thread meets the same lack and names it; the next poll looks again.
    """
    started = time.monotonic()
    while not done.is_set():
        with contextlib.suppress(MemoryError):
            _poll(limits, product, progress, main, done, started)


def _poll(
    limits: ResourceLimits, product: str, progress: LimitedProgress, main: int, done: threading.Event, started: float
) -> None:
    polls, children_bytes, report_s, cpu_before_s = 0, 0, _REPORT_S, sum(os.times()[:4])
    while not done.wait(min(_POLL_S, limits.seconds)):
        if limits.memory_bytes and polls % _CHILDREN_EVERY == 0:
            children_bytes = private_bytes(descendants())
        polls += 1
        seconds = time.monotonic() - started
        if max(sum(os.times()[:4]) - cpu_before_s, seconds / _WAITING) >= report_s:
            report_s *= 2
            _report(product, progress, main, seconds)
        resident = resident_bytes([os.getpid()]) + children_bytes if limits.memory_bytes else 0
        if seconds > limits.seconds:
            excess = f"--max-seconds {limits.seconds:g}: the build takes longer"
            remedy = _remedy("time")
        elif limits.memory_bytes and resident > limits.memory_bytes:
            excess = f"--max-memory {limits.memory_bytes / 1e6:.0f}MB: the build has taken {resident / 1e6:.0f} MB"
            remedy = _remedy("memory")
        else:
            continue
        stage = _stage(progress, _node_in(sys._current_frames().get(main)))
        progress.__exit__()
        end_process(EXIT_BAD_INPUT, partial(say, f"{product}: {excess} ({stage}); {remedy}"))


def _report(product: str, progress: LimitedProgress, main: int, seconds: float) -> None:
    """Say on stderr what a long build does, unless a terminal shows its stages."""
    if not sys.stderr.isatty():
        say(f"{product}: {seconds:.0f} s {_stage(progress, _node_in(sys._current_frames().get(main)))}")


def _remedy(resource: str) -> str:
    if resource == "time":
        return "allow more, or use fewer cores, --tune off or a smaller model"
    return "allow more, or use fewer --jobs, fewer cores or a smaller model"


def _stage(progress: LimitedProgress, node: Node | None) -> str:
    location = f", node '{node.origin}' ({node.op})" if node is not None else ""
    return f"while {progress.stage or 'starting'}{location}"


def _node_in(frame: FrameType | None) -> Node | None:
    """Return the graph node in the variable `node` of the innermost function that has one; None without it."""
    while frame is not None:
        node = frame.f_locals.get("node")
        if isinstance(node, Node) and node.origin:
            return node
        frame = frame.f_back
    return None


def _node_of_traceback(error: BaseException) -> Node | None:
    """Return the graph node that the innermost function of a traceback worked on."""
    trace, innermost = error.__traceback__, None
    while trace is not None:
        node = trace.tb_frame.f_locals.get("node")
        innermost = node if isinstance(node, Node) and node.origin else innermost
        trace = trace.tb_next
    return innermost


def private_bytes(processes: Iterable[int]) -> int:
    """Return the size of the pages that only these processes have and that they wrote to, in bytes.

    A fork of this process shares most of its pages with it. If Linux does not report private pages, the result is
    resident_bytes.
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
    """Return the resident memory of these processes without pages of files, in bytes; 0 on systems without /proc."""
    total, page = 0, os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
    for process in processes:
        with contextlib.suppress(OSError, ValueError, IndexError):
            resident, shared = Path(f"/proc/{process}/statm").read_text().split()[1:3]
            total += (int(resident) - int(shared)) * page
    return total
