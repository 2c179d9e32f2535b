"""A program's own build, run by `mavcg build`: its compilers run under `mavcg launch` and read the same mavcg.toml."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.program_road.buildfile import BuildFile, ProjectFile
from mavcg.program_road.commands import run_command
from mavcg.program_road.launch_log import VARIABLE, read_log
from mavcg.program_road.launching import hot_of
from mavcg.program_road.request import settings
from mavcg.scratch import scratch_folder


@dataclass(frozen=True)
class LaunchedBuild:
    """command: the build. folder: where it runs. config: the mavcg.toml that the launcher reads. place: for errors."""

    command: tuple[str, ...]
    folder: Path
    config: Path
    place: str


def make_launched_build(build: BuildFile, project: ProjectFile) -> LaunchedBuild:
    """Check what the launcher will read, before a build of minutes starts.

    Raises: MavcgError for settings that cannot be used and for a profile that cannot be read.
    """
    settings(build, project.folder)
    hot_of(build, project.folder)
    return LaunchedBuild(build.command, project.folder, project.path.absolute(), f"{project.path}: build.command")


def run_launched_build(build: LaunchedBuild, stdout: int | None = None) -> tuple[dict[str, Any], ...]:
    """Run the build; the objects that got versions, each {"object": path, "functions": names}.

    stdout: a file descriptor for what the build prints, None for ours. Raises: MavcgError when the build fails.
    """
    with scratch_folder("mavcg-launch-") as folder:
        log = folder / "launched.log"
        log.touch()
        run_command(
            build.command, build.folder, build.place, stdout, {VARIABLE: str(log), "MAVCG_CONFIG": str(build.config)}
        )
        return read_log(log)
