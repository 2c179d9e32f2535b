"""The units of a build's inputs: its sources, found by name or pattern, and the commands of compile_commands.json."""

import glob
from collections.abc import Sequence
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.program.build_values import NothingToVersion
from mavcg.program.buildfile import BuildFile
from mavcg.program.hot_symbols import HotSymbol
from mavcg.program.sources.asm_unit import SUFFIXES as ASM_SUFFIXES
from mavcg.program.sources.asm_unit import AsmUnit, asm_unit
from mavcg.program.sources.compile_commands import CompileUnit, NotAUnit, read_command, read_compile_commands
from mavcg.program.sources.drivers import checked_drivers, parse_query_drivers

_C_SUFFIXES = (".c", ".i")


def source_units(file: BuildFile, folder: Path) -> tuple[tuple[CompileUnit, ...], tuple[AsmUnit, ...]]:
    """Return the units of the sources in C and C++, and of those in assembly.

    Raises: MavcgError for a name or pattern without a file, and for a file that no compiler of C or C++ takes.
    """
    units: list[CompileUnit] = []
    assembly: list[AsmUnit] = []
    for pattern in file.sources:
        if glob.escape(pattern) == pattern or (folder / pattern).exists():
            names = [pattern]
        else:
            names = sorted(glob.glob(pattern, root_dir=folder, recursive=True))
        if not names:
            raise MavcgError(f"--source {pattern}: matches no file; correct the pattern")
        for name in names:
            if Path(name).suffix in ASM_SUFFIXES:
                assembly.append(asm_unit(_existing(folder / name), file.flags, folder))
            else:
                units.append(_unit(name, file.flags, folder))
    return tuple(dict.fromkeys(units)), tuple(dict.fromkeys(assembly))  # a file that two patterns match is built once


def _existing(source: Path) -> Path:
    if not source.is_file():
        fault = "is a folder" if source.is_dir() else "is not there"
        raise MavcgError(f"--source {source}: {fault}; name a C, C++ or assembly file")
    return source


def _unit(name: str, flags: Sequence[str], folder: Path) -> CompileUnit:
    source = _existing(folder / name)
    driver = "cc" if source.suffix in _C_SUFFIXES else "c++"
    level = () if any(flag.startswith("-O") for flag in flags) else ("-O3",)
    # The name within the folder, so that __FILE__, and with it the library, does not depend on where the folder lies.
    directory, absolute = folder.absolute(), source.absolute()
    written = str(absolute.relative_to(directory)) if absolute.is_relative_to(directory) else name
    unit = read_command([driver, *level, *flags, "-c", written], directory, f"--source {source}")
    if isinstance(unit, NotAUnit):
        raise MavcgError(f"--source {source}: {unit.reason}; name a C, C++ or assembly file, or give IR by --ir")
    return unit


def command_units(
    file: BuildFile, folder: Path, hot: Sequence[HotSymbol]
) -> tuple[tuple[CompileUnit, ...], tuple[str, ...]]:
    """Return (units, notes): all units of compile_commands.json, or with --only-hot those that define hot functions.

    Raises: NothingToVersion if, with --only-hot, no unit defines one.
    """
    if not file.compile_commands:
        return (), ()
    commands = read_compile_commands(folder / file.compile_commands)
    units = commands.units
    if not file.only_hot:
        return _with_drivers(units, file), commands.notes
    from mavcg.program.sources.locate import find_units

    located = find_units([(symbol.given_name, symbol.object) for symbol in hot], units)
    if not located.units:
        symbol, why = next(iter(located.missing.items()))
        raise NothingToVersion(f"--only-hot: no file of {file.compile_commands} holds a hot function; {symbol}: {why}")
    notes = [note for unit in located.units for note in unit.notes]
    notes += [f"{symbol}: {why}" for symbol, why in located.missing.items()]
    return _with_drivers([unit.unit for unit in located.units], file), (*commands.notes, *notes)


def _with_drivers(units: Sequence[CompileUnit], file: BuildFile) -> tuple[CompileUnit, ...]:
    """Return the units with their compilers checked, unless --compiler is given, so that they are not run."""
    allowed = parse_query_drivers(file.query_driver)
    return tuple(units) if file.compiler else checked_drivers(units, allowed)
