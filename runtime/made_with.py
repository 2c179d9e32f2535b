"""Says with which tools and sources a library is made: what its note keeps for a bill of materials."""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mavcg import __version__
from mavcg.runtime.build import SOURCES

TOOLS = ("llvmlite", "ziglang")
# Not in a library of its own selector: for the desk, of kernels, and of the selector that libraries share.
_ELSEWHERE = ("detect.c", "detect_api.h", "kernel_api.h", "mavcg_rt.h", "shared_selector.c", "shared_set.c")


def made_with(model: Path | None = None, selector: bool = True) -> dict[str, Any]:
    """The note's "made_with": mavcg's version and its tools', digests of the C sources that are linked in.

    model: the file that a model library was made of; it is named and hashed. No machine and no time is in it.
    selector: whether the run-time selector is in the library, rather than in libmavcg_rt.so.
    """
    found: dict[str, Any] = {
        "mavcg": __version__,
        "tools": {name: _version(name) for name in TOOLS},
        "sources": {"selector": sources_digest(selector_sources())} if selector else {},
    }
    if model is not None:
        found["sources"]["engine"] = sources_digest(engine_sources())
        found["model"] = {"name": model.name, "sha256": file_digest(model)}
    return found


def selector_sources() -> list[Path]:
    """The C files of the run-time selector."""
    return sorted(p for p in SOURCES.iterdir() if not p.name.startswith("engine") and p.name not in _ELSEWHERE)


def engine_sources() -> list[Path]:
    """The C files of the model engine."""
    return sorted(SOURCES.glob("engine*"))


@cache
def _digest(path: Path) -> str:
    return file_digest(path)


def sources_digest(paths: list[Path]) -> str:
    """SHA-256 of the lines "<sha256 of a file>  <its name>", as `sha256sum` prints them, in the order of names."""
    lines = "".join(f"{_digest(path)}  {path.name}\n" for path in paths)
    return hashlib.sha256(lines.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal. Raises: OSError where it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
