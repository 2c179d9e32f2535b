"""Hands a command of `mavcg launch` to the resident process that an earlier command left (launch_server.py).

That process has imported what a file with hot functions needs, which takes longer than many files take to compile. It
is this user's, and in the same circumstances: namespaces, limits, groups, masks and the variables that Python and the
C library read as they start. All of them are in the name of its socket, so that a command elsewhere finds none. The
program of `mavcg launch --program` does the same (csrc/launch_door.h).
"""

import os
import sys

from mavcg.program.cold_launch import cache_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

VARIABLE = "MAVCG_LAUNCH_SERVER"
OFF = ("off", "0", "no")
FOLDER = "server"
MAGIC = b"mavcg launch 1\n\n"
# Lines of /proc/self/status (proc_pid_status(5)), links in /proc/self/ns (namespaces(7)), and the beginnings of names
# of variables, in which a command and the resident process must agree.
STATUS = (
    *("Umask:", "Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:"),
    *("Seccomp:", "Seccomp_filters:", "Cpus_allowed:", "Mems_allowed:"),
)
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
VARIABLES = ("GLIBC_", "LANG", "LC_", "LD_", "MALLOC_", "PYTHON")
FILES = ("/proc/self/limits", "/proc/self/cgroup")
NAME_DIGITS = 32
_PEER = 12  # bytes of a struct ucred: pid, uid, gid (unix(7), SO_PEERCRED)
DESCRIPTORS = 4  # that come with a command: of its folder and its standard streams


def identity() -> str:
    """Return what identifies this Python and this mavcg."""
    import mavcg

    return f"{os.path.realpath(sys.base_prefix)} {sys.prefix} {sys.hexversion:x} {os.path.realpath(mavcg.__file__)}"


def circumstances(who: str) -> bytes:
    """Return what a command and the resident process must have in common; none where the system does not say it.

    who: identity of mavcg.
    """
    try:
        with open("/proc/self/status", "rb") as file:
            lines = [line for line in file.read().splitlines() if line.startswith(tuple(map(os.fsencode, STATUS)))]
        parts = [os.fsencode(who), *lines]
        for path in FILES:
            with open(path, "rb") as file:
                parts.append(file.read())
        parts += [os.fsencode(os.readlink(f"/proc/self/ns/{name}")) for name in NAMESPACES]
        root = os.stat("/")
    except OSError:
        return b""
    nice, policy = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)
    parts.append(b"%d %d %d %d" % (nice, policy, root.st_dev, root.st_ino))
    begin = tuple(map(os.fsencode, VARIABLES))
    parts += sorted(b"%s=%s" % entry for entry in os.environb.items() if entry[0].startswith(begin))
    return b"\n".join(parts)


def socket_name(who: str) -> str:
    """Return the name of the socket for commands in these circumstances; "" if there is none."""
    common = b"" if os.environ.get(VARIABLE, "").lower() in OFF or not cache_root() else circumstances(who)
    if not common:
        return ""
    import hashlib

    return hashlib.sha256(common).hexdigest()[:NAME_DIGITS]


def folder_path() -> str:
    """Return the folder of sockets, in the user's cache."""
    return os.path.join(cache_root(), FOLDER)


def peer_of(connection: "socket.socket") -> tuple[int, int]:
    """Return process and user of the other end of a connection. Raises: OSError."""
    import socket
    import struct

    process, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER))
    return process, user


def connect(name: str) -> "socket.socket | str":
    """Return a connection to the resident process; "" if there is none, or why it is not used."""
    import socket
    import stat

    try:
        folder = os.open(folder_path(), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        status, of_socket = os.fstat(folder), os.stat(name, dir_fd=folder, follow_symlinks=False)
        if {status.st_uid, of_socket.st_uid} != {os.geteuid()} or status.st_mode & 0o077:
            return f"{folder_path()}: others can enter it, or it is another user's; remove it"
        if not stat.S_ISSOCK(of_socket.st_mode):
            return f"{folder_path()}/{name}: is not a socket; remove it"
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            connection.connect(f"/proc/self/fd/{folder}/{name}")  # a path of any length
            if peer_of(connection)[1] == os.geteuid():
                return connection
        except ConnectionRefusedError:  # it was killed
            connection.close()
            return "is there no more"
        except OSError:
            connection.close()
            raise
        connection.close()
        return f"{folder_path()}/{name}: another user listens there; remove it"
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or "cannot be reached"
    finally:
        os.close(folder)


def hand_over(words: "Sequence[str]") -> int | None:
    """Have the resident process run `mavcg launch` with these words; return the exit status.

    Returns: None if there is no such process, or it does not come to an end; a line on stderr then says why.
    """
    name = socket_name(identity())
    connection = connect(name) if name else ""
    if isinstance(connection, str):
        if connection:
            _tell_unused(connection)
        return None
    import socket

    entries = [b"%s=%s" % entry for entry in os.environb.items()]
    content = b"".join(b"%s\0" % part for part in (b"%d" % len(words), *map(os.fsencode, words), *entries))
    with connection:
        try:
            here = os.open(".", os.O_PATH | os.O_CLOEXEC)
            try:
                socket.send_fds(connection, [MAGIC + len(content).to_bytes(8, "little")], [here, 0, 1, 2])
            finally:
                os.close(here)
            connection.sendall(content)
            answer = connection.recv(2)
        except OSError as error:
            _tell_unused(error.strerror or "cannot be reached")
            return None
    if answer[:1] == b"d" and len(answer) == 2:
        return answer[1]
    _tell_unused("mavcg has changed since it started" if answer[:1] == b"s" else "it did not come to an end")
    return None


def _tell_unused(why: str) -> None:
    from mavcg.text.terminal import say

    say(f"launch: the resident process is not used: {why}; this command does its own work")
