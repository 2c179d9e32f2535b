"""A digest of all that mavcg's build of a library does: of its sources, its facts, its compiler and measured costs."""

import hashlib
import os
from functools import cache
from importlib.metadata import version
from pathlib import Path

import mavcg
from mavcg.errors import MavcgError
from mavcg.selection.costs.database import default_path

_SUFFIXES = (".py", ".c", ".h", ".S", ".toml", ".json")


@cache
def compiler_digest() -> str:
    """Return the digest of mavcg's files and of the compiler's version: other ones may make another object."""
    digest = hashlib.sha256(f"{version('ziglang')} {version('llvmlite')}".encode())
    root = Path(str(mavcg.__file__)).parent
    paths = [Path(folder, name) for folder, _, names in os.walk(root, followlinks=True) for name in names]
    for path in sorted(path for path in paths if path.suffix in _SUFFIXES):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def worker_digest() -> str:
    """Return the digest that a worker must have in common with this process: its libraries are then the same."""
    digest = hashlib.sha256(compiler_digest().encode())
    try:
        path = default_path()
        digest.update(path.read_bytes() if path.is_file() else b"")
    except MavcgError:  # nothing is kept here
        pass
    return digest.hexdigest()
