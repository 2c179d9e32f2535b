"""Finds the reason why a compiler command that compiles hot functions gets no versions, by the kind of command."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError
from mavcg.program.sources.arguments import CommandLineWord, expand_response_files, words
from mavcg.program.sources.compile_commands import (
    LANGUAGES,
    CompileUnit,
    compiler_length,
    read_command,
    without_launchers,
)

if TYPE_CHECKING:
    from mavcg.program.hot_symbols import HotSymbol

_MAKES_NO_CODE = ("-E", "-M", "-MM", "-fsyntax-only", "--version", "-dumpmachine", "-###")
_ASSEMBLY = (".s", ".S", ".sx", ".asm")


@dataclass(frozen=True)
class UnversionedOutput:
    """A file with code that gets no versions.

    Args:
        output: the file, which may define hot functions.
        reason: why its functions get no versions, and the remedy.
        is_text: True for assembly text.
    """

    output: Path
    reason: str
    is_text: bool = False


def several_units(command: Sequence[str], folder: Path) -> list[CompileUnit]:
    """Return the units of a command that compiles several sources to an object each; [] for any other command."""
    arguments, read = _read(command, folder)
    sources = [word for word in read if not word.name and PurePath(word.value).suffix in LANGUAGES]
    names = {word.name for word in read}
    if len(sources) < 2 or not names & {"-c", "--compile"} or names & {"-o", "--output", "-S", *_MAKES_NO_CODE}:
        return []
    start = arguments[: compiler_length(arguments)]
    units = []
    for source in sources:
        words_of_unit = [part for word in read if word.name or word is source for part in word.text]
        unit = read_command([*start, *words_of_unit], folder)
        if isinstance(unit, CompileUnit):
            units.append(unit)
    return units


def why_unversioned(command: Sequence[str], folder: Path) -> list[UnversionedOutput]:
    """Return the existing outputs of a command that does not compile one source to an object, with reasons."""
    _, read = _read(command, folder)
    names = {word.name for word in read}
    inputs = [word.value for word in read if not word.name]
    if not inputs or names & set(_MAKES_NO_CODE):
        return []
    named = next((word.value for word in reversed(read) if word.name in ("-o", "--output")), "")
    languages = [word.value for word in read if word.name in ("-x", "--language")]
    is_source = bool(languages) or any(PurePath(name).suffix in LANGUAGES for name in inputs)
    if "-S" in names:
        outputs = [named] if named else [f"{PurePath(name).stem}.s" for name in inputs]
        reason = "is assembly, which may not hold versions; let one command compile and assemble it (-c)"
        unversioned = (
            [UnversionedOutput(folder / name, reason, True) for name in outputs]
            if is_source and "-emit-llvm" not in names
            else []
        )
    elif not names & {"-c", "--compile"}:
        reason = "compiled and linked by one command; compile to an object first (-c)"
        unversioned = [UnversionedOutput(folder / (named or "a.out"), reason)] if is_source else []
    elif "-" in inputs:
        reason = "compiled from standard input, which cannot be read again; compile a file"
        unversioned = [UnversionedOutput(folder / (named or "-.o"), reason)]
    else:
        assembled = [name for name in inputs if PurePath(name).suffix in _ASSEMBLY]
        reason = "assembled, not compiled; `mavcg tune-asm` makes assembly for one core"
        unversioned = [UnversionedOutput(folder / (named or f"{PurePath(name).stem}.o"), reason) for name in assembled]
    return [entry for entry in unversioned if entry.output.is_file()]


def refuse_unversioned(output: UnversionedOutput, hot: "Sequence[HotSymbol]") -> None:
    """Raise MavcgError if the file defines hot functions, other than by objects whose notes say what became of them."""
    from mavcg.program.hot_functions import hot_in_assembly, hot_in_object

    symbols = (hot_in_assembly if output.is_text else hot_in_object)(output.output, hot)
    noted = _noted_functions(output.output) if symbols and not output.is_text else frozenset()
    if symbols := [symbol for symbol in symbols if symbol.name not in noted]:
        names = ", ".join(symbol.given_name for symbol in symbols[:3])
        raise MavcgError(f"{output.output.name}: {names}: {output.reason}")


def _noted_functions(path: Path) -> frozenset[str]:
    """Return the functions that notes of linked objects name: those with versions, and refused ones."""
    from mavcg.objects.inspection import notes

    found: set[str] = set()
    for note in notes(path):
        found |= {function["name"] for function in note.get("functions", ())} | {*note.get("refused", ())}
    return frozenset(found)


@dataclass(frozen=True)
class PreprocessedSource:
    """A source and the file with its preprocessed text.

    Args:
        source: absolute path.
        output: the file with the text.
    """

    source: Path
    output: Path


def preprocessed_source(command: Sequence[str], folder: Path) -> PreprocessedSource | None:
    """Return source and output of a command that preprocesses one source to a file; None for any other command."""
    _, read = _read(command, folder)
    inputs = [word.value for word in read if not word.name]
    output = next((word.value for word in reversed(read) if word.name in ("-o", "--output")), "")
    if not any(word.name == "-E" for word in read) or len(inputs) != 1 or not output:
        return None
    return PreprocessedSource((folder / inputs[0]).absolute(), folder / output) if (folder / output).is_file() else None


def _read(command: Sequence[str], folder: Path) -> tuple[tuple[str, ...], list[CommandLineWord]]:
    arguments = without_launchers(expand_response_files(command, folder, "command line"))
    return arguments, list(words(arguments[compiler_length(arguments) :]))
