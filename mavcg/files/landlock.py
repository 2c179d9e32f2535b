"""Restrict where a process may write, by Linux's Landlock: no rights are needed for it, and nothing lifts it again.

Source: Linux, Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h.
"""

import contextlib
import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

# The numbers are the same on all processors: system calls since Linux 5.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1  # a flag of the first call, a type of the second
# LANDLOCK_ACCESS_FS_*. Reading and executing are not restricted.
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_MAKE_AND_REMOVE = sum(1 << bit for bit in range(4, 13))
_REFER = 1 << 13  # rename and link between folders
_CONNECT_TCP = 0b11  # LANDLOCK_ACCESS_NET_BIND_TCP, LANDLOCK_ACCESS_NET_CONNECT_TCP
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11  # LANDLOCK_SCOPE_*: to processes outside
_SINCE_REFER, _SINCE_TRUNCATE, _SINCE_TCP, _SINCE_SCOPES = 2, 3, 4, 6
_SET_NO_NEW_PRIVS = 38  # prctl


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # what a packed structure had always; Python 3.14 wants it said
    _fields_ = [("access", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def landlock_version() -> int:
    """Return the version of the kernel's Landlock; 0 without it, or with one that forbids renames between folders."""
    if not sys.platform.startswith("linux"):
        return 0
    version = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return version if version >= _SINCE_REFER else 0


def restrict_writing(writable: Iterable[Path], network: bool) -> bool:
    """Allow this thread and all that it starts to write only in and below these folders, and to these files.

    Args:
        writable: folders, files and devices; those that do not exist are left out.
        network: False to refuse TCP too, where the kernel can.
    Returns: False if the kernel has no Landlock; then nothing is restricted.
    Raises: OSError if the kernel refuses the rules.
    """
    version = landlock_version()
    if not version:
        return False
    files = _WRITE_FILE | _MAKE_AND_REMOVE | _REFER | (_TRUNCATE if version >= _SINCE_TRUNCATE else 0)
    rules = _Ruleset(
        files,
        _CONNECT_TCP if version >= _SINCE_TCP and not network else 0,
        _ABSTRACT_SOCKETS_AND_SIGNALS if version >= _SINCE_SCOPES and not network else 0,
    )
    ruleset = _check(_libc().syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(_size(version)), 0))
    try:
        for path in writable:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _add_rule(ruleset, path, files)
        forbid_new_rights()
        _check(_libc().syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return True


def forbid_new_rights() -> None:
    """Give up rights that programs would get by set-user-ID: the condition for Landlock and for filters of calls."""
    _check(_libc().prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _size(version: int) -> int:
    """Return the bytes of the ruleset that a version of the kernel knows."""
    return 24 if version >= _SINCE_SCOPES else 16 if version >= _SINCE_TCP else 8


def _add_rule(ruleset: int, path: Path, access: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        allowed = access if stat.S_ISDIR(os.fstat(handle).st_mode) else access & (_WRITE_FILE | _TRUNCATE)
        rule = _PathBeneath(allowed, handle)
        _check(_libc().syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(handle)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "landlock")
    return result
