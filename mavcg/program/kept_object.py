"""Objects with versions in the user's cache, which `mavcg launch` uses again where it would make the same ones.

The build's compiler runs in any case, with its messages and dependency file; only versions are not made again. An entry
is found by the command, its folder, the mavcg.toml and the environment. It counts while each file that its object was
made from is as it was: sources and headers by their contents, whatever else by size, time and inode (mavcg.toml, the
profile, the compilers, mavcg's own code). So does ccache's direct mode, with the same limit: a header that appears in
an earlier folder of the search path is not seen (ccache's manual, "The direct mode").

The program of `mavcg launch --program` reads the entries too (csrc/kept_object.h); they are those of files/store.py.
"""

import os

from mavcg.program.cold_launch import (
    add_dependencies_of,
    cache_root,
    config_path,
    read_own,
    replace_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mavcg.program.cold_command import ColdCommand

HEAD = "mavcg kept object 1"
FOLDER = "launched"
MOST_BYTES = 300_000_000
# What compilers and mavcg read from the environment; and what makes them write or read more than an entry records.
ENVIRONMENT = (
    "PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "SOURCE_DATE_EPOCH",
)
NEVER_WITH = (
    "MAVCG_DUMP",
    "MAVCG_LAUNCH_LOG",
    "MAVCG_PROFILES",
    "MAVCG_HOST_FACTS",
    "CCACHE_DISABLE",
    "DEPENDENCIES_OUTPUT",
    "SUNPRO_DEPENDENCIES",
)
BOOT = "/proc/sys/kernel/random/boot_id"  # of this machine since its start: `board = "host"` names its cores
_DIGEST_BYTES = 32
# A source with one of these depends on more than the files that it includes.
_UNSEEN = (b"__DATE__", b"__TIME__", b"__TIMESTAMP__", b".incbin")


class KeptObject:
    """An object with versions, and the message about them, as it is shown."""

    def __init__(self, message: str, content: bytes) -> None:
        self.message = message
        self.content = content


def object_key(command: "Sequence[str]", compiled: "ColdCommand", config: str | None) -> str:
    """Return the key of the object that a command makes; "" if none is kept. config: as for is_cold."""
    path = config_path(compiled, config)
    if not path or not cache_root() or any(os.environ.get(name) for name in NEVER_WITH):
        return ""
    import hashlib

    values = [os.environ.get(name, "") for name in ENVIRONMENT]
    words = [HEAD, os.getcwd(), os.path.abspath(path), *values, *command]
    return hashlib.sha256(b"\0".join(map(os.fsencode, words))).hexdigest()


def find_object(key: str) -> KeptObject | None:
    """Return the object of a key, if all that it was made from is as it was."""
    if not key:
        return None
    import hashlib

    def digest(content: bytes) -> bytes:
        return hashlib.sha256(content).digest()

    path = os.path.join(cache_root(), FOLDER, digest(key.encode()).hex())
    try:
        stored = read_own(path)
        content = stored[_DIGEST_BYTES:]
        if not stored or digest(digest(key.encode()) + content) != stored[:_DIGEST_BYTES]:
            return None
        boot, message, count, content = content.split(b"\0", 3)
        *states, count, content = content.split(b"\0", int(count) + 1)
        *inputs, content = content.split(b"\0", int(count))
        if boot and boot != _read(BOOT).strip():
            return None
        for state in states:
            if state != state_of(state.split(b" ", 3)[3]):
                return None
        for row in inputs:
            expected, name = row.split(b" ", 1)
            if digest(_read(name)).hex().encode() != expected:
                return None
        os.utime(path)
    except (OSError, ValueError, IndexError):
        return None
    return KeptObject(os.fsdecode(message), content)


def put_object(kept: KeptObject, compiled: "ColdCommand", config: str | None) -> bool:
    """Put an object in place of the compiler's, and complete the dependency file; return False on failure."""
    output = os.path.realpath(compiled.output)
    try:
        if not add_dependencies_of(compiled, config):
            return False
        replace_file(output, kept.content, os.stat(output).st_mode & 0o777)
    except OSError:
        return False
    return True


def state_of(path: bytes) -> bytes:
    """Return what identifies a file's contents without reading it. Raises: OSError."""
    status = os.stat(path)
    return b"%d %d %d %s" % (status.st_mtime_ns, status.st_size, status.st_ino, path)


def keep_object(
    key: str, output: str, message: str, inputs: "Iterable[str]", made_with: "Iterable[str]", on_host: bool
) -> None:
    """Keep an object with versions.

    output: path of the object. message: as it is shown. inputs: paths of sources and headers. made_with: of all other
    files that it depends on. on_host: True if the object is for the cores of this machine.
    """
    import hashlib

    from mavcg.files.store import open_store

    try:
        states = [state_of(os.fsencode(path)) for path in dict.fromkeys(made_with)]
        contents = {path: _read(path) for path in map(os.fsencode, dict.fromkeys(inputs))}
        boot = _read(BOOT).strip() if on_host else b""
        content = _read(output)
    except OSError:
        return
    if any(word in text for text in contents.values() for word in _UNSEEN):
        return
    rows = [b"%s %s" % (hashlib.sha256(text).hexdigest().encode(), path) for path, text in contents.items()]
    parts = [boot, os.fsencode(message), b"%d" % len(states), *states, b"%d" % len(rows), *rows]
    if not any(b"\0" in part for part in parts):
        open_store(FOLDER, most_bytes=MOST_BYTES).put(key, b"\0".join([*parts, content]))


def _read(path: str | bytes) -> bytes:
    with open(path, "rb") as file:
        return file.read()
