"""Runs a program's own build for `mavcg build`; its compilers run under `mavcg launch` and read the same mavcg.toml."""

from dataclasses import dataclass
from pathlib import Path

from mavcg.files.scratch import scratch_folder
from mavcg.program.buildfile import BuildFile, ProjectFile
from mavcg.program.launch_log import VARIABLE, LaunchedObject, read_log
from mavcg.program.launching import hot_of
from mavcg.program.project_commands import run_command
from mavcg.program.request import settings


@dataclass(frozen=True)
class LaunchedBuild:
    """A build command that runs under `mavcg launch`.

    Args:
        command: the build's command line.
        folder: the folder that the command runs in.
        config: the mavcg.toml that the launcher reads.
        location: the key that names the command, for error messages.
    """

    command: tuple[str, ...]
    folder: Path
    config: Path
    location: str


def make_launched_build(build: BuildFile, project: ProjectFile) -> LaunchedBuild:
    """Check the settings for the launcher before the build, which may take minutes, and return the build.

    Raises: MavcgError for settings that cannot be used, and for a profile that cannot be read.
    """
    settings(build, project.folder)
    hot_of(build, project.folder)
    return LaunchedBuild(build.command, project.folder, project.path.absolute(), f"{project.path}: build.command")


def run_launched_build(build: LaunchedBuild, stdout: int | None = None) -> tuple[LaunchedObject, ...]:
    """Run the build; return an entry for each object with versions.

    Args:
        stdout: a file descriptor for the build's output; None for this process's stdout.
    Raises: MavcgError when the build fails.
    """
    with scratch_folder("mavcg-launch-") as folder:
        log = folder / "launched.log"
        log.touch()
        run_command(
            build.command, build.folder, build.location, stdout, {VARIABLE: str(log), "MAVCG_CONFIG": str(build.config)}
        )
        return read_log(log)
