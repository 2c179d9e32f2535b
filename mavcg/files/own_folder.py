"""Folders that only this user can write to: what is read from them becomes code, or decides which code is made."""

import os
import stat
from pathlib import Path

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
