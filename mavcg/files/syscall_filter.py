"""Refuse system calls that open sockets, by Linux's seccomp: a filter that this process and all below it keep.

Source: Linux, Documentation/userspace-api/seccomp_filter.rst; numbers of calls: asm/unistd.h and unistd_32.h.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from dataclasses import dataclass

from mavcg.files.landlock import forbid_new_rights

_SET_SECCOMP, _FILTER = 22, 2  # prctl
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
# Classic BPF: load a word, jump if equal, mask, return. Offsets are those of struct seccomp_data.
_LOAD, _IF_EQUAL, _AND, _RETURN = 0x20, 0x15, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _SECOND_ARGUMENT = 0, 4, 24
_X32 = 0x40000000  # bit of a call's number on x86-64, for the same call with short pointers
_TYPE_INTO_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: a command would be typed for the user's shell


@dataclass(frozen=True)
class _Calls:
    """Numbers of an architecture's calls. audit: AUDIT_ARCH_*; sockets: socket, and socketcall where there is one."""

    audit: int
    sockets: tuple[int, ...]
    ioctl: int
    io_uring: int = 425  # a ring would open sockets without the calls

    def filter(self) -> list[tuple[int, int, int, int]]:
        """Return the filter's part after the architecture is known, in which each way ends."""
        refused = [_equal(number, _error(errno.EACCES)) for number in self.sockets]
        refused.append(_equal(self.io_uring, _error(errno.ENOSYS)))
        terminal = [_equal(command, _error(errno.EPERM)) for command in _TYPE_INTO_TERMINAL]
        steps = [(_LOAD, 0, 0, _NUMBER), (_AND, 0, 0, 0xFFFFFFFF ^ _X32), *sum(refused, [])]
        steps += [(_IF_EQUAL, 1, 0, self.ioctl), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _SECOND_ARGUMENT)]
        return [*steps, *sum(terminal, []), (_RETURN, 0, 0, _ALLOW)]


# A processor's own calls, and those of the 32-bit programs that it runs.
_ARCHITECTURES = {
    "x86_64": (_Calls(0xC000003E, (41,), 16), _Calls(0x40000003, (359, 102), 54)),
    "aarch64": (_Calls(0xC00000B7, (198,), 29), _Calls(0x40000028, (281, 102), 54)),
}


def knows_filters() -> bool:
    """Return True if this kernel takes filters, and the numbers of its calls are known."""
    return (
        sys.platform.startswith("linux")
        and platform.machine() in _ARCHITECTURES
        and os.path.exists("/proc/sys/kernel/seccomp")
    )


def refuse_sockets() -> bool:
    """Refuse to this thread and all that it starts new sockets of any kind, except pairs, which reach nobody else.

    Returns: False if the kernel has no filters; then nothing is refused. Raises: OSError if the kernel refuses it.
    """
    if not knows_filters():
        return False
    steps = _program()
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("H6xP", len(steps), ctypes.addressof(buffer))
    forbid_new_rights()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_SECCOMP, _FILTER, ctypes.create_string_buffer(program, len(program)), 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "seccomp")
    return True


def _program() -> list[tuple[int, int, int, int]]:
    """Return the whole filter. A call by a third architecture's numbers is refused."""
    steps = [(_LOAD, 0, 0, _ARCHITECTURE)]
    for calls in _ARCHITECTURES[platform.machine()]:
        part = calls.filter()
        steps += [(_IF_EQUAL, 0, len(part), calls.audit), *part]
    return [*steps, (_RETURN, 0, 0, _error(errno.EPERM))]


def _equal(value: int, answer: int) -> list[tuple[int, int, int, int]]:
    """Return the steps that answer if the loaded word has this value."""
    return [(_IF_EQUAL, 0, 1, value), (_RETURN, 0, 0, answer)]


def _error(number: int) -> int:
    return _ERRNO | number
