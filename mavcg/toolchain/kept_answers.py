"""Keeps what compilers say about themselves in the user's cache, while the program is the same file.

`mavcg launch` needs the same answers for each file of a build: which compiler is this, for which machine, which
instruction sets does a CPU name mean. Each takes a process, a quarter of the time of compiling a small file.
"""

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Sequence

from mavcg.files.store import open_store
from mavcg.toolchain.zig import run_tool

_MOST_BYTES = 10_000_000
_ELF = b"\x7fELF"
# Programs that answer by themselves. ccache, distcc and scripts under such a name start another one, which may change.
_COMPILER = re.compile(r"(?:.*-)?(?:gcc|g\+\+|clang|clang\+\+|zig)(?:-[\d.]+)?")
_VARIABLES = (
    "PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "SDKROOT",
    "ZIG_LIB_DIR",
)


def kept_answer(
    command: Sequence[str],
    action: str,
    about: bytes = b"",
    messages: bool = False,
    holds: Callable[[str], bool] = lambda text: True,
) -> str:
    """Return a tool's standard output, as run_tool does; from the cache where the same program has printed it before.

    Args:
        about: contents of the files that the command names.
        messages: True for what the tool prints on standard error, in English, in place of its output.
        holds: returns False for a kept answer that is no longer true.
    Raises: ToolError, as run_tool.
    """
    identity = _identity(command[0])
    run = ["/bin/sh", "-c", f"LC_ALL=C {shlex.join(command)} 2>&1 >/dev/null"] if messages else command
    if not identity:
        return run_tool(run, action)
    words = [str(messages), identity, *(os.environ.get(name, "") for name in _VARIABLES), *command]
    key = hashlib.sha256(b"\0".join([*map(os.fsencode, words), about])).hexdigest()
    store = open_store("answers", most_bytes=_MOST_BYTES)
    known = store.get(key)
    if known is not None and holds(text := known.decode("utf-8", "replace")):
        return text
    text = run_tool(run, action)
    store.put(key, text.encode("utf-8", "replace"))
    return text


def _identity(program: str) -> str:
    """Return what identifies the contents of a compiler's file; "" for a program that may start another one."""
    path = shutil.which(program)
    if path is None or not _COMPILER.fullmatch(os.path.basename(os.path.realpath(path))):
        return ""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            is_program = file.read(len(_ELF)) == _ELF
    except OSError:
        return ""
    return f"{os.path.realpath(path)} {status.st_mtime_ns} {status.st_size} {status.st_ino}" if is_program else ""
