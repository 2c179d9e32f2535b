"""Runs a program under perf on chosen CPUs, its library told what these CPUs are: here, or where PerfRuns says."""

import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from mavcg.cpu_list import cpus_text
from mavcg.errors import MavcgError, ToolError
from mavcg.profiling.record import Recording, RecordOptions, check_program, record
from mavcg.runtime.binding import DetectedCpu

# Told to a program, and to what builds it: the path of the library so far, empty before the first.
LIBRARY_VARIABLE = "MAVCG_LIBRARY"


@dataclass(frozen=True)
class Place:
    """CPUs of this machine that are of one core type."""

    core: str
    cpus: tuple[int, ...]


class PerfRuns(Protocol):
    """A machine on which programs run under perf."""

    def check(self, command: Sequence[str]) -> None:
        """Refuse a command that cannot be run or sampled there. Raises: MavcgError."""

    def record(
        self, command: Sequence[str], options: RecordOptions, cpus: Sequence[int] = (), label: str = ""
    ) -> Recording:
        """Run a command to its end on these CPUs (none: any), mavcg's libraries taking all CPUs for `label` ("": for
        what they are). Raises: MavcgError."""

    def using(self, folder: Path, library: Path | None) -> "PerfRuns":
        """The same machine, for a program of this folder that uses this library."""

    def words(self, cpus: Sequence[int]) -> str:
        """The machine and its CPUs: the conditions of a time."""


@dataclass(frozen=True)
class RunsHere:
    """This machine.

    recorder: "perf", or "callgrind", which counts instructions. folder: where programs run; None for the current one.
    library: that programs are told of, by its path and as a place to look in at load.
    """

    recorder: str = "perf"
    folder: Path | None = None
    library: Path | None = None

    def check(self, command: Sequence[str]) -> None:
        """As PerfRuns."""
        with chdir(self.folder or Path()):
            check_program(command)
        if self.recorder == "perf" and shutil.which("perf") is None:
            raise ToolError(
                "perf: is not installed, and gains are measured by it; install it (Debian: apt install linux-perf)"
            )

    def record(
        self, command: Sequence[str], options: RecordOptions, cpus: Sequence[int] = (), label: str = ""
    ) -> Recording:
        """As PerfRuns."""
        with with_variables(library_variables(self.library)), chdir(self.folder or Path()):
            if not label:
                return record(command, self.recorder, options)
            with told(cpus, label):
                return record(command, self.recorder, options)

    def using(self, folder: Path, library: Path | None) -> "RunsHere":
        """As PerfRuns."""
        return replace(self, folder=folder.absolute(), library=library.absolute() if library else None)

    def words(self, cpus: Sequence[int]) -> str:
        """As PerfRuns."""
        return machine_words(cpus)


def library_variables(library: Path | None) -> dict[str, str]:
    """What children are told of a library: its path, empty where there is none, and where to look for it at load."""
    if library is None:
        return {LIBRARY_VARIABLE: ""}
    others = os.environ.get("LD_LIBRARY_PATH", "")
    path = f"{library.parent}{os.pathsep}{others}" if others else str(library.parent)
    return {LIBRARY_VARIABLE: str(library), "LD_LIBRARY_PATH": path}


@contextmanager
def with_variables(names: Mapping[str, str]) -> Iterator[None]:
    """Children that are started meanwhile have these variables in their environment."""
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def this_machine() -> list[DetectedCpu]:
    """The CPUs of this machine as a library would find them, MAVCG_CPU_MAP honoured.

    Raises: MavcgError for an architecture without cores here, or a bad MAVCG_CPU_MAP.
    """
    from mavcg.profiles.load import load_cores
    from mavcg.runtime.binding import detect
    from mavcg.target import ARCHES, host_target

    arch = host_target().arch
    if arch not in ARCHES:
        raise MavcgError(f"mavcg measure: this machine is {arch}; versions are made for {' and '.join(ARCHES)} only")
    cores = [core for core in load_cores().values() if core.arch == arch]
    return detect(Path("/"), cores, os.environ.get("MAVCG_CPU_MAP"))


@contextmanager
def told(cpus: Sequence[int], label: str) -> Iterator[None]:
    """Children that are started meanwhile run on these CPUs, and mavcg's libraries take all CPUs for `label`."""
    names = {"MAVCG_CPU_MAP": f"*={label}", "MAVCG_TRACE": "0"}  # a trace would count every call, at a cost
    allowed = os.sched_getaffinity(0)
    with with_variables(names):
        try:
            os.sched_setaffinity(0, cpus)
            yield
        finally:
            os.sched_setaffinity(0, allowed)


def machine_words(cpus: Sequence[int], root: Path = Path("/")) -> str:
    """The machine and its CPUs that ran, with clock and governor where the system tells: the conditions of a time."""
    model = _first_line(root / "proc/device-tree/model")
    if not model:
        lines = _text(root / "proc/cpuinfo").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    clock = root / f"sys/devices/system/cpu/cpu{cpus[0]}/cpufreq"
    khz, governor = _first_line(clock / "scaling_max_freq"), _first_line(clock / "scaling_governor")
    words = [model or platform.machine(), cpus_text(cpus)]
    words += [f"up to {int(khz) // 1000} MHz"] if khz.isdigit() else []
    words += [f"governor {governor}"] if governor else []
    return " ".join(words)


def _first_line(path: Path) -> str:
    return next(iter(_text(path).splitlines()), "").strip("\0 ")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
