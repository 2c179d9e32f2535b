"""The one store of what is computed once and used again: entries by key, files by name, both of this user alone.

What is read from it becomes code, or decides which code is made. So an entry counts only in a folder that nobody else
can write to, as a file that nobody else could have written, with the digest that it was written with; any other one is
absent. Writers replace a file whole, so that no reader in another process sees half of one. What cannot be written, for
a full disk or missing permission, is not kept: that costs time, never correctness.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mavcg.files.own_file import is_own_folder, read_own_file, write_own_file
from mavcg.files.scratch import scratch_folder
from mavcg.text.terminal import say

T = TypeVar("T")
VARIABLE = "MAVCG_CACHE"
OFF = ("off", "0", "no")
MOST_BYTES = 1_000_000_000  # of a store with all its versions; the least recently used entries are removed first
_DIGEST_BYTES = 32
_NAME_DIGITS = 32  # of a SHA-256, in names of kept files
_ENTRY = re.compile(r"[0-9a-f]{64}(\.json)?")  # those of earlier versions end in .json
_LOCK = ".lock"


class EntryStore:
    """Entries in a folder, each a file named by the digest of its key; with folder None nothing is kept."""

    def __init__(self, folder: Path | None, most_bytes: int = MOST_BYTES, bounded: Path | None = None) -> None:
        """most_bytes: of all entries in and below the folder `bounded`, which is this one by default."""
        self.folder = folder
        self.most_bytes = most_bytes
        self._bounded = bounded or folder

    def get(self, key: str) -> bytes | None:
        """Return the entry of a key; None if there is none. A damaged one is removed, and a message names it."""
        if self.folder is None or not is_own_folder(self.folder, make=False):
            return None
        path = self._path(self.folder, key)
        stored = read_own_file(path)
        if stored is None:
            return None
        content = stored[_DIGEST_BYTES:]
        with contextlib.suppress(OSError):  # removed by another process
            if stored[:_DIGEST_BYTES] != _digest(key, content):
                path.unlink()
                say(f"{path}: is a damaged entry of the cache; it is made again")
                return None
            os.utime(path)
        return content

    def put(self, key: str, content: bytes) -> None:
        """Store an entry in place of an older one."""
        if self.folder is None or not is_own_folder(self.folder):
            return
        path = self._path(self.folder, key)
        with contextlib.suppress(OSError):
            write_own_file(path, _digest(key, content) + content)
        if path.name.startswith("00"):  # one key of 256: a store that grows is trimmed, and few writers pay for it
            self.trim()

    def update(self, key: str, change: Callable[[bytes | None], bytes]) -> None:
        """Replace an entry by what `change` makes of it, while no other process does so: no change is lost."""
        if self.folder is None or not is_own_folder(self.folder):
            return
        with contextlib.suppress(OSError), _hold_lock(self.folder / _LOCK):
            self.put(key, change(self.get(key)))

    def read(self, key: str, kind: type[T]) -> T | None:
        """Return the value of a key, as of a type; None if there is none, or another version wrote it."""
        content = self.get(key)
        return None if content is None else _value(content, kind)

    def write(self, key: str, value: object) -> None:
        """Store a value, which is plain or a dataclass of plain values, in place of an older one."""
        self.put(key, _text(value))

    def merge(self, key: str, rows: Mapping[str, Any]) -> dict[str, Any]:
        """Add rows to the table of a key, in place of older rows; return all of them."""
        merged = dict(rows)

        def change(before: bytes | None) -> bytes:
            merged.update({**((before and _value(before, dict)) or {}), **rows})
            return _text(merged)

        self.update(key, change)
        return merged

    def trim(self) -> None:
        """Remove the least recently used entries until the rest has the store's size; older versions' are counted."""
        if self._bounded is None:
            return
        with contextlib.suppress(OSError):
            found = [Path(folder, name) for folder, _, names in os.walk(self._bounded) for name in names]
            status = {path: path.lstat() for path in found if _ENTRY.fullmatch(path.name)}
            excess = sum(each.st_size for each in status.values()) - self.most_bytes
            for path in sorted(status, key=lambda path: status[path].st_mtime_ns):
                if excess <= 0:
                    return
                path.unlink(missing_ok=True)
                excess -= status[path].st_size

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / hashlib.sha256(key.encode()).hexdigest()  # a key may have any characters


NOTHING_KEPT = EntryStore(None)


def open_store(
    name: str, version: str = "", environment: Mapping[str, str] | None = None, most_bytes: int = MOST_BYTES
) -> EntryStore:
    """Return the user's store of a name, which keeps nothing where caching is off.

    version: digest of the code that makes the entries, so that other code does not use them.
    """
    root = cache_root(environment)
    return EntryStore(None) if root is None else EntryStore(root / name / version, most_bytes, root / name)


def cache_root(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder of the user's stores: MAVCG_CACHE, else XDG_CACHE_HOME/mavcg, else ~/.cache/mavcg.

    It is None if MAVCG_CACHE is "off", or there is no home folder. Source: XDG Base Directory Specification.
    """
    environment = os.environ if environment is None else environment
    named = environment.get(VARIABLE, "")
    if named.lower() in OFF:
        return None
    return Path(named) if named else _user_cache(environment)


def code_folder() -> Path:
    """Return the folder of compiled helpers, XDG_CACHE_HOME/mavcg or ~/.cache/mavcg.

    MAVCG_CACHE does not matter: nothing runs without the helpers, and to compile them for each command takes seconds.
    """
    return _user_cache(os.environ) or Path.home() / ".cache" / "mavcg"


def _user_cache(environment: Mapping[str, str]) -> Path | None:
    base, home = environment.get("XDG_CACHE_HOME", ""), environment.get("HOME", "")
    if os.path.isabs(base):  # a relative path must be ignored
        return Path(base) / "mavcg"
    return Path(home) / ".cache" / "mavcg" if os.path.isabs(home) else None


@contextlib.contextmanager
def own_code_folder() -> Iterator[Path]:
    """Yield the folder of compiled helpers, or a temporary one if another user could write there: nothing is left."""
    folder = code_folder()
    if is_own_folder(folder):
        yield folder
        return
    with scratch_folder("mavcg-code-") as scratch:
        yield scratch


def kept_file(folder: Path, name: str, make: Callable[[Path], object]) -> Path:
    """Return the path of a file that an earlier process left in this folder, or that `make` now writes.

    For what is used by its path, as a library that is loaded. folder: a folder of this user. name: identifies the
    file's inputs, and has its suffix; the file is <stem>-<digest of its contents><suffix>. make: writes the file to a
    path. A file of that name with another owner, mode or contents is removed and made again.
    """
    stem, suffix = os.path.splitext(name)
    for path in sorted(folder.glob(f"{stem}-{'[0-9a-f]' * _NAME_DIGITS}{suffix}")):
        content = read_own_file(path)
        if content is not None and path.name == f"{stem}-{_name_digest(content)}{suffix}":
            return path
        with contextlib.suppress(OSError):  # a folder, for example: its name is not the one that is written
            path.unlink()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with scratch_folder(".mavcg-kept-", folder) as scratch:
        made = scratch / name
        make(made)
        made.chmod(0o700)  # whatever the umask is
        path = folder / f"{stem}-{_name_digest(made.read_bytes())}{suffix}"
        os.replace(made, path)
    return path


@contextlib.contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock among the processes of this user, which the system releases if this one ends. Raises: OSError."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _text(value: object) -> bytes:
    return json.dumps(msgspec.to_builtins(value)).encode()  # by json, which has infinite numbers too


def _value(content: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.convert(json.loads(content), kind)
    except (ValueError, RecursionError):  # msgspec.ValidationError is a ValueError
        return None


def _digest(key: str, content: bytes) -> bytes:
    """Return the digest of an entry with its key: an entry under another's name is damaged too."""
    return hashlib.sha256(hashlib.sha256(key.encode()).digest() + content).digest()


def _name_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_NAME_DIGITS]
