"""Caches objects of kernels between builds, named by the digest of their inputs.

A damaged file counts as absent; in a folder that cannot be written nothing is cached. Both cost time, never
correctness. Because objects become parts of libraries, only this user may be able to write to the folder.
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from mavcg.assembly.schedule_store import open_store
from mavcg.files.own_file import read_own_file, write_own_file
from mavcg.files.own_folder import is_own_folder
from mavcg.lab.jobs.sources_digest import compiler_digest

MOST_BYTES = 2_000_000_000  # maximum size of the folder; the least recently used objects are removed first
_DIGEST_BYTES = 32


class ObjectStore:
    """Objects in a folder, by digest; with folder None nothing is stored."""

    def __init__(self, folder: Path | None, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder if folder is not None and is_own_folder(folder) else None
        self.most_bytes = most_bytes

    def get(self, digest: str) -> bytes | None:
        """Return the object stored for this digest; None if there is none or it is damaged."""
        if self.folder is None:
            return None
        path = self.folder / digest
        content = read_own_file(path)
        if content is None or hashlib.sha256(content[_DIGEST_BYTES:]).digest() != content[:_DIGEST_BYTES]:
            return None
        with contextlib.suppress(OSError):  # removed by another process
            os.utime(path)
        return content[_DIGEST_BYTES:]

    def put(self, digest: str, content: bytes) -> None:
        """Store an object; a full disk is ignored."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                write_own_file(self.folder / digest, hashlib.sha256(content).digest() + content)

    def trim(self) -> None:
        """Remove the least recently used objects until the folder has its maximum size."""
        if self.folder is None:
            return
        with contextlib.suppress(OSError):
            status = {path: path.stat() for path in self.folder.iterdir() if path.is_file()}
            excess = sum(file_status.st_size for file_status in status.values()) - self.most_bytes
            for path in sorted(status, key=lambda path: status[path].st_mtime_ns):
                if excess <= 0:
                    return
                path.unlink(missing_ok=True)
                excess -= status[path].st_size


def open_object_store(environment: Mapping[str, str] | None = None) -> ObjectStore:
    """Open the user's store, kernels/<digest of compiler and sources> in mavcg's cache; empty if MAVCG_CACHE=off."""
    store = open_store(environment)
    return ObjectStore(store.folder.parents[1] / "kernels" / compiler_digest()[:16] if store else None)
