"""Files and folders that only this user can write to: what is read from them becomes code, or decides which is made."""

import os
import stat
from pathlib import Path

from mavcg.files.whole_file import is_special, whole

WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def is_own_folder(folder: Path, make: bool = True) -> bool:
    """Return True if the folder belongs to this user and nobody else can write to it.

    make: make it if it does not exist.
    """
    try:
        if make:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid != os.geteuid():
            return False
        if status.st_mode & WRITABLE_BY_OTHERS:  # of an earlier version, by the umask
            folder.chmod(stat.S_IMODE(status.st_mode) & ~WRITABLE_BY_OTHERS)
    except OSError:
        return False
    return True


def is_own_file(path: Path) -> bool:
    """Return True if a path is a file of this user, no link, and nobody else can write to it."""
    try:
        return _is_own(path.lstat())
    except OSError:
        return False


def _is_own(status: os.stat_result) -> bool:
    own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return own and not status.st_mode & WRITABLE_BY_OTHERS


def read_own_file(path: Path) -> bytes | None:
    """Return the contents of a file of this user that nobody else can write to, and that is no link; else None."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            return file.read() if _is_own(os.fstat(file.fileno())) else None
    except OSError:
        return None


def write_own_file(path: Path, content: bytes) -> None:
    """Write a file that only this user can access, in place of any other, and of a link or a pipe.

    The link is not followed, and nobody waits for a reader of the pipe. Raises: OSError if it cannot be written.
    """
    if path.is_symlink() or is_special(path):
        path.unlink()
    with whole(path, durable=False) as made:
        made.write_bytes(content)
        made.chmod(0o600)  # whatever the umask is: one that others can write to is not read again
