"""Runs commands of a mavcg.toml, such as a program's build, in the file's folder."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.child_python import commands_folder

PROFILING = "MAVCG_PROFILING"  # set for `mavcg launch` in builds for `mavcg profile`: there may be no profile yet


def run_command(
    command: Sequence[str],
    folder: Path,
    location: str,
    stdout: int | None = None,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Run a command to its end, with its output passed through.

    Args:
        command: the command line.
        location: file and key of the command, for errors: "mavcg.toml: profile.build".
        stdout: a file descriptor for its output; None for this process's stdout.
        variables: environment variables to add.
    Raises: MavcgError if it cannot be started or fails.
    """
    shown = f"{location} = {shlex.join(command)}"
    try:
        done = subprocess.run(command, cwd=folder, stdout=stdout, env=with_mavcg({**os.environ, **(variables or {})}))
    except OSError as error:
        raise MavcgError(f"{shown}: cannot be run in {folder} ({error.strerror}); correct it") from error
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        raise MavcgError(f"{shown}: ended with {how}; see its output above and correct it")


def with_mavcg(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with a PATH that includes this installation's `mavcg`, the compiler launcher of builds."""
    path = variables.get("PATH", os.defpath)
    own = commands_folder()
    if shutil.which("mavcg", path=path) is None and (own / "mavcg").is_file():
        path = f"{path}{os.pathsep}{own}"
    return {**variables, "PATH": path}
