"""Read sizes, symbols and notes of built files, in the format of their target: ELF, or Mach-O for macOS."""

from pathlib import Path
from typing import Any

from mavcg.hardware.target import Target
from mavcg.objects import elf, macho


def loaded_bytes(path: Path) -> int:
    """Return bytes that the file adds to a program's image, our note excepted. Raises: MavcgError for neither
    format.
    """
    return macho.loaded_bytes(path) if macho.is_macho(path) else elf.loaded_bytes(path)


def symbol_bytes(path: Path, symbol: str) -> int:
    """Return the size of a defined function's code, in bytes; 0 when the file does not define it."""
    return macho.symbol_bytes(path, symbol) if macho.is_macho(path) else elf.symbol_bytes(path, symbol)


def imports_of(path: Path) -> tuple[list[str], list[str]]:
    """Return (libraries, symbols) that the file imports; an object names no libraries."""
    return (macho.libraries(path), macho.undefined_symbols(path)) if macho.is_macho(path) else elf.imports_of(path)


def notes(path: Path) -> list[Any]:
    """Read the JSON documents of a file's mavcg notes, in link order. Raises: MavcgError for a garbled note."""
    return macho.notes(path) if macho.is_macho(path) else elf.notes(path)


def note_assembly(value: Any, target: Target) -> str:
    """Return assembly of a note that carries a JSON document."""
    if target.system == "macos":
        return macho.note_assembly(value)
    return elf.note_assembly(value) + elf.property_note(target.arch)


def protection(path: Path) -> list[str]:
    """Return the branch protection of all code of a file, by its property note; [] for Mach-O, which has none."""
    return [] if macho.is_macho(path) else elf.protection(path)
