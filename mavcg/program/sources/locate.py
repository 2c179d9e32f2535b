"""Finds the compile units that define the hot symbols of a profile, by debug information and object files."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from mavcg.errors import MavcgError
from mavcg.program.profiling.clonable import is_system
from mavcg.program.sources.compile_commands import CompileUnit
from mavcg.program.sources.dwarf import FunctionSources, SourceLocation, locate
from mavcg.program.sources.symbol_table import definitions


@dataclass(frozen=True)
class HotUnit:
    """A compile unit that defines hot functions.

    Args:
        symbols: linkage names of its hot functions, hottest first.
        notes: messages for the user.
    """

    unit: CompileUnit
    symbols: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class HotUnits:
    """The compile units of the hot symbols.

    Args:
        units: in the order of their hottest symbol.
        missing: symbol -> the reason why no unit was found, and the remedy.
    """

    units: tuple[HotUnit, ...]
    missing: Mapping[str, str]


def find_units(
    hot: Sequence[tuple[str, str]], units: Sequence[CompileUnit], binaries: Collection[Path] = ()
) -> HotUnits:
    """Find the compile units that define the hot symbols.

    A symbol's source comes from the binary's debug information; without it, from the object file that defines it.
    Args:
        hot: (linkage name, binary that it ran in as the profile names it), hottest first.
        binaries: copies of the binaries in the profile, matched by file name.
    Raises: MavcgError if a binary is not an ELF file.
    """
    located = _locate_all(hot, binaries)
    by_object = _defining_units([s for s, _ in hot if s not in located.locations], units)
    chosen: dict[CompileUnit, list[str]] = {}
    notes: dict[CompileUnit, list[str]] = {}
    missing = {}
    for symbol, _ in hot:
        source = located.locations.get(symbol)
        candidates = units_of_source(source.unit_source, units) if source else by_object.get(symbol, [])
        if not candidates:
            missing[symbol] = located.missing.get(symbol) or _no_command(located.locations[symbol])
            continue
        unit, note = _chosen_unit(symbol, candidates)
        chosen.setdefault(unit, []).append(symbol)
        notes.setdefault(unit, []).extend(note)
        if source and source.others:
            notes[unit].append(f"{symbol}: functions of that name are also in {', '.join(map(str, source.others))}")
    hot_units = (HotUnit(unit, tuple(dict.fromkeys(names)), tuple(notes[unit])) for unit, names in chosen.items())
    return HotUnits(tuple(hot_units), missing)


def _locate_all(hot: Sequence[tuple[str, str]], binaries: Collection[Path]) -> FunctionSources:
    located: dict[str, SourceLocation] = {}
    missing: dict[str, str] = {}
    for object_ in dict.fromkeys(object_ for _, object_ in hot):
        symbols = [symbol for symbol, where in hot if where == object_]
        path = _binary_of(object_, binaries)
        answer = _locate_in(object_, path, symbols, is_named=path in binaries)
        located |= answer.locations
        missing |= answer.missing
    return FunctionSources(located, missing)


def _locate_in(object_: str, path: Path | None, symbols: Sequence[str], is_named: bool) -> FunctionSources:
    reason = f"the binary {object_} it ran in is not here; name a copy of it, or the source with --source"
    if path is not None:
        try:
            answer = locate(path, symbols)
        except MavcgError as error:
            if is_named:
                raise
            reason = str(error)  # code made while running: /tmp/perf-123.map
        else:
            system = f"it is in {path.name}, a system library, which has no compile command here"
            return FunctionSources(
                answer.locations, dict.fromkeys(symbols, system) if is_system(object_) else answer.missing
            )
    return FunctionSources({}, dict.fromkeys(symbols, reason))


def _binary_of(object_: str, binaries: Collection[Path]) -> Path | None:
    name = PurePath(object_).name
    given = next((path for path in binaries if path.name == name), None)
    return given or (Path(object_) if os.path.isabs(object_) and os.path.isfile(object_) else None)


def units_of_source(source: Path, units: Sequence[CompileUnit]) -> list[CompileUnit]:
    """Return the units that compile a source; if no path is equal, those with the longest common end of the path.

    The common end must have the file name and a folder, unless only one source has that file name.
    """
    real = os.path.realpath(source)
    same = [unit for unit in units if os.path.realpath(unit.source) == real]
    if same:
        return same
    named = [unit for unit in units if unit.source.name == source.name]
    agreeing = {unit: _common_end(unit.source, source) for unit in named}
    best = max(agreeing.values(), default=0)
    close = [unit for unit in named if agreeing[unit] == best]
    return close if best > 1 or len({unit.source for unit in named}) == 1 else []


def _common_end(left: Path, right: Path) -> int:
    pairs = zip(reversed(left.parts), reversed(right.parts), strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left.parts), len(right.parts)))


def _defining_units(symbols: Sequence[str], units: Sequence[CompileUnit]) -> dict[str, list[CompileUnit]]:
    """Return symbol -> units whose object file exists and defines it."""
    defining: dict[str, list[CompileUnit]] = {}
    for unit in units if symbols else ():
        for symbol in _definitions_in(unit, symbols):
            defining.setdefault(symbol, []).append(unit)
    return defining


def _definitions_in(unit: CompileUnit, symbols: Collection[str]) -> list[str]:
    from elftools.elf.elffile import ELFFile

    if unit.output is None or not unit.output.is_file():
        return []
    try:
        with unit.output.open("rb") as file:
            if file.read(6) != b"\x7fELF\x02\x01":
                return []
            return list(definitions(ELFFile(file), symbols))
    except Exception:  # a damaged or unreadable object is ignored
        return []


def _chosen_unit(symbol: str, candidates: Sequence[CompileUnit]) -> tuple[CompileUnit, list[str]]:
    """Choose a unit for a source that is compiled several times: one whose object defines the symbol, else the first.

    Returns: the unit, and notes for the user.
    """
    if len(candidates) == 1:
        return candidates[0], []
    defining = [unit for unit in candidates if _definitions_in(unit, [symbol])]
    if len(defining) == 1:
        return defining[0], []
    unit = (defining or candidates)[0]
    others = ", ".join(str(c.output or c.source) for c in (defining or candidates) if c is not unit)
    return unit, [f"{symbol}: compiled several times; taken is {unit.output or unit.source}, not {others}"]


def _no_command(source: SourceLocation) -> str:
    return (
        f"it comes from {source.unit_source}, which has no compile command here; name that file with --source, "
        "or make compile_commands.json cover it"
    )
