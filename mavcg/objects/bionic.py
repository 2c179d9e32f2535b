"""Writes stubs of Android's C libraries for the linker, so that no NDK is needed.

A stub defines the names but no code: at load time the device's own library of the same soname is used.
"""

from collections.abc import Collection
from functools import cache
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import run_zig

API_LEVEL = 21  # Android 5.0, the first with 64-bit programs
_TABLE = Path(__file__).with_name("bionic_api21.txt")


@cache
def bionic_names() -> dict[str, frozenset[str]]:
    """Return library (libc.so, libm.so, libdl.so) -> names that it defines since API level 21.

    Source: named in the table's first lines.
    """
    names: dict[str, set[str]] = {}
    library = ""
    for line in _TABLE.read_text().splitlines():
        if line.startswith("["):
            library = line.strip("[]")
        elif not line.startswith("#"):
            names.setdefault(library, set()).update(line.split())
    return {library: frozenset(defined) for library, defined in names.items()}


def check_soname(soname: str) -> None:
    """Raise MavcgError if an output has the name of a library of Android itself, which the loader would use instead."""
    if soname in bionic_names():
        raise MavcgError(f"{soname}: is the name of Android's own library, which would be loaded; name another output")


def write_stubs(imported: Collection[str], target: Target, folder: Path) -> list[Path]:
    """Write stub libraries that define the imported names that bionic has; return their paths.

    A stub without names is not written. A library linked with the stubs needs Android's own libc.so at load. Stubs have
    no code and must not be shipped.
    Raises: ToolError if assembling or linking fails.
    """
    folder.mkdir(exist_ok=True)
    stubs = []
    for library, defined in bionic_names().items():
        if not (names := sorted(defined.intersection(imported))):
            continue
        source, stub = folder / f"{library}.s", folder / library
        source.write_text(
            "".join(f"\t.globl {name}\n\t.type {name}, @function\n{name}:\n" for name in names)
            + '\t.section .note.GNU-stack,"",@progbits\n'
        )
        flags = ["-target", f"{target.arch}-linux-musl", "-shared", "-nostdlib", "-Wl,-soname," + library]
        run_zig("cc", [*flags, str(source), "-o", str(stub)], f"linking a stub of Android's {library}")
        source.unlink()
        stubs.append(stub)
    return stubs
