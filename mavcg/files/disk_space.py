"""Add the file and the disk to errors about a full disk."""

import errno
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NEARLY_FULL = 1 << 20  # bytes; less is no room for what tools write


def with_room(error: OSError, path: Path, needed_bytes: int | None = None) -> str:
    """Return the reason of an error; for a full disk with the needed and the free bytes.

    No space left on device: 73400320 bytes are needed, 4096 are free in /mnt/build
    """
    words = error.strerror or str(error)
    if error.errno not in NO_ROOM:
        return words
    free = free_bytes(path.parent)
    parts = [f"{needed_bytes} bytes are needed"] if needed_bytes is not None else []
    if error.errno == errno.ENOSPC and free is not None:
        parts.append(f"{free} are free in {path.parent}" if parts else f"{free} bytes are free in {path.parent}")
    return f"{words}: {', '.join(parts)}" if parts else words


def free_bytes(folder: Path) -> int | None:
    """Return the bytes that the user may still write in a folder; None if the system does not report them."""
    try:
        disk = os.statvfs(folder)
    except (OSError, AttributeError):
        return None
    return disk.f_bavail * disk.f_frsize


def full_folders(folders: Iterable[Path] = ()) -> str:
    """Return a text about the full disks among these folders and those for current, temporary and cached files.

    It is "" if none is full.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    candidates = dict.fromkeys((*folders, Path.cwd(), Path(tempfile.gettempdir()), cache))
    full = [(folder, free) for folder in candidates if (free := free_bytes(folder)) is not None and free < _NEARLY_FULL]
    return ", ".join(f"{folder}: the disk is full ({free} bytes are free)" for folder, free in full)
