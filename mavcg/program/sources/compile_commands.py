"""Reads compile_commands.json, or one command line, as compile units: a source with its folder and command."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated, Any

from msgspec import Meta

from mavcg.errors import MavcgError
from mavcg.files.decode import read_json
from mavcg.program.sources.arguments import expand_response_files, words

LANGUAGES = {
    **dict.fromkeys((".c",), "c"),
    **dict.fromkeys((".i",), "cpp-output"),
    **dict.fromkeys((".ii",), "c++-cpp-output"),
    **dict.fromkeys((".cc", ".cp", ".cxx", ".cpp", ".CPP", ".c++", ".C"), "c++"),
}
LAUNCHERS = ("ccache", "sccache", "distcc", "icecc", "buildcache", "time", "nice", "mavcg-launch")

# Options with which a command does not compile one source to one object, with a description of what it does instead.
_NOT_OBJECTS = {
    "-E": "preprocesses only (-E)",
    "-S": "makes assembly (-S), not an object",
    "-M": "lists dependencies only (-M)",
    "-MM": "lists dependencies only (-MM)",
    "-fsyntax-only": "checks the syntax only (-fsyntax-only)",
    "-emit-ast": "makes an AST file (-emit-ast)",
    "-emit-llvm": "makes LLVM IR itself (-emit-llvm); give that file with --ir",
    "--precompile": "makes a module (--precompile)",
    "-###": "prints commands only (-###)",
    "--version": "prints the version",
    "-dumpmachine": "prints the machine",
}


@dataclass(frozen=True)
class CompileUnit:
    """One C or C++ source compiled to one object.

    Args:
        source, output: absolute paths; output None if the command writes no file.
        directory: the folder that the compiler runs in.
        arguments: the command, without launchers such as ccache, with response files expanded.
        language: as for `-x`: "c", "c++", "cpp-output" or "c++-cpp-output".
    """

    source: Path
    directory: Path
    arguments: tuple[str, ...]
    output: Path | None
    language: str

    @property
    def compiler(self) -> tuple[str, ...]:
        """The words that run the compiler: ("g++",), ("zig", "c++"), ("python3", "-m", "ziglang", "cc")."""
        return self.arguments[: compiler_length(self.arguments)]

    @property
    def flags(self) -> tuple[str, ...]:
        """The words after the compiler."""
        return self.arguments[compiler_length(self.arguments) :]

    @property
    def source_as_written(self) -> str:
        """The source as the command names it, which __FILE__ is in the program's own build.

        With an absolute name instead, the same sources in another folder would give other bytes.
        """
        same = (word for word in self.flags if word[:1] != "-" and (self.directory / word).absolute() == self.source)
        return next(same, str(self.source))

    @property
    def is_cxx(self) -> bool:
        """True if the source is C++."""
        return self.language.startswith("c++")


@dataclass(frozen=True)
class NotAUnit:
    """A command that does not compile one C/C++ source to an object, and the reason."""

    reason: str


def compiler_length(arguments: Sequence[str]) -> int:
    """Return the number of leading words that run the compiler."""
    names = [PurePath(word).name.removesuffix(".exe") for word in arguments[:4]]
    if names[:1] == ["zig"] or names[1:3] == ["-m", "ziglang"]:
        return min(len(arguments), 2 if names[0] == "zig" else 4)
    return min(len(arguments), 1)


def read_command(arguments: Sequence[str], directory: Path, location: str = "command line") -> CompileUnit | NotAUnit:
    """Return the unit that a command line compiles, or the reason why it does not compile one.

    Args:
        arguments: the compiler (or a launcher such as ccache) first.
        directory: the folder that it runs in.
    Raises: MavcgError starting with `location` for a response file that cannot be read.
    """
    arguments = without_launchers(expand_response_files(arguments, directory, location))
    start = compiler_length(arguments)
    driver = PurePath(arguments[start - 1]).name if start else ""
    inputs: list[tuple[str, str]] = []  # path, language of -x, or ""
    language, output, compiles = "", "", False
    for word in words(arguments[start:]):
        if reason := _NOT_OBJECTS.get(word.name):
            return NotAUnit(reason)
        if word.name in ("-x", "--language"):
            language = "" if word.value == "none" else word.value
        elif word.name in ("-o", "--output"):
            output = word.value
        elif word.name in ("-c", "--compile"):
            compiles = True
        elif not word.name:
            inputs.append((word.value, language))
    if not inputs:
        return NotAUnit("names no source file")
    if not compiles:
        return NotAUnit("links (no -c)")
    sources = [(path, language or _language_of(path, driver)) for path, language in inputs]
    if len(sources) > 1:
        return NotAUnit(f"compiles several sources at once ({', '.join(path for path, _ in sources)})")
    path, language = sources[0]
    if path == "-":
        return NotAUnit("compiles standard input (-)")
    if reason := _refusal(path, language):
        return NotAUnit(reason)
    object_name = output or PurePath(path).stem + ".o"
    return CompileUnit(
        source=(directory / path).absolute(),
        directory=directory,
        arguments=tuple(arguments),
        output=None if object_name in ("-", "/dev/null") else (directory / object_name).absolute(),
        language=language,
    )


def _language_of(path: str, driver: str) -> str:
    language = LANGUAGES.get(PurePath(path).suffix, "")
    # g++, clang++ and "zig c++" compile C sources as C++ (GCC manual, "Invoking G++").
    return {"c": "c++", "cpp-output": "c++-cpp-output"}.get(language, language) if "++" in driver else language


def _refusal(path: str, language: str) -> str:
    if language in LANGUAGES.values():
        return ""
    if language.startswith("assembler") or PurePath(path).suffix in (".s", ".S", ".sx", ".asm"):
        return f"assembles {path}"
    if language.endswith("-header") or PurePath(path).suffix in (".h", ".hh", ".hpp", ".hxx", ".H", ".tcc"):
        return f"precompiles the header {path}"
    return f"compiles {path}, which is not C or C++" + (f" (-x {language})" if language else "")


def without_launchers(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a command without launchers (ccache, env, mavcg launch) before the compiler."""
    command = list(arguments)
    while command:
        name = PurePath(command[0]).name
        if name == "env":
            command = command[1:]
            while command and "=" in command[0] and not command[0].startswith("-"):
                command = command[1:]
        elif name in LAUNCHERS and len(command) > 1 and not command[1].startswith("-"):
            command = command[1:]
        elif name == "mavcg" and command[1:2] == ["launch"]:
            command = command[3:] if command[2:3] == ["--"] else command[2:]
        else:
            break
    return tuple(command)


_REMEDY = "CMake writes the file with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON, make by `bear -- make`"
_NUMBER = re.compile(r"^\[(\d+)\]\.?")
_Name = Annotated[str, Meta(pattern="^[^\0]+$", description="a string that names a path")]


@dataclass(frozen=True)
class _Entry:
    """An entry of a compile_commands.json."""

    directory: _Name
    file: _Name
    command: str | None = None
    arguments: Annotated[tuple[str, ...], Meta(description="a list of strings")] | None = None
    output: Any = None


@dataclass(frozen=True)
class CompileCommands:
    """The units of a compile_commands.json, and notes on entries that were left out."""

    units: tuple[CompileUnit, ...]
    notes: tuple[str, ...] = ()


def read_compile_commands(path: Path) -> CompileCommands:
    """Return the compile units of a compile_commands.json, in its order, without duplicates.

    Entries that do not compile one C or C++ source (assembly, Fortran, links) are left out; so are those with an empty
    command, with a note. Raises: MavcgError with the file and the entry, for an entry that is not valid. Source:
    clang's "JSON Compilation Database Format Specification".
    """

    def place(key: str) -> str:
        return f"{path}: " + _NUMBER.sub(r"entry \1: ", key, count=1).removesuffix(": ")

    document = read_json(path, _REMEDY)._replace(place=place)
    entries = document.decode(tuple[_Entry, ...], of_others=True)
    read = [_read_entry(entry, f"{path}: entry {number} ({entry.file})", path) for number, entry in enumerate(entries)]
    units = dict.fromkeys(unit for unit in read if isinstance(unit, CompileUnit))
    return CompileCommands(tuple(units), tuple(note for note in read if isinstance(note, str)))


def _read_entry(entry: _Entry, location: str, path: Path) -> CompileUnit | NotAUnit | str:
    """Return an entry's unit, the reason why it is not one, or a note for an entry without a command."""
    # Some tools write a relative directory, against the specification: it is relative to the file's folder.
    directory = (path.parent / entry.directory).absolute()
    arguments = _arguments(entry, location)
    if not arguments or not arguments[0].strip():
        return f"{location}: an empty command; the entry is left out"
    unit = read_command(arguments, directory, location)
    if isinstance(unit, CompileUnit) and unit.output is None and isinstance(entry.output, str):
        return CompileUnit(unit.source, directory, unit.arguments, directory / entry.output, unit.language)
    return unit


def _arguments(entry: _Entry, location: str) -> list[str]:
    if entry.arguments is not None:
        return list(entry.arguments)
    if entry.command is None:
        raise MavcgError(f'{location}: neither "command" nor "arguments"; one of them says how the file is compiled')
    if "\0" in entry.command:
        raise MavcgError(f'{location}: "command" has a zero byte, which no command can; {_REMEDY}')
    try:
        return shlex.split(entry.command)
    except ValueError as error:
        raise MavcgError(f'{location}: "command" cannot be split into words: {error}') from error
