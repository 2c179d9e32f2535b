"""Files that appear whole or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mavcg.errors import MavcgError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to; at the end it takes the place of `path`, and where that fails it is gone.

    What a link points to is replaced, not the link. What is no file, such as /dev/null or a pipe, is written to itself.
    Raises: OSError for a folder, and where it cannot be moved there.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        yield path
        return
    target = path.resolve()
    made = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield made
        os.replace(made, target)
    finally:
        made.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes | str, option: str = "") -> None:
    """Write a file, whole or not at all. content: text is written as UTF-8. option: that named the file, for errors.

    Raises: MavcgError where it cannot be written.
    """
    try:
        with whole(path) as made:
            made.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        place = f"{option} {path}".lstrip()
        raise MavcgError(f"{place}: cannot be written ({error.strerror}); name another file") from error
