"""The simulator's C library: compiled by ziglang where the cache folder lacks it, loaded by cffi."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from mavcg.files.scratch import scratch_folder
from mavcg.hardware.target import host_target
from mavcg.runtime.code_cache import cache_folder, cached_file, is_own_folder
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

SOURCES = Path(__file__).parent / "csrc"
_FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")


@cache
def ffi() -> Any:
    """Return cffi's view of simulate_api.h."""
    import cffi

    found = cffi.FFI()
    found.cdef((SOURCES / "simulate_api.h").read_text(encoding="utf-8"))
    return found


@cache
def library() -> Any:
    """Load the library. Raises: ToolError when compiling fails."""
    folder = cache_folder()
    if is_own_folder(folder):
        return ffi().dlopen(str(compiled_library(folder)))
    with scratch_folder("mavcg-simulate-") as scratch:
        return ffi().dlopen(str(compiled_library(Path(scratch))))


def compiled_library(folder: Path) -> Path:
    """Return the library's path in this folder, compiled where it is not there; its name has its sources' digest."""
    sources = sorted(SOURCES.glob("*.[ch]"))
    target = host_target().zig_name
    parts = [*(path.read_bytes() for path in sources), " ".join((*_FLAGS, *PLAIN_CODE_FLAGS)).encode(), target.encode()]
    digest = hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:24]

    def make(out: Path) -> None:
        files = [str(path) for path in sources if path.suffix == ".c"]
        flags = ["-target", target, *PLAIN_CODE_FLAGS, *_FLAGS]
        run_zig("cc", [*flags, *files, "-o", str(out)], "compiling the simulator")

    return cached_file(folder, f"simulate-{digest}.so", make)
