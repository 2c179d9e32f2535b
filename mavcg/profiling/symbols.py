"""Linkage names for a profile whose tool printed C++ names, from the symbol tables of the binaries."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from mavcg.errors import ProfileError
from mavcg.profiling.clonable import is_kernel, is_nameless, is_system
from mavcg.profiling.demangle import base_symbol, linkage_names
from mavcg.profiling.reading import Reading


@cache
def function_symbols(path: Path) -> frozenset[str]:
    """Names of the functions that an ELF file defines; empty when it is no ELF file or has no symbols."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    names = set()
    try:
        with open(path, "rb") as file:
            for section in ELFFile(file).iter_sections():
                if not isinstance(section, SymbolTableSection):
                    continue
                for symbol in section.iter_symbols():
                    if symbol["st_info"]["type"] in ("STT_FUNC", "STT_GNU_IFUNC") and symbol["st_shndx"] != "SHN_UNDEF":
                        names.add(str(symbol.name))
    # pyelftools raises whatever a damaged file leads it to (construct, struct, index, decoding errors).
    except Exception:
        return frozenset()
    return frozenset(names)


def with_linkage_names(reading: Reading, binaries: Sequence[Path] = ()) -> Reading:
    """The reading with linkage names in place of demangled ones, where a binary tells them.

    binaries: files to look in beside the objects that the profile names by a path that exists here; one stands for
    every object with its file name.
    Raises: ProfileError for a binary given that has no function symbols.
    """
    given = {path.name: path for path in binaries}
    for path in binaries:
        if not function_symbols(path):
            raise ProfileError(f"{path}: no ELF file with function symbols; give the program as the linker wrote it")
    frame, found = reading.frame, {}
    for object_, rows in frame.groupby("object"):
        path = given.get(Path(str(object_)).name) or Path(str(object_))
        if path.name not in given and (is_kernel(str(object_)) or is_system(str(object_)) or not path.is_absolute()):
            continue
        symbols = sorted({str(s) for s in rows["symbol"] if not is_nameless(str(s))})
        table = _symbols_here(path)
        if table and not all(symbol in table or base_symbol(symbol) in table for symbol in symbols):
            found.update({(symbol, object_): name for symbol, name in linkage_names(symbols, table).items()})
    if not found:
        return reading
    pairs = zip(frame["symbol"], frame["object"], strict=True)
    return replace(reading, frame=frame.assign(symbol=[found.get(pair, pair[0]) for pair in pairs]))


def _symbols_here(path: Path) -> frozenset[str]:
    try:
        return function_symbols(path) if path.is_file() else frozenset()
    except (OSError, ValueError):  # a name too long, or with a NUL
        return frozenset()
