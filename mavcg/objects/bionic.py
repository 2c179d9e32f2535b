"""Describe Android's C libraries to a linker that does not have them: no NDK is needed.

A library that a linker reads for its names only may be empty of code: the loader of a device finds its own by soname.
"""

from collections.abc import Collection
from functools import cache
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.hardware.target import Target
from mavcg.toolchain.zig import run_zig

API_LEVEL = 21  # Android 5.0, the first with 64 bits
_TABLE = Path(__file__).with_name("bionic_api21.txt")


@cache
def bionic_names() -> dict[str, frozenset[str]]:
    """Return the names that each of libc.so, libm.so and libdl.so defines since API level 21.

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
    """Raise MavcgError for the name of a library that every Android process has: its loader would take that one."""
    if soname in bionic_names():
        raise MavcgError(f"{soname}: is the name of Android's own library, which would be loaded; name another output")


def write_stubs(imported: Collection[str], target: Target, folder: Path) -> list[Path]:
    """Write shared libraries that define those of the imported names that bionic has. Returns their paths.

    A library that defines none of them is not written. Linked with them, a library names Android's own libc.so among
    its needs. They hold no code and must never be shipped. Raises: ToolError where assembling or linking fails.
    """
    folder.mkdir(exist_ok=True)
    stubs = []
    for library, defined in bionic_names().items():
        if not (names := sorted(defined.intersection(imported))):
            continue
        source, made = folder / f"{library}.s", folder / library
        source.write_text(
            "".join(f"\t.globl {name}\n\t.type {name}, @function\n{name}:\n" for name in names)
            + '\t.section .note.GNU-stack,"",@progbits\n'
        )
        flags = ["-target", f"{target.arch}-linux-musl", "-shared", "-nostdlib", "-Wl,-soname," + library]
        run_zig("cc", [*flags, str(source), "-o", str(made)], f"describing Android's {library}")
        source.unlink()
        stubs.append(made)
    return stubs
