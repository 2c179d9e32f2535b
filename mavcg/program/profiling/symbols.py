"""Finds, in the symbol tables of binaries, the linkage names for a profile with demangled C++ names."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from mavcg.errors import ProfileError
from mavcg.objects.elf import symbols_of
from mavcg.program.profiling.clonable import is_kernel, is_nameless, is_system
from mavcg.program.profiling.demangle import base_symbol, linkage_names
from mavcg.program.profiling.sample_table import SampleTable


@cache
def function_symbols(path: Path) -> frozenset[str]:
    """Return the names of the functions that an ELF file defines; empty if it is not ELF or has no symbols."""
    functions = ("STT_FUNC", "STT_GNU_IFUNC")
    # For a damaged file pyelftools may raise any class (construct, struct, index, decoding errors).
    with suppress(Exception):
        return frozenset(str(s.name) for s in _defined_symbols(path) if s["st_info"]["type"] in functions)
    return frozenset()


def _defined_symbols(path: Path) -> Iterator[Any]:
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as file:
        yield from (symbol for symbol in symbols_of(ELFFile(file)) if symbol["st_shndx"] != "SHN_UNDEF")


@cache
def labels(path: Path) -> Mapping[str, str]:
    """Return label of inline assembly in a function -> that function; {} for a file that is not ELF.

    perf attributes samples after such a label to a function of that name (gemmlowp's SSE4 kernels: outerLoop2355).
    """
    functions: list[tuple[int, int, str]] = []
    addresses_of: dict[str, set[int]] = {}
    try:
        for symbol in _defined_symbols(path):
            start, kind = symbol["st_value"], symbol["st_info"]["type"]
            if symbol.name and kind == "STT_FUNC":
                functions.append((start, start + symbol["st_size"], str(symbol.name)))
            elif symbol.name and kind == "STT_NOTYPE":
                addresses_of.setdefault(str(symbol.name), set()).add(start)
    except Exception:  # as above
        return {}
    functions.sort()
    starts = [start for start, _, _ in functions]
    function_of = {}
    for label, addresses in addresses_of.items():
        inside = {functions[at - 1] for location in addresses if (at := bisect_right(starts, location))}
        names = {name for _, end, name in inside if all(location < end for location in addresses)}
        if len(names) == 1:
            function_of[label] = names.pop()
    return function_of


def with_linkage_names(reading: SampleTable, binaries: Sequence[Path] = ()) -> SampleTable:
    """Return the samples with linkage names instead of demangled names and labels, if a binary has them.

    Args:
        binaries: files to search, matched by file name to the objects in the profile; other objects are searched if
            their path exists here.
    Raises: ProfileError for a binary in `binaries` without function symbols.
    """
    given = {path.name: path for path in binaries}
    for path in binaries:
        if not function_symbols(path):
            raise ProfileError(
                f"{path}: not an ELF file with function symbols; give the program as the linker wrote it"
            )
    frame, linkage_name = reading.frame, {}
    for object_, rows in frame.groupby("object"):
        path = given.get(Path(str(object_)).name) or Path(str(object_))
        if path.name not in given and (is_kernel(str(object_)) or is_system(str(object_)) or not path.is_absolute()):
            continue
        symbols = sorted({str(s) for s in rows["symbol"] if not is_nameless(str(s))})
        table = _symbols_here(path)
        if table and not all(symbol in table or base_symbol(symbol) in table for symbol in symbols):
            inside = {symbol: labels(path)[symbol] for symbol in symbols if symbol in labels(path).keys() - table}
            linkage_name.update(
                {(s, object_): name for s, name in ({**linkage_names(symbols, table), **inside}).items()}
            )
    if not linkage_name:
        return reading
    pairs = zip(frame["symbol"], frame["object"], strict=True)
    return replace(reading, frame=frame.assign(symbol=[linkage_name.get(pair, pair[0]) for pair in pairs]))


def _symbols_here(path: Path) -> frozenset[str]:
    try:
        return function_symbols(path) if path.is_file() else frozenset()
    except (OSError, ValueError):  # a name too long, or with a NUL
        return frozenset()
