"""Checks which compilers of a compile_commands.json may be run to query their target and header folders.

The file may come from an untrusted source, so that a compiler named in it is run only if it is a known one in a folder
of the system or of PATH, or one that the user allows, as by clangd's --query-driver.
"""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from mavcg.errors import MavcgError
from mavcg.program.sources.compile_commands import CompileUnit
from mavcg.program.sources.headers import is_zig

# gcc, aarch64-linux-gnu-g++-12, clang++-19, armv8a-linux-androideabi21-clang: [machine-]driver[-version].
_KNOWN = re.compile(r"(?:[A-Za-z0-9_]+(?:-[\w.]+){1,3}-)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(?:-\d+(?:\.\d+)*)?$")
_SYSTEM_FOLDERS = re.compile(r"(?:/usr(?:/local)?)?/bin$|/usr/lib(?:64)?/(?:ccache|llvm-[\d.]+/bin|llvm/[\d.]+/bin)$")


def checked_drivers(units: Sequence[CompileUnit], allowed: Sequence[str]) -> tuple[CompileUnit, ...]:
    """Return the units with the full paths of their compilers, all of which may be run; zig is never run.

    Args:
        allowed: globs of absolute paths, with `*` within a folder and `**` across folders.
    Raises: MavcgError with the first source whose compiler may not be run, and the reason.
    """
    return tuple(unit if is_zig(unit.compiler) else _check_driver(unit, allowed) for unit in units)


def _check_driver(unit: CompileUnit, allowed: Sequence[str]) -> CompileUnit:
    word = unit.compiler[0]
    path = str(unit.directory / word) if "/" in word else shutil.which(word)
    reason = ""
    if path is None:
        return unit  # not found: an error is raised where it is needed
    if not os.path.isabs(path):
        reason = f"{path} is found by a relative folder of PATH"
    elif any(_glob(glob).match(os.path.normpath(path)) for glob in allowed):
        pass
    elif not _KNOWN.match(PurePath(word).name):
        reason = f"{PurePath(word).name} is not the name of a known compiler"
    elif "/" in word and not _is_trusted_folder(path):
        reason = f"{os.path.dirname(path)} is not a folder of the system or of PATH"
    if reason:
        raise MavcgError(
            f"{unit.source}: its compile command names the compiler {word}, which is not run to query its headers: "
            f"{reason}; where it may be, give --query-driver '{os.path.abspath(path)}' (query_driver in mavcg.toml), "
            "or name a clang by --compiler"
        )
    return replace(unit, arguments=(path, *unit.arguments[1:]))


def _is_trusted_folder(path: str) -> bool:
    folder = os.path.realpath(os.path.dirname(path))
    on_path = {os.path.realpath(name) for name in os.environ.get("PATH", "").split(":") if os.path.isabs(name)}
    return bool(_SYSTEM_FOLDERS.match(folder)) or folder in on_path


def parse_query_drivers(globs: Sequence[str]) -> tuple[str, ...]:
    """Parse the globs of --query-driver, comma-separated lists. Raises: MavcgError for a path that is not absolute."""
    parsed = [glob.strip() for text in globs for glob in text.split(",")]
    for glob in parsed:
        if not Path(glob).is_absolute() and not glob.startswith("**"):
            raise MavcgError(f"--query-driver {glob!r}: is not an absolute path; give one, such as /opt/arm/bin/*-gcc")
    return tuple(parsed)


def _glob(text: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*|\?)", text)
    kinds = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(kinds.get(part, re.escape(part)) for part in parts) + r"\Z")
