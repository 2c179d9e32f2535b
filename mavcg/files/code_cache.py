"""Keep compiled helpers in a folder of this user, and load only those that are unchanged since they were written.

A library that is loaded from there runs with all rights of this user. So three things are checked: nobody else can
write to the folder, only this user can access the file, and its contents have the digest that its name contains.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from mavcg.files.own_file import read_own_file
from mavcg.files.scratch import scratch_folder

_DIGITS = 32  # of a SHA-256, in names


def cache_folder() -> Path:
    """Return the folder of compiled helpers: $XDG_CACHE_HOME/mavcg, or ~/.cache/mavcg.

    Source: XDG Base Directory Specification.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "mavcg"


def cached_file(folder: Path, name: str, make: Callable[[Path], object]) -> Path:
    """Return the path of a library or object that an earlier process left in this folder, or that `make` now writes.

    folder: a folder of this user. name: identifies the file's inputs, and has its suffix; the file is <stem>-<digest of
    its contents><suffix>. make: writes the file to a path. A file of that name with another owner, mode or contents is
    removed and made again.
    """
    stem, suffix = os.path.splitext(name)
    for path in sorted(folder.glob(f"{stem}-*{suffix}")):
        if _is_as_written(path):
            return path
        with contextlib.suppress(OSError):  # a folder, for example: its name is not the one that is written
            path.unlink()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with scratch_folder(".mavcg-kept-", folder) as scratch:
        made = Path(scratch) / name
        make(made)
        made.chmod(0o700)  # whatever the umask is
        path = folder / f"{stem}-{_digest(made.read_bytes())}{suffix}"
        os.replace(made, path)
    return path


def _is_as_written(path: Path) -> bool:
    """Return True if only this user can access the file, and its contents have the digest in its name."""
    match = re.search(r"-([0-9a-f]+)\.(?:so|o)$", path.name)
    content = read_own_file(path)
    return match is not None and content is not None and match[1] == _digest(content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
