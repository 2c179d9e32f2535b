"""Runs a program under perf, or under valgrind's callgrind if sampling is not available."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from mavcg.errors import ProfileError, ToolError
from mavcg.files.disk_space import with_room
from mavcg.files.scratch import scratch_folder
from mavcg.files.whole_file import whole
from mavcg.program.profiling.callgrind import read_callgrind
from mavcg.program.profiling.perf_data import NO_PERF, read_perf_data
from mavcg.program.profiling.sample_table import SampleTable

# The recording's file, the program's exit status, and the reader of the file.
_Ran = tuple[Path, int, Callable[[Path], SampleTable]]

RECORDERS = ("perf", "callgrind")

# A prime number, so that sampling is not synchronous with the program's timers.
DEFAULT_FREQUENCY_HZ = 1999

# A timer that needs no hardware counter, for virtual machines.
FALLBACK_EVENT = "cpu-clock"

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_NOT_PERMITTED = re.compile(r"perf_event_paranoid|no permission|permission denied|not permitted|EPERM|EACCES", re.I)
_PROBE_TIMEOUT_S = 60


@dataclass(frozen=True)
class Recording:
    """A recording of a program.

    Args:
        reading: the samples.
        exit_status: the program's exit status, or minus the number of the signal that ended it.
    """

    reading: SampleTable
    exit_status: int


@dataclass(frozen=True)
class RecordOptions:
    """Options of a recording.

    Args:
        frequency_hz: samples per second and thread.
        event: None for cycles, or cpu-clock if there is no counter.
        call_graph: True to record callers too.
        keep: path to copy the recorder's own file to; None to delete it.
        program_stdout: file descriptor for the program's standard output; None for this process's.
    """

    frequency_hz: int = DEFAULT_FREQUENCY_HZ
    event: str | None = None
    call_graph: bool = False
    keep: Path | None = None
    program_stdout: int | None = None


def record(command: Sequence[str], recorder: str = "perf", options: RecordOptions | None = None) -> Recording:
    """Run a command under a profiler and read the recording; Ctrl-C ends the program, but not the reading.

    Args:
        recorder: "perf" samples time; "callgrind" counts instructions exactly, some 50 times slower.
    Raises: ProfileError if the program is missing or nothing was recorded; ToolError if the recorder is missing or may
    not run.
    """
    options = options or RecordOptions()
    check_program(command)
    with scratch_folder("mavcg-profile-") as folder:
        run = _under_perf if recorder == "perf" else _under_callgrind
        file, status, read = run(command, options, Path(folder))
        location = " ".join(command[:1])
        if not file.exists() or not file.stat().st_size:
            raise ProfileError(
                f"{location}: {recorder} recorded nothing; the program ended with {describe_exit(status)}: "
                f"run it alone first"
            )
        if options.keep is not None:
            _keep(file, options.keep)
        try:
            reading = read(file)
        except ProfileError as error:
            ended = f" (the program ended with {describe_exit(status)})" if status else ""
            raise ProfileError(str(error).replace(str(file), location) + ended) from error
    return Recording(replace(reading, command=shlex.join(command)), status)


def check_program(command: Sequence[str]) -> None:
    """Refuse a command that cannot be started. Raises: ProfileError."""
    if not command:
        raise ProfileError("profile: no command; give one after --, as in mavcg profile -- ./app args")
    program = command[0]
    if shutil.which(program) is not None:
        return
    if "/" not in program and shutil.which(f"./{program}") is not None:
        raise ProfileError(f"{program}: program not found on PATH; for the one in this folder write ./{program}")
    if os.path.isdir(program):
        raise ProfileError(f"{program}: a folder, not a program; give the program in it")
    if os.path.exists(program):
        raise ProfileError(f"{program}: not executable; run chmod +x {shlex.quote(program)}, or name its interpreter")
    raise ProfileError(f"{program}: program not found; give its path, as in mavcg profile -- ./app args")


def describe_exit(status: int) -> str:
    """Describe an exit status: `exit status 3`, or `signal 9` for the negative status of a program that was killed."""
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _under_perf(command: Sequence[str], options: RecordOptions, folder: Path) -> _Ran:
    perf = shutil.which("perf")
    if perf is None:
        raise ToolError(f"perf: {NO_PERF}")
    file = folder / "perf.data"
    changed_ns = os.stat(perf).st_mtime_ns
    event = _working_event(options.event, options.frequency_hz, (perf, changed_ns))
    arguments = ["perf", "record", "-q", "--sample-cpu", "-F", str(options.frequency_hz), "-o", str(file)]
    arguments += ["-e", event] if event else []
    arguments += ["-g"] if options.call_graph else []
    _, status = _run([*arguments, "--", *command], options.program_stdout)
    # perf returns the program's status: 128 + the signal's number for a killed program, as a shell does.
    return file, -(status - 128) if 128 < status < 160 else status, read_perf_data


@cache
def _working_event(event: str | None, frequency_hz: int, perf: tuple[str, int]) -> str:
    """Return the event if perf can record it; for None: "" (perf's default) if that works, else FALLBACK_EVENT.

    perf: its path and time of change, the cache key. The result is cached because a probe may take half a second and
    measuring versions records a program many times.
    Raises: ToolError if no event works.
    """
    with scratch_folder("mavcg-probe-") as folder:
        try:
            _probe(event or "", frequency_hz, Path(folder))
            return event or ""
        except _NotSupportedError:
            if event is not None:
                raise
            _probe(FALLBACK_EVENT, frequency_hz, Path(folder))
            return FALLBACK_EVENT


class _NotSupportedError(ToolError):
    """Raised if perf runs but cannot record this event."""


def _probe(event: str, frequency_hz: int, folder: Path) -> None:
    """Record a trivial command, so that a refusal by perf is distinguished from a failure of the program.

    Raises: ToolError when perf may not record, _NotSupportedError when it cannot record this event.
    """
    command = ["perf", "record", "-q", "--sample-cpu", "-F", str(frequency_hz), "-o", str(folder / "probe.data")]
    command += ["-e", event] if event else []
    try:
        done = subprocess.run(
            [*command, "--", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
            timeout=_PROBE_TIMEOUT_S,
        )
    except OSError as error:
        raise ToolError(f"perf: cannot be run: {error.strerror}; {NO_PERF.partition('; ')[2]}") from error
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"perf: did not record `true` within {_PROBE_TIMEOUT_S} s; try --with callgrind") from error
    if done.returncode == 0:
        return
    if _NOT_PERMITTED.search(done.stderr):
        raise ToolError(f"perf: not permitted to record{_paranoid_level()}; {_HOW_TO_PERMIT}")
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or [f"exit status {done.returncode}"]
    raise _NotSupportedError(
        f"perf: cannot record {event or 'cycles'} at {frequency_hz} Hz: {' '.join(lines[:3])}; "
        f"try --event {FALLBACK_EVENT}, a lower --frequency, or --with callgrind"
    )


_HOW_TO_PERMIT = (
    "allow it with sudo sysctl kernel.perf_event_paranoid=1 (in a container also --cap-add PERFMON), run as root, or "
    "count instructions exactly with mavcg profile --with callgrind"
)


def _paranoid_level() -> str:
    try:
        return f" (kernel.perf_event_paranoid is {_PARANOID.read_text().strip()})"
    except OSError:
        return ""


def _under_callgrind(command: Sequence[str], options: RecordOptions, folder: Path) -> _Ran:
    if shutil.which("valgrind") is None:
        raise ToolError("valgrind: is not installed; install it (Debian: apt install valgrind), or use --with perf")
    # %p is the process: a forked child writes another file.
    arguments = ["valgrind", "-q", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={folder}/out.%p"]
    process, status = _run([*arguments, "--", *command], options.program_stdout)
    return folder / f"out.{process}", status, _read_callgrind_file


def _read_callgrind_file(path: Path) -> SampleTable:
    with open(path, encoding="utf-8", errors="replace") as text:
        return read_callgrind(text, str(path))


def _run(arguments: list[str], stdout: int | None) -> tuple[int, int]:
    """Run a recorder to its end, also after Ctrl-C; return its process number and exit status."""
    try:
        process = subprocess.Popen(arguments, stdout=stdout)
    except OSError as error:
        raise ToolError(f"{arguments[0]}: cannot be run: {error.strerror}; check how it is installed") from error
    while True:
        try:
            return process.pid, process.wait()
        except KeyboardInterrupt:
            continue


def _keep(file: Path, location: Path) -> None:
    try:
        with whole(location) as temporary:
            shutil.copyfile(file, temporary)
    except OSError as error:
        raise ProfileError(f"{location}: cannot be written: {with_room(error, location)}; name another file") from error
