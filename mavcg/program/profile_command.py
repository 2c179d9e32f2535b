"""Profiles a command on this machine, with the settings of mavcg.toml or the command line."""

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError, ProfileError, ToolError
from mavcg.hardware.board import HOST, Board, Cluster
from mavcg.profiles.load import load_board, load_cores
from mavcg.program.buildfile import PROFILE_NAME, ProfileTable, ProjectFile
from mavcg.program.project_commands import PROFILING, run_command
from mavcg.runtime.binding import detect
from mavcg.toolchain.target import ARCHES, host_target

if TYPE_CHECKING:
    from mavcg.program.profiling.profile import Profile
    from mavcg.program.profiling.record import RecordOptions


@dataclass(frozen=True)
class ProfileRun:
    """A command to profile.

    Args:
        build: a command to run before it; () for none.
        folder: the folder that both run in.
        output: the file that the profile is written to.
        recorder: "perf" or "callgrind".
        frequency: samples per second; None for the recorder's default.
        event: perf's event; None for the recorder's default.
        board: the board that maps CPU numbers to core types; None for this machine.
        threshold: share of the run that makes a function hot, in percent; None for 5.
        location: path of the mavcg.toml that names the command; "" for the command line.
    """

    command: tuple[str, ...]
    build: tuple[str, ...] = ()
    folder: Path = Path()
    output: Path = Path(PROFILE_NAME)
    recorder: str = "perf"
    frequency: int | None = None
    event: str | None = None
    board: str | None = None
    threshold: float | None = None
    location: str = ""


@dataclass(frozen=True)
class RecordedProfile:
    """A recorded profile.

    Args:
        exit_status: exit status of the command, or minus the signal's number.
        notes: messages about the recording.
    """

    profile: "Profile"
    exit_status: int
    notes: tuple[str, ...] = ()


def project_run(project: ProjectFile) -> ProfileRun:
    """Return the profiling settings of a mavcg.toml; the command may be empty.

    Raises: MavcgError with file and key for an invalid value.
    """
    table = project.profile or ProfileTable()
    if table.frequency is not None and table.frequency < 1:
        raise MavcgError(f"{project.path}: profile.frequency = {table.frequency}: give 1 or more samples a second")
    if table.board not in (None, HOST):
        try:
            load_board(str(table.board))
        except MavcgError as error:
            raise type(error)(f"{project.path}: profile.board {str(error).removeprefix('--board ')}") from error
    return ProfileRun(
        table.command,
        table.build,
        project.folder,
        project.folder / project.profile_name,
        table.recorder or "perf",
        table.frequency,
        table.event,
        table.board,
        project.build.threshold if project.build else None,
        str(project.path),
    )


def nothing_to_profile(project: ProjectFile) -> str:
    """Return the reason why a mavcg.toml without a command to profile needs none.

    Raises: MavcgError if its build needs a profile.
    """
    build = project.build
    if build and build.hot:
        return f"{project.path}: nothing to profile: build.hot names the functions; `mavcg build` versions them"
    if build and build.profile:
        return f"{project.path}: nothing to profile: build.profile is made elsewhere; `mavcg build` reads it"
    has_program = build and (build.sources or build.ir or build.compile_commands or build.command)
    if project.models and not has_program:
        return f"{project.path}: nothing to profile: it names models only; `mavcg build` builds them"
    raise MavcgError(
        f'{project.path}: profile.command is missing; add [profile] with command = ["./app", "argument"], or give a '
        "command after --, as in mavcg profile -- ./app args"
    )


def refuse_other_file(path: Path) -> None:
    """Raise MavcgError if a file that would be replaced is not a profile of mavcg's."""
    from mavcg.program.profiling.profile_file import FORMAT

    if not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(4096)
    if head.strip() and FORMAT.encode() not in head:
        raise MavcgError(
            f"{path}: is not a profile that `mavcg profile` wrote, and would be replaced; name another file by "
            "profile.output or -o"
        )


def profile_command(
    run: ProfileRun,
    options: "RecordOptions",
    binaries: Sequence[Path] = (),
    say: Callable[[str], None] = lambda message: None,
) -> RecordedProfile:
    """Run the build of a ProfileRun, then its command under the recorder.

    Args:
        options: of the recording; frequency and event are taken from the run.
        binaries: files to search for the linkage names of C++ functions.
        say: called with a message for each step.
    Raises: MavcgError if the build fails, the command is missing, or the recorder is missing or may not run.
    """
    from mavcg.program.profiling.profile import profile_of
    from mavcg.program.profiling.record import RECORDERS, describe_exit, record
    from mavcg.program.profiling.symbols import with_linkage_names

    if run.recorder not in RECORDERS:
        key = f"{run.location}: profile.recorder" if run.location else "--with"
        raise MavcgError(f"{key} {run.recorder}: not a recorder; give one of {', '.join(RECORDERS)}")
    if run.recorder == "callgrind" and (run.event or run.frequency or options.call_graph):
        raise MavcgError("--with callgrind: counts every instruction; leave out --event, --frequency, --call-graph")
    board = profiled_board(run.board)
    if run.build:
        say(f"building: {' '.join(run.build)}")
        run_command(run.build, run.folder, f"{run.location}: profile.build", options.program_stdout, {PROFILING: "1"})
    try:
        with contextlib.chdir(run.folder):
            recording = record(run.command, run.recorder, options)
    except ProfileError as error:
        raise (ProfileError(f"{run.location}: profile.command: {error}") if run.location else error) from error
    notes = []
    if recording.exit_status:
        notes.append(
            f"{run.command[0]} ended with {describe_exit(recording.exit_status)}; the profile is of the run up to "
            f"there: see that it did the work that matters"
        )
    if run.recorder == "callgrind":
        notes.append("counts are instructions, not time: a cache miss and a division cost as much as an addition here")
    elif board is None:
        board, why_not = _this_machine()
        notes += [why_not] if why_not else []
    reading = with_linkage_names(recording.reading, binaries)
    return RecordedProfile(profile_of(reading, board, recording.reading.command), recording.exit_status, tuple(notes))


def profiled_board(name: str | None) -> Board | None:
    """Return a board by name; "host" is this machine with all its CPUs, unknown ones as generic; None for None.

    Raises: MavcgError for an unknown name; ToolError if this machine cannot be detected.
    """
    if name is None:
        return None
    return Board(HOST, "this machine", host_target().zig_name, _host_clusters()) if name == HOST else load_board(name)


def _this_machine() -> tuple[Board | None, str]:
    """Return this machine's CPU numbers by core type, None if all are alike; and why they are unknown, else ""."""
    if host_target().arch not in ARCHES:
        return None, ""
    try:
        clusters = _host_clusters()
    except ToolError as error:  # the detector is compiled on first use; a ranking without core types is still useful
        return None, f"core types of this machine are not known: {error}"
    return (Board("this machine", "as detected", host_target().zig_name, clusters) if len(clusters) > 1 else None), ""


def _host_clusters() -> tuple[Cluster, ...]:
    """Return the CPUs of this machine by core type, from MAVCG_CPU_MAP or as a built library detects them."""
    cores = [core for core in load_cores().values() if core.arch == host_target().arch]
    by_core: dict[str, list[int]] = {}
    for cpu in detect(Path("/"), cores, os.environ.get("MAVCG_CPU_MAP")):
        by_core.setdefault(cpu.core or "generic", []).append(cpu.cpu)
    return tuple(Cluster(core, tuple(cpus)) for core, cpus in by_core.items())
