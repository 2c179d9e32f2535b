"""Digests of everything that decides the result of a build: mavcg's files, the compiler, and measured costs."""

import hashlib
import os
from functools import cache
from pathlib import Path

import mavcg
from mavcg.choose.algorithms.costs.database_file import default_path
from mavcg.errors import MavcgError
from mavcg.toolchain.zig import package_version

_SUFFIXES = (".py", ".c", ".h", ".S", ".toml", ".json")


@cache
def compiler_digest() -> str:
    """Return the digest of mavcg's files and the compiler's version, on which an object depends.

    Files count as they are, words included: each process needs the digest before it begins, and to parse all of mavcg
    takes it seconds.
    """
    digest = hashlib.sha256(f"{package_version('ziglang')} {package_version('llvmlite')}".encode())
    root = Path(str(mavcg.__file__)).parent
    paths = [Path(folder, name) for folder, _, names in os.walk(root, followlinks=True) for name in names]
    for path in sorted(path for path in paths if path.suffix in _SUFFIXES):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def worker_digest() -> str:
    """Return a digest of everything a library depends on besides its model; workers must have the same digest."""
    digest = hashlib.sha256(compiler_digest().encode())
    try:
        path = default_path()
        digest.update(path.read_bytes() if path.is_file() else b"")
    except MavcgError:  # this machine has no cost database
        pass
    return digest.hexdigest()
