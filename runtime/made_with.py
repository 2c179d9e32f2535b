"""List the tools and sources that a library is made with; its note keeps them for a bill of materials."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from mavcg import __version__
from mavcg.runtime.amalgamation import SOURCES, unit_files
from mavcg.toolchain.zig import package_version

TOOLS = ("llvmlite", "ziglang")


def made_with(model: Path | None = None, selector: bool = True, application: bool = False) -> dict[str, Any]:
    """Return the note's "made_with": versions of mavcg and its tools, and digests of the C sources that are linked in.

    model: file of the model, whose name and digest are listed. selector: True if the selector is in the library, not in
    libmavcg_rt.so. application: True if the memory of several networks is. The result names no machine and no time.
    """
    facts: dict[str, Any] = {
        "mavcg": __version__,
        "tools": {name: package_version(name) for name in TOOLS},
        "sources": {"selector": sources_digest(selector_sources())} if selector else {},
    }
    if application:
        facts["sources"]["application"] = sources_digest(application_sources())
    if model is not None:
        facts["sources"]["engine"] = sources_digest(engine_sources())
        facts["model"] = {"name": model.name, "sha256": file_digest(model)}
    return facts


def selector_sources() -> list[Path]:
    """Return the C files of the selector."""
    return [SOURCES / name for name in unit_files("runtime")]


def engine_sources() -> list[Path]:
    """Return the C files of the model engine that are not files of the selector."""
    return [SOURCES / name for name in unit_files("engine") if name not in unit_files("runtime")]


def application_sources() -> list[Path]:
    """Return the C files for an application's memory."""
    return [SOURCES / name for name in unit_files("application")]


@cache
def _digest(path: Path) -> str:
    return file_digest(path)


def sources_digest(paths: list[Path]) -> str:
    """Return the SHA-256 of the lines "<sha256 of a file>  <its name>", as `sha256sum` prints them, ordered by name."""
    lines = "".join(f"{_digest(path)}  {path.name}\n" for path in paths)
    return hashlib.sha256(lines.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal. Raises: OSError if it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
