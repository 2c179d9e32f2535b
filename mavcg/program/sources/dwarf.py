"""Finds, in a program's DWARF debug information, the source file that a function was compiled from."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.program.sources.symbol_table import Definition, definitions

WITH_G = "compile with -g, or name the file with --source"
DEBUG_FOLDERS = (Path("/usr/lib/debug"),)


@dataclass(frozen=True)
class SourceLocation:
    """The source of a function.

    Args:
        symbol: the requested linkage name.
        unit_source: the source file of its compile unit.
        file, line: where the function is written; in a header, for a template.
        others: sources of other functions with this name (static functions).
    """

    symbol: str
    file: Path
    line: int
    unit_source: Path
    others: tuple[Path, ...] = ()


@dataclass(frozen=True)
class FunctionSources:
    """The sources of functions.

    Args:
        locations: symbol -> its source.
        missing: symbol -> the reason why no source was found.
    """

    locations: Mapping[str, SourceLocation]
    missing: Mapping[str, str]


def locate(binary: Path, symbols: Collection[str]) -> FunctionSources:
    """Find the sources of the functions with these linkage names in a binary's debug information (DWARF 2 to 5).

    Debug information is searched in the file itself, then in its separate debug file (.gnu_debuglink, build id).
    Raises: MavcgError if the binary is missing or not an ELF file.
    """
    from elftools.elf.elffile import ELFFile

    try:
        with binary.open("rb") as file:
            magic = file.read(6)
            if magic[:4] != b"\x7fELF":
                raise MavcgError(f"{binary}: not an ELF file; name the program that was profiled")
            if magic[4:] != b"\x02\x01":
                return _all_missing(symbols, f"{binary.name} is not 64-bit little-endian")
            return _locate(ELFFile(file), binary, symbols)
    except OSError as error:
        raise MavcgError(f"{binary}: {error.strerror}; name the program that was profiled") from error
    except MavcgError:
        raise
    except Exception as error:  # pyelftools raises whatever a damaged file leads it to
        return _all_missing(symbols, f"the debug information of {binary.name} is damaged ({_short(error)}); {WITH_G}")


def _locate(elf: Any, binary: Path, symbols: Collection[str]) -> FunctionSources:
    definitions_of = definitions(elf, symbols)
    missing = {s: f"{binary.name} has no symbol of that name (stripped?)" for s in symbols if s not in definitions_of}
    if not _has_debug_info(elf):
        debug_file = _linked_debug_file(elf, binary)
        if debug_file is None:
            reason = f"{binary.name} has no debug information; {WITH_G}"
            return FunctionSources({}, missing | dict.fromkeys(definitions_of, reason))
        from elftools.elf.elffile import ELFFile

        with debug_file.open("rb") as file:
            debug_elf = ELFFile(file)
            # A stripped program's symbols are in the debug file only; addresses are the same.
            definitions_of = definitions(debug_elf, symbols) | definitions_of
            missing = {s: why for s, why in missing.items() if s not in definitions_of}
            return _in_units(debug_elf, definitions_of, missing)
    return _in_units(elf, definitions_of, missing)


def _in_units(elf: Any, definitions_of: Mapping[str, list[Definition]], missing: dict[str, str]) -> FunctionSources:
    dwarf = elf.get_dwarf_info(follow_links=False)
    units = _unit_offsets(dwarf, {d.address for definitions in definitions_of.values() for d in definitions})
    lines: dict[int, _Lines] = {}
    located = {}
    for symbol, candidates in definitions_of.items():
        known = [d for d in candidates if d.address in units]
        if not known:
            missing[symbol] = f"its code has no debug information (assembly, or compiled without -g); {WITH_G}"
            continue
        where = []
        for definition in known:
            offset = units[definition.address]
            if offset not in lines:
                lines[offset] = _Lines(dwarf, dwarf.get_CU_at(offset))
            where.append(lines[offset].at(definition.address))
        best = where[0]
        if best is None:
            missing[symbol] = f"its compile unit names no source file (split or link-time optimised); {WITH_G}"
            continue
        others = dict.fromkeys(unit for entry in where[1:] if entry for _, _, unit in [entry] if unit != best[2])
        located[symbol] = SourceLocation(symbol, best[0], best[1], best[2], tuple(others))
    return FunctionSources(located, missing)


def _unit_offsets(dwarf: Any, addresses: Collection[int]) -> dict[int, int]:
    """Return address -> offset of its compile unit, from .debug_aranges, else from the ranges of all units."""
    offsets: dict[int, int] = {}
    aranges = dwarf.get_aranges()
    if aranges is not None:
        for address in addresses:
            offset = aranges.cu_offset_at_addr(address)
            # pyelftools returns the last range that starts before the address, which may also end before it.
            if offset is not None and _covers(dwarf, dwarf.get_CU_at(offset), address):
                offsets[address] = offset
    left = set(addresses) - set(offsets)
    for unit in dwarf.iter_CUs() if left else ():
        for low, high in _ranges(dwarf, unit):
            for address in [a for a in left if low <= a < high]:
                offsets[address] = unit.cu_offset
                left.discard(address)
        if not left:
            break
    return offsets


def _covers(dwarf: Any, unit: Any, address: int) -> bool:
    return any(low <= address < high for low, high in _ranges(dwarf, unit))


def _ranges(dwarf: Any, unit: Any) -> Iterator[tuple[int, int]]:
    """Yield the address ranges [low, high) of a unit's code."""
    top = unit.get_top_DIE()
    low = top.attributes["DW_AT_low_pc"].value if "DW_AT_low_pc" in top.attributes else 0
    if "DW_AT_high_pc" in top.attributes:
        high = top.attributes["DW_AT_high_pc"]
        yield low, high.value if high.form == "DW_FORM_addr" else low + high.value
    if "DW_AT_ranges" in top.attributes:
        lists = dwarf.range_lists()
        base = low
        for entry in lists.get_range_list_at_offset(top.attributes["DW_AT_ranges"].value, cu=unit):
            if hasattr(entry, "base_address"):
                base = entry.base_address
            elif entry.is_absolute:
                yield entry.begin_offset, entry.end_offset
            else:
                yield base + entry.begin_offset, base + entry.end_offset


class _Lines:
    """The decoded line table of a compile unit."""

    def __init__(self, dwarf: Any, unit: Any) -> None:
        top = unit.get_top_DIE()
        self._folder = _text(top, "DW_AT_comp_dir") or ""
        self._program = dwarf.line_program_for_CU(unit)
        self._version = self._program.header["version"] if self._program else 0
        self._name = self._unit_name(top)
        self._rows = list(self._decode())

    def at(self, address: int) -> tuple[Path, int, Path] | None:
        """Return (file, line, source of the unit) of the function that starts at an address."""
        # The first of several rows for one address is the function's own; rows of code inlined at its start follow.
        entry = next(((f, n) for low, _, f, n in self._rows if low == address), None)
        row = entry or next(((f, n) for low, high, f, n in self._rows if low <= address < high), None)
        written = (self._file(row[0]) if row else None) or self._name
        # Link-time optimisation puts functions of many sources into one unit, <artificial>.
        source = self._name or (written if written and written.suffix in _SOURCES else None)
        return (written, row[1] if row else 0, source) if written and source else None

    def _unit_name(self, top: Any) -> Path | None:
        name = _text(top, "DW_AT_name")
        if name is None and self._version >= 5:  # a split unit's skeleton; file 0 is the unit's source
            return self._file(0)
        return self._absolute(name) if name and not name.startswith("<") else None

    def _decode(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (low, high, file, line): addresses [low, high) belong to that line."""
        before = None
        for entry in self._program.get_entries() if self._program else ():
            state = entry.state
            if state is None:
                continue
            if before is not None:
                yield before.address, state.address, before.file, before.line
            before = None if state.end_sequence else state

    def _file(self, index: int) -> Path | None:
        header = self._program.header
        # DWARF 5 counts files and folders from 0, and folder 0 is the compile directory; before, both from 1.
        first = 0 if self._version >= 5 else 1
        if not 0 <= index - first < len(header["file_entry"]):
            return None
        entry = header["file_entry"][index - first]
        folders = header["include_directory"]
        folder = b""
        if first <= entry.dir_index < len(folders) + first:
            folder = folders[entry.dir_index - first]
        if self._version >= 5 and entry.dir_index == 0:  # the compile directory itself, which may be relative
            return Path(os.path.normpath(os.path.join(os.fsdecode(folder), os.fsdecode(entry.name))))
        return self._absolute(str(Path(os.fsdecode(folder), os.fsdecode(entry.name))))

    def _absolute(self, name: str) -> Path:
        return Path(os.path.normpath(os.path.join(self._folder, name)))


_SOURCES = frozenset((".c", ".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".i", ".ii"))


def _text(die: Any, name: str) -> str | None:
    value = die.attributes[name].value if name in die.attributes else None
    return os.fsdecode(value) if isinstance(value, bytes) else None


def _has_debug_info(elf: Any) -> bool:
    # Stripped files, and those from `objcopy --only-keep-debug`, may have the section without contents.
    sections = (elf.get_section_by_name(name) for name in (".debug_info", ".zdebug_info"))
    return any(s is not None and s["sh_type"] != "SHT_NOBITS" and s["sh_size"] for s in sections)


def _linked_debug_file(elf: Any, binary: Path) -> Path | None:
    return next((path for path in _debug_file_names(elf, binary.resolve()) if _readable_debug(path)), None)


def _debug_file_names(elf: Any, binary: Path) -> Iterable[Path]:
    """Yield the paths of separate debug files as gdb searches them ("Debugging Information in Separate Files")."""
    note = elf.get_section_by_name(".note.gnu.build-id")
    for entry in note.iter_notes() if note is not None else ():
        if entry["n_type"] == "NT_GNU_BUILD_ID":
            build_id = entry["n_desc"]
            yield from (base / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug" for base in DEBUG_FOLDERS)
    if elf.get_section_by_name(".gnu_debuglink") is not None:
        name = os.fsdecode(elf.get_section_by_name(".gnu_debuglink").data().split(b"\0")[0])
        yield binary.parent / name
        yield binary.parent / ".debug" / name
        yield from (base / str(binary.parent).lstrip("/") / name for base in DEBUG_FOLDERS)


def _readable_debug(path: Path) -> bool:
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as file:
            return _has_debug_info(ELFFile(file))
    except Exception:  # not there, or damaged: the next file may have it
        return False


def _all_missing(symbols: Collection[str], reason: str) -> FunctionSources:
    return FunctionSources({}, dict.fromkeys(symbols, reason))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:100] or type(error).__name__
