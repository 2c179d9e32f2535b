"""Why a compiler command whose code has hot functions gets no versions: a reason for each kind of command."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from mavcg.sources.arguments import Word, expand_response_files, words
from mavcg.sources.compile_commands import (
    LANGUAGES,
    CompileUnit,
    compiler_length,
    read_command,
    without_launchers,
)

_MAKES_NO_CODE = ("-E", "-M", "-MM", "-fsyntax-only", "--version", "-dumpmachine", "-###")
_ASSEMBLY = (".s", ".S", ".sx", ".asm")


@dataclass(frozen=True)
class Unversioned:
    """output: the file with the code, perhaps with hot functions. reason: why they get no versions, and the way out."""

    output: Path
    reason: str
    is_text: bool = False


def several_units(command: Sequence[str], folder: Path) -> list[CompileUnit]:
    """The units of a command that compiles several sources to an object each; none for any other command."""
    arguments, read = _read(command, folder)
    sources = [word for word in read if not word.name and PurePath(word.value).suffix in LANGUAGES]
    names = {word.name for word in read}
    if len(sources) < 2 or not names & {"-c", "--compile"} or names & {"-o", "--output", "-S", *_MAKES_NO_CODE}:
        return []
    start = arguments[: compiler_length(arguments)]
    found = []
    for source in sources:
        kept = [part for word in read if word.name or word is source for part in word.text]
        unit = read_command([*start, *kept], folder)
        if isinstance(unit, CompileUnit):
            found.append(unit)
    return found


def why_unversioned(command: Sequence[str], folder: Path) -> list[Unversioned]:
    """What a command that is no unit made all the same, by file; files that are not there are left out."""
    _, read = _read(command, folder)
    names = {word.name for word in read}
    inputs = [word.value for word in read if not word.name]
    if not inputs or names & set(_MAKES_NO_CODE):
        return []
    named = next((word.value for word in reversed(read) if word.name in ("-o", "--output")), "")
    languages = [word.value for word in read if word.name in ("-x", "--language")]
    is_source = bool(languages) or any(PurePath(name).suffix in LANGUAGES for name in inputs)
    if "-S" in names:
        made = [named] if named else [f"{PurePath(name).stem}.s" for name in inputs]
        reason = "is assembly, which may not hold versions; let one command compile and assemble it (-c)"
        found = (
            [Unversioned(folder / name, reason, True) for name in made]
            if is_source and "-emit-llvm" not in names
            else []
        )
    elif not names & {"-c", "--compile"}:
        reason = "compiled and linked by one command; compile to an object first (-c)"
        found = [Unversioned(folder / (named or "a.out"), reason)] if is_source else []
    elif "-" in inputs:
        reason = "compiled from standard input, which cannot be read again; compile a file"
        found = [Unversioned(folder / (named or "-.o"), reason)]
    else:
        assembled = [name for name in inputs if PurePath(name).suffix in _ASSEMBLY]
        reason = "assembled, not compiled; `mavcg tune-asm` makes assembly for one core"
        found = [Unversioned(folder / (named or f"{PurePath(name).stem}.o"), reason) for name in assembled]
    return [one for one in found if one.output.is_file()]


@dataclass(frozen=True)
class Preprocessed:
    """source: absolute; output: the file with its preprocessed text."""

    source: Path
    output: Path


def preprocessed(command: Sequence[str], folder: Path) -> Preprocessed | None:
    """What a command that preprocesses one source into a file made; None for any other command."""
    _, read = _read(command, folder)
    inputs = [word.value for word in read if not word.name]
    output = next((word.value for word in reversed(read) if word.name in ("-o", "--output")), "")
    if not any(word.name == "-E" for word in read) or len(inputs) != 1 or not output:
        return None
    return Preprocessed((folder / inputs[0]).absolute(), folder / output) if (folder / output).is_file() else None


def _read(command: Sequence[str], folder: Path) -> tuple[tuple[str, ...], list[Word]]:
    arguments = without_launchers(expand_response_files(command, folder, "command line"))
    return arguments, list(words(arguments[compiler_length(arguments) :]))
