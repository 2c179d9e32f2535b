"""Write files so that they appear whole or not at all."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.disk_space import NO_ROOM, with_room
from mavcg.files.scratch import fresh_path, registration, scratch_folder


@contextmanager
def whole(path: Path, durable: bool = True) -> Iterator[Path]:
    """Yield a new file beside `path`; at the end it replaces `path`, and on failure it is removed.

    For a link, its target is replaced. A path that is not a file, such as /dev/null or a pipe, is written directly. The
    new file's name is unpredictable, and never that of an existing file.

    durable: True to flush the contents to the disk before they replace `path`; otherwise a crash of the machine may
    leave an empty file. Raises: OSError for a folder, and if the file cannot be moved there; it names `path` if a disk
    is full.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if is_special(path):
        yield path
        return
    target = path.resolve()
    made = fresh_path(target.parent, ".mavcg-", ".part")
    with registration(made, lambda: os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))):
        try:
            yield made
            put_in_place(made, target, durable)
        except OSError as error:
            if error.errno in NO_ROOM:  # says no name where it comes from a write
                raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
            raise


@contextmanager
def whole_beside(path: Path) -> Iterator[Path]:
    """Yield a path of the same name in a new folder, as `whole` does, for tools that create the file themselves.

    `path` becomes a copy that is written from its beginning to its end. A linker writes a file's pages in any order,
    through a mapping; in the page cache they then lie apart, and as long as they stay there, programs that map the file
    read it more slowly (docs/design/kernels.md, One packing).

    Raises: OSError, also for a path that is not a file, because such tools seek in their output.
    """
    if is_special(path):
        raise OSError(errno.EINVAL, "is a device or a pipe", str(path))
    target = path.resolve()
    with scratch_folder(".mavcg-", target.parent) as folder:
        (folder / "created").mkdir()
        made, copied = folder / "created" / path.name, folder / path.name
        yield made
        shutil.copy(made, copied)
        put_in_place(copied, target)


def is_special(path: Path) -> bool:
    """Return True for an existing path that is neither a file nor a folder: a device, a pipe, a terminal."""
    return path.exists() and not path.is_file() and not path.is_dir()


def put_in_place(finished: Path, target: Path, durable: bool = True) -> None:
    """Rename a finished file to its final path on the same disk. durable: as in `whole`."""
    if durable:
        handle = os.open(finished, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    os.replace(finished, target)


def write_whole(path: Path, content: bytes | str, option: str = "") -> None:
    """Write a file, whole or not at all.

    content: bytes, or text that is written as UTF-8. option: option that named the file, for errors.
    Raises: MavcgError if it cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        with whole(path) as made:
            made.write_bytes(data)
    except OSError as error:
        location = f"{option} {path}".lstrip()
        reason = with_room(error, path, len(data))
        remedy = "make room, or name another file" if error.errno in NO_ROOM else "name another file"
        raise MavcgError(f"{location}: cannot be written ({reason}); {remedy}") from error
