"""The C of the accelerator's host side and simulated device (runtime/accel), written for users or loaded by cffi."""

from functools import cache
from pathlib import Path
from typing import Any

import mavcg.runtime
from mavcg.accelerators.isa.c_forms import c_header
from mavcg.files.store import own_code_folder
from mavcg.files.whole_file import write_whole
from mavcg.runtime.declare import declarations
from mavcg.toolchain.helper_library import HelperSources, compiled_helper, load_helper

SOURCES = Path(mavcg.runtime.__file__).parent / "accel"
# The tables of a model library and of an application's.
TABLES = tuple(SOURCES.parent / "csrc" / name for name in ("engine_api.h", "application_api.h"))
MESSAGE_BYTES = 256
MOST_OPERATIONS = 1 << 36  # of a job that is simulated: MAVCG_ACCEL_OPERATIONS
# Headers of the interface.
_HEADERS = ("mavcg_accel.h", "mavcg_accel_simulator.h", "mavcg_accel_core.h", "mavcg_accel_driver.h")
_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O3", "-Wall", "-Wextra", "-Werror", f"-I{TABLES[0].parent}")


def write_host_sources(folder: Path) -> list[Path]:
    """Write the C that a user's program needs into an existing folder, with the header forms.h, and return the files.

    Raises: OSError.
    """
    texts = {file.name: file.read_text(encoding="utf-8") for file in (*sorted(SOURCES.glob("*.[ch]")), *TABLES)}
    texts["forms.h"] = c_header()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in sorted(texts)]


@cache
def host_ffi() -> Any:
    """Return the cffi interface with the declarations of the public headers."""
    import cffi

    ffi = cffi.FFI()
    for name in _HEADERS:
        ffi.cdef(declarations((SOURCES / name).read_text(encoding="utf-8")))
    return ffi


@cache
def host_library() -> Any:
    """Return the loaded C library, compiled for this machine at its first use. Raises: ToolError."""
    return load_helper(_helper_sources(), host_ffi().dlopen)


def write_host_library(path: Path) -> None:
    """Write the C library for this machine as a file. Raises: ToolError; MavcgError for a bad path."""
    with own_code_folder() as folder:
        write_whole(path, compiled_helper(folder, _helper_sources()).read_bytes(), "--library")


def _helper_sources() -> HelperSources:
    files = (*sorted(SOURCES.glob("*.[ch]")), *TABLES)
    return HelperSources("accel", files, _FLAGS, "the accelerator's host side", {"forms.h": c_header()})
