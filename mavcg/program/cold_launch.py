"""The short way of `mavcg launch` for files without hot functions, which are most of a build.

It imports nothing but os, because Python's start and imports would take longer than many files take to compile. What it
needs to know of a mavcg.toml it reads from a note that the long way (launching.py) leaves in the user's cache: the
words of which each object with a hot function contains one, and the files that objects depend on. It decides nothing
but that an object, or a program that is compiled and linked at once, is certainly cold. For everything else, such as an
option that it does not know (cold_command.py), the long way is taken, after the compiler has run once.
"""

import os

from mavcg.program.cold_command import linked_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mavcg.program.cold_command import ColdCommand

_VARIABLE = "MAVCG_CACHE"  # these and the folder: mavcg/files/store.py
_OFF = ("off", "0", "no")
HEAD = "mavcg launch 1"
_WRITABLE_BY_OTHERS = 0o022
FILE_NAME = "mavcg.toml"
# ccache sets it for the compilers that it runs (ccache manual, CCACHE_DISABLE).
UNDER_CCACHE = "CCACHE_DISABLE"

_AFTER_COLON = (" ", "\t", "\n", "\\")  # of a rule of a dependency file


def is_cold(compiled: "ColdCommand", config: str | None) -> bool:
    """True if it is certain that an object has no hot function; its dependency file then names the configuration.

    config: path of the mavcg.toml; None for the nearest one above the current folder, else above the source.
    """
    note = _note_of(compiled, config)
    if note is None:
        return False
    files, words = note
    try:
        with open(compiled.output, "rb") as file:
            content = file.read()
        if any(word in content for word in words):
            return False
        if compiled.depends and os.path.isfile(compiled.depends):
            return _add_dependencies(compiled.depends, files)
    except OSError:
        return False
    return True


def is_silent(command: "Sequence[str]", config: str | None) -> bool:
    """True if a finished command that makes no object certainly needs no message.

    config: as for is_cold; one above the source does not count.
    """
    output = linked_output(command)
    if not output:
        # ccache has text preprocessed, to which the long way adds what objects depend on.
        return output is not None and not os.environ.get(UNDER_CCACHE)
    path = config or nearest(os.getcwd())
    note = read_note(path) if path else None
    if note is None:
        return False
    try:
        with open(output, "rb") as file:
            content = file.read()
    except OSError:
        return False
    return not any(word in content for word in note[1])


def hot_words(compiled: "ColdCommand", config: str | None) -> "list[bytes]":
    """Return the words of hot functions that a C source contains; none if they are not known, or under ccache, which
    shall keep the object of the command as it was given.

    config: as for is_cold.
    """
    note = _note_of(compiled, config) if compiled.direct and compiled.source.endswith(".c") else None
    if note is None:
        return []
    try:
        with open(compiled.source, "rb") as file:
            content = file.read()
    except OSError:
        return []
    return [word for word in note[1] if word in content]


def _note_of(compiled: "ColdCommand", config: str | None) -> "tuple[list[str], list[bytes]] | None":
    path = config_path(compiled, config)
    return read_note(path) if path else None


def config_path(compiled: "ColdCommand", config: str | None) -> str:
    """Return the path of the mavcg.toml for a command; "" if there is none. config: as for is_cold."""
    here = os.getcwd()
    return config or nearest(here) or nearest(os.path.dirname(os.path.join(here, compiled.source)))


def nearest(folder: str) -> str:
    """Return the path of the mavcg.toml in this folder or the nearest one above it; "" if there is none."""
    folder = os.path.abspath(folder)
    while True:
        path = os.path.join(folder, FILE_NAME)
        if os.path.isfile(path):
            return path
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def add_dependencies_of(compiled: "ColdCommand", config: str | None) -> bool:
    """Add what objects depend on to a command's dependency file; return False if that needs more than is done here."""
    note = _note_of(compiled, config)
    if note is None:
        return False
    return not compiled.depends or not os.path.isfile(compiled.depends) or _add_dependencies(compiled.depends, note[0])


def _add_dependencies(path: str, files: "Sequence[str]") -> bool:
    """Add files to a dependency file; return False if it needs more than is done here."""
    if any(character in name for name in files for character in " \t#$\n"):
        return False
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        text = file.read()
    extended = with_dependencies(text, files)
    if extended != text:
        replace_file(path, extended.encode("utf-8", "surrogateescape"), 0o666)
    return True


def replace_file(path: str, content: bytes, mode: int) -> None:
    """Write a file beside a path and rename it to that. Raises: OSError; nothing is left beside it then."""
    made = f"{path}.{os.urandom(8).hex()}.part"
    try:
        with open(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as out:
            out.write(content)
        os.replace(made, path)
    except OSError:
        if os.path.exists(made):
            os.unlink(made)
        raise


def with_dependencies(text: str, names: "Iterable[str]") -> str:
    """Return the text of a dependency file with these names, escaped for make, in its first rule.

    Each name gets an empty rule too, as headers with -MP, so that a build does not fail for a missing file. Names that
    are there, and a text without a rule, are left as they are.
    """
    added = [name for name in names if name not in text]
    colon = text.find(":")
    while colon >= 0 and (
        text[colon - 1 : colon] == "\\" or text[colon + 1 : colon + 2] not in (" ", "\t", "\n", "\\")
    ):
        colon = text.find(":", colon + 1)
    if colon < 0 or not added:
        return text
    empty = "".join(f"\n{name}:\n" for name in added)
    return text[: colon + 1] + "".join(f" {name}" for name in added) + text[colon + 1 :] + empty


def write_note(config: str, profile: str, files: "Sequence[str]", words: "Iterable[bytes]") -> None:
    """Leave a note about a mavcg.toml in the user's cache.

    profile: path of the profile that hot functions come from, or "". files: absolute paths of what objects depend on.
    words: each object with a hot function contains one of them. Without a cache, nothing is written.
    """
    path, state = note_path(config), _state(config, profile)
    parts = [HEAD, state, profile, str(len(files)), *files]
    content = b"\0".join([*(os.fsencode(part) for part in parts), *sorted(words)])
    if not path or not state or b"" in words:
        return
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        replace_file(path, content, 0o600)
    except OSError:
        return


def read_note(config: str) -> "tuple[list[str], list[bytes]] | None":
    """Return (files that objects depend on, words of hot functions) as write_note left them for this mavcg.toml as it
    is now; None if there is no note, or somebody else could have written it."""
    path = note_path(config)
    if not path:
        return None
    try:
        parts = read_own(path).split(b"\0")
        head, state, profile, count = map(os.fsdecode, parts[:4])
        end = 4 + int(count)
    except (OSError, ValueError):
        return None
    if head != HEAD or not state or state != _state(config, profile):
        return None
    return [os.fsdecode(part) for part in parts[4:end]], parts[end:]


def read_own(path: str) -> bytes:
    """Return the contents of a file of this user's cache; none if somebody else could write there. Raises: OSError."""
    if not _is_own(os.stat(os.path.dirname(path))):
        return b""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        return file.read() if _is_own(os.fstat(file.fileno())) else b""


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & _WRITABLE_BY_OTHERS


def _state(config: str, profile: str) -> str:
    """Return what identifies the contents of the mavcg.toml and of its profile; "" if one cannot be read."""
    try:
        seen = [(path, os.stat(path)) for path in (os.path.abspath(config), profile) if path]
    except OSError:
        return ""
    return " ".join(f"{path} {status.st_mtime_ns} {status.st_size} {status.st_ino}" for path, status in seen)


def note_path(config: str) -> str:
    """Return the path of the note about a mavcg.toml in the user's cache; "" without a cache.

    Its name is the file's path modulo a prime, for want of the imports that a digest needs: where two paths have the
    same one, the notes replace each other, since each says whose it is.
    """
    root = cache_root()
    number = int.from_bytes(os.fsencode(os.path.abspath(config)), "big") % ((1 << 127) - 1)
    return os.path.join(root, "launch", f"{number:032x}") if root else ""


def cache_root() -> str:
    """Return the folder of the user's cache, as files/store.py does; "" without one."""
    named, base = os.environ.get(_VARIABLE, ""), os.environ.get("XDG_CACHE_HOME", "")
    home = os.environ.get("HOME", "")
    if named.lower() in _OFF:
        return ""
    if not named and os.path.isabs(base):
        return os.path.join(base, "mavcg")
    return named or (os.path.join(home, ".cache", "mavcg") if os.path.isabs(home) else "")
