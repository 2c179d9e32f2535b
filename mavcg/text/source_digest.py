"""Digests of source files that survive changes of docstrings, comments and the formatting of Python."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from mavcg.text.c_code import c_without_comments
from mavcg.text.python_code import code_without_words


def digest_of_code(paths: Iterable[Path], root: Path) -> str:
    """Return the SHA-256 digest, in hexadecimal, of files' code and of their paths below a folder.

    Python and C count without their words; other files count as they are. Raises: OSError for a file that cannot be
    read, SyntaxError for a .py that is not Python.
    """
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + _code(path) + b"\0")
    return digest.hexdigest()


def _code(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".py":
        return code_without_words(content.decode()).encode()
    if path.suffix in (".c", ".h"):
        return c_without_comments(content.decode()).encode()
    return content
