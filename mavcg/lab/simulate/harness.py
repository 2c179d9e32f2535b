"""Compile the simulator's C library if needed, and load it through cffi."""

from functools import cache
from pathlib import Path
from typing import Any

from mavcg.toolchain.helper_library import HelperSources, load_helper

SOURCES = Path(__file__).parent / "csrc"
_FLAGS = ("-std=c11", "-O3", "-Wall", "-Wextra", "-Werror")


@cache
def ffi() -> Any:
    """Return the cffi interface with the declarations of simulate_api.h."""
    import cffi

    interface = cffi.FFI()
    interface.cdef((SOURCES / "simulate_api.h").read_text(encoding="utf-8"))
    return interface


@cache
def library() -> Any:
    """Return the loaded C library. Raises: ToolError if it does not compile."""
    sources = HelperSources("simulate", sorted(SOURCES.glob("*.[ch]")), _FLAGS, "the simulator")
    return load_helper(sources, ffi().dlopen)
