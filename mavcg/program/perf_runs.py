"""Runs a program under perf on chosen CPUs, with its library set to a version, on this machine or another."""

import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from mavcg.errors import MavcgError, ToolError
from mavcg.files.scratch import scratch_folder
from mavcg.hardware.cpu_list import cpus_text
from mavcg.program.profiling.record import Recording, RecordOptions, check_program, record
from mavcg.runtime.binding import DetectedCpu

# Environment variable for a program and its build: path of the current library, empty if there is none yet.
LIBRARY_VARIABLE = "MAVCG_LIBRARY"


@dataclass(frozen=True)
class CpuGroup:
    """CPUs of a machine that have the same core type."""

    core: str
    cpus: tuple[int, ...]


class PerfRuns(Protocol):
    """A machine on which programs run under perf."""

    def check(self, command: Sequence[str]) -> None:
        """Raise MavcgError for a command that cannot be run or sampled on the machine."""

    def record(
        self, command: Sequence[str], options: RecordOptions, cpus: Sequence[int] = (), label: str = ""
    ) -> Recording:
        """Run a command to its end and return its samples.

        Args:
            cpus: numbers of the CPUs that it may run on; () for all.
            label: the version that mavcg's libraries use on all CPUs; "" for the version of each CPU's core type.
        Raises: MavcgError.
        """

    def using(self, folder: Path, library: Path | None) -> "PerfRuns":
        """Return the machine for a program in this folder that uses this library."""

    def describe(self, cpus: Sequence[int]) -> str:
        """Describe the machine and CPUs, as the conditions of a measurement."""


@dataclass(frozen=True)
class RunsHere:
    """This machine, as PerfRuns.

    Args:
        recorder: "perf", or "callgrind", which counts instructions.
        folder: the folder that programs run in; None for the current one.
        library: the library that programs use; its path and folder go into their environment.
    """

    recorder: str = "perf"
    folder: Path | None = None
    library: Path | None = None

    def check(self, command: Sequence[str]) -> None:
        """Check a command, as PerfRuns.check. Raises: ToolError if perf is missing; as check_program."""
        with chdir(self.folder or Path()):
            check_program(command)
        if self.recorder == "perf" and shutil.which("perf") is None:
            raise ToolError(
                "perf: is not installed, and measuring gains needs it; install it (Debian: apt install linux-perf)"
            )

    def record(
        self, command: Sequence[str], options: RecordOptions, cpus: Sequence[int] = (), label: str = ""
    ) -> Recording:
        """Run a command under the recorder, as PerfRuns.record."""
        with with_variables(library_variables(self.library)), chdir(self.folder or Path()):
            if not label:
                return record(command, self.recorder, options)
            with pin_as(cpus, label):
                return record(command, self.recorder, options)

    def using(self, folder: Path, library: Path | None) -> "RunsHere":
        """Return this machine for another program, as PerfRuns.using."""
        return replace(self, folder=folder.absolute(), library=library.absolute() if library else None)

    def describe(self, cpus: Sequence[int]) -> str:
        """Describe this machine, as PerfRuns.describe."""
        return describe_machine(cpus)


def library_variables(library: Path | None) -> dict[str, str]:
    """Return the environment variables for a library: its path, "" for none, and its folder for the loader."""
    if library is None:
        return {LIBRARY_VARIABLE: ""}
    inherited = os.environ.get("LD_LIBRARY_PATH", "")
    path = f"{library.parent}{os.pathsep}{inherited}" if inherited else str(library.parent)
    return {LIBRARY_VARIABLE: str(library), "LD_LIBRARY_PATH": path}


@contextmanager
def with_variables(names: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for child processes started within the context."""
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def this_machine() -> list[DetectedCpu]:
    """Return the CPUs of this machine as a library detects them, or as MAVCG_CPU_MAP defines them.

    Raises: MavcgError for an unsupported architecture or an invalid MAVCG_CPU_MAP.
    """
    from mavcg.profiles.load import load_cores
    from mavcg.runtime.binding import detect
    from mavcg.toolchain.target import ARCHES, host_target

    arch = host_target().arch
    if arch not in ARCHES:
        raise MavcgError(f"mavcg measure: this machine is {arch}; versions are made for {' and '.join(ARCHES)} only")
    cores = [core for core in load_cores().values() if core.arch == arch]
    return detect(Path("/"), cores, os.environ.get("MAVCG_CPU_MAP"))


@contextmanager
def pin_as(cpus: Sequence[int], label: str) -> Iterator[None]:
    """Within the context, pin new child processes to these CPUs and make mavcg's libraries use version `label`."""
    names = {"MAVCG_CPU_MAP": f"*={label}", "MAVCG_TRACE": "0"}  # a trace counts every call, which takes time
    allowed = os.sched_getaffinity(0)
    with with_variables(names):
        try:
            os.sched_setaffinity(0, cpus)
            yield
        finally:
            os.sched_setaffinity(0, allowed)


@contextmanager
def preloaded_settings() -> Iterator[None]:
    """Within the context, programs load libmavcg_rt.so, which has the settings that small selectors lack.

    Raises: MavcgError if it cannot be built.
    """
    from mavcg.runtime.shared import build_shared_runtime
    from mavcg.toolchain.target import host_target

    with scratch_folder("mavcg-rt-") as folder:
        libraries = f"{build_shared_runtime(host_target(), folder)} {os.environ.get('LD_PRELOAD', '')}"
        with with_variables({"LD_PRELOAD": libraries.rstrip()}):
            yield


def describe_machine(cpus: Sequence[int], root: Path = Path("/")) -> str:
    """Describe the machine and the CPUs used, with clock and governor if the system has these."""
    model = _first_line(root / "proc/device-tree/model")
    if not model:
        lines = _text(root / "proc/cpuinfo").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    clock = root / f"sys/devices/system/cpu/cpu{cpus[0]}/cpufreq"
    khz, governor = _first_line(clock / "scaling_max_freq"), _first_line(clock / "scaling_governor")
    parts = [model or platform.machine(), cpus_text(cpus)]
    parts += [f"up to {int(khz) // 1000} MHz"] if khz.isdigit() else []
    parts += [f"governor {governor}"] if governor else []
    return " ".join(parts)


def _first_line(path: Path) -> str:
    return next(iter(_text(path).splitlines()), "").strip("\0 ")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
