"""Confine this process and all that it starts: it writes only into named folders, and opens no connection.

The command line does so before it reads a file that others may have made (mavcg/cli/confinement.py). A program that
uses mavcg as a library is confined only if it calls `mavcg.sandbox` itself.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.landlock import landlock_version, restrict_writing
from mavcg.files.store import cache_root, code_folder
from mavcg.files.syscall_filter import knows_filters, refuse_sockets

DEVICES = tuple(Path("/dev", name) for name in ("null", "zero", "full", "tty", "random", "urandom"))
_confinements: list["Confinement"] = []  # of this process; each one narrows those before


@dataclass(frozen=True)
class Confinement:
    """A record of what a confined process may still do.

    Args:
        writable: the folders, files and devices that it may write to.
        files: True if the kernel sees to it; otherwise it may write where its user may.
        network: True if it may open connections: they were allowed, or the kernel cannot refuse them.
    """

    writable: tuple[Path, ...]
    files: bool
    network: bool


def sandbox(writable: Iterable[Path | str] = (), network: bool = False, require: bool = True) -> Confinement:
    """Confine this process, for the rest of its life, before it reads files that are not trusted.

    It may then write in and below the folders `writable`, the temporary folder, mavcg's caches and those of its
    compilers, and may open no socket but pairs. Programs that it starts are confined alike. Reading is not restricted.

    Args:
        writable: folders, or files and devices, that exist.
        network: True to leave connections as they are.
        require: True to raise an error where the kernel has not all of it; otherwise what there is counts.
    Returns: what is restricted.
    Raises: MavcgError if the kernel lacks Landlock or filters of calls, or refuses them, or if this process has
        further threads, which would not be confined. Then nothing, or only a part, is restricted.
    """
    if require and (missing := missing_parts(network)):
        raise MavcgError(f"sandbox: this system has no {' and no '.join(missing)}; require=False does without")
    if (threads := _threads()) > 1:
        raise MavcgError(f"sandbox: this process has {threads} threads already; confine it before it starts the second")
    places = tuple(Path(path) for path in (*writable, tempfile.gettempdir(), *_cache_folders(), *DEVICES))
    try:
        files = restrict_writing(places, network)
        refused = not network and refuse_sockets()
    except OSError as error:
        raise MavcgError(f"sandbox: the kernel refuses it ({error}); MAVCG_SANDBOX=off does without") from error
    _confinements.append(Confinement(places, files, not refused))
    return _confinements[-1]


def missing_parts(network: bool = False) -> list[str]:
    """Return what this system lacks for a sandbox, in words; [] if it has all. network: as for `sandbox`."""
    lacking = [] if landlock_version() else ["Landlock (Linux 5.19 and later)"]
    return [*lacking, *([] if network or knows_filters() else ["filters of system calls (seccomp)"])]


def confinement() -> Confinement | None:
    """Return the last confinement of this process; None if it is not confined."""
    return _confinements[-1] if _confinements else None


def _cache_folders() -> list[Path]:
    """Return the folders of caches, which are made here: later the folder above them cannot be written to."""
    root = cache_root()
    folders = [code_folder(), code_folder().parent / "zig", *([root] if root else [])]
    if named := os.environ.get("ZIG_GLOBAL_CACHE_DIR"):
        folders.append(Path(named))
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folders


def _threads() -> int:
    """Return the number of this process's threads; 1 where it is not known."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1
