"""Runs the commands that a mavcg.toml names: builds of a program, in the file's folder."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from mavcg.child_python import commands_folder
from mavcg.errors import MavcgError

PROFILING = "MAVCG_PROFILING"  # tells `mavcg launch` that a build is for `mavcg profile`: there may be no profile yet


def run_command(
    words: Sequence[str],
    folder: Path,
    place: str,
    stdout: int | None = None,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Run a command to its end, its output passed through.

    place: what names the command, for errors: "mavcg.toml: profile.build". stdout: a file descriptor, None for ours.
    variables: added to the environment.
    Raises: MavcgError when it cannot be started or fails.
    """
    shown = f"{place} = {shlex.join(words)}"
    try:
        done = subprocess.run(words, cwd=folder, stdout=stdout, env=with_mavcg({**os.environ, **(variables or {})}))
    except OSError as error:
        raise MavcgError(f"{shown}: cannot be run in {folder} ({error.strerror}); correct it") from error
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        raise MavcgError(f"{shown}: ended with {how}; see what it says above, and mend it")


def with_mavcg(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables, with a PATH on which this installation's `mavcg` is: builds name it as their compiler launcher."""
    path = variables.get("PATH", os.defpath)
    own = commands_folder()
    if shutil.which("mavcg", path=path) is None and (own / "mavcg").is_file():
        path = f"{path}{os.pathsep}{own}"
    return {**variables, "PATH": path}
