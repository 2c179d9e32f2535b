"""A disk that is full for whoever writes: files of this process may have so many bytes and no more."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Bound the size of all files that this process writes, in bytes; needs no root. Writes beyond it fail."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with _no_byte_code():
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def _no_byte_code() -> Iterator[None]:
    """Keep this process, and those it starts, from writing byte code of modules.

    CPython before 3.14 does not notice where a write of byte code falls short (its issue 126606), and whoever imports
    the module from then on gets an EOFError.
    """
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
            yield
    finally:
        sys.dont_write_bytecode = before
