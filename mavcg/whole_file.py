"""Files that appear whole or not at all, and whether a picture can be one."""

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


def check_plot(path: Path) -> None:
    """Raises: MavcgError for what cannot become the file of a picture: before the work, not after it."""
    if path.suffix != ".svg":
        raise MavcgError(f"--plot {path}: pictures are SVG; name a file that ends in .svg")
    if not path.parent.is_dir():
        raise MavcgError(f"--plot {path}: the folder {path.parent} is not there; make it, or name another file")
    if path.is_dir():
        raise MavcgError(f"--plot {path}: is a folder; name another file")
