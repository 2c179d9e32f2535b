"""Reads sizes, symbols and notes of built files: of ELF files by elf.py, of Mach-O files by macho.py."""

from pathlib import Path
from typing import Any

from mavcg.objects import elf, macho
from mavcg.toolchain.target import Target


def loaded_bytes(path: Path) -> int:
    """Return the bytes that a file adds to a program's image, without mavcg's note.

    Raises: MavcgError for a file of another format.
    """
    return macho.loaded_bytes(path) if macho.is_macho(path) else elf.loaded_bytes(path)


def symbol_bytes(path: Path, symbol: str) -> int:
    """Return the size of a function's code, in bytes; 0 if the file does not define it."""
    return macho.symbol_bytes(path, symbol) if macho.is_macho(path) else elf.symbol_bytes(path, symbol)


def imports_of(path: Path) -> tuple[list[str], list[str]]:
    """Return the (libraries, symbols) that a file imports; an object has no list of libraries."""
    return (macho.libraries(path), macho.undefined_symbols(path)) if macho.is_macho(path) else elf.imports_of(path)


def notes(path: Path) -> list[Any]:
    """Read the JSON documents of a file's mavcg notes, in link order. Raises: MavcgError for a garbled note."""
    return macho.notes(path) if macho.is_macho(path) else elf.notes(path)


def note_assembly(value: Any, target: Target) -> str:
    """Return assembly of a note that contains a JSON document."""
    if target.system == "macos":
        return macho.note_assembly(value)
    return elf.note_assembly(value) + elf.property_note(target.arch)


def protection(path: Path) -> list[str]:
    """Return the branch protection that a file's property note states for all its code; [] for Mach-O."""
    return [] if macho.is_macho(path) else elf.protection(path)
