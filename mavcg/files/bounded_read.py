"""Read whole files that are not trusted, up to a number of bytes: a device or a sparse file has no end."""

import errno
import os
import stat
from pathlib import Path

_PIECE_BYTES = 1 << 20


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """Return the content of a file.

    most_bytes: a multiple of a MiB; of a file, device or pipe with more, so many are read at most.
    Raises: OSError as `path.read_bytes`; EFBIG for one with more bytes, whose strerror says so.
    """
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_size > most_bytes:
            raise _too_large(path, most_bytes)
        if stat.S_ISREG(status.st_mode) and status.st_size:  # a size of 0 says nothing in /proc
            return file.read(status.st_size)
        content = bytearray()
        while piece := file.read(_PIECE_BYTES):
            content += piece
            if len(content) > most_bytes:
                raise _too_large(path, most_bytes)
        return bytes(content)


def _too_large(path: Path, most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"it has more than {most_bytes >> 20} MiB", str(path))
