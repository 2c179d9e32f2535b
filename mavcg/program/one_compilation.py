"""Compiles a C file of a build by its own gcc once, to assembly, where its hot functions will get versions.

Otherwise gcc runs twice: for the build's object, and for the assembly that cold functions are taken from. The object of
the build's own command is made if this one cannot be used after all, so that an object without versions is always that
of the command as it was given.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.program.depfile import dependency_file
from mavcg.program.sources.arguments import words
from mavcg.program.sources.compile_commands import CompileUnit, read_command
from mavcg.program.sources.dependencies import files_in_rule
from mavcg.program.sources.to_assembly import (
    DROPPED,
    DROPPED_STARTS,
    PlainAssembly,
    assembly_options,
    gcc_version,
    read_assembly,
    why_bound,
)

# Words that are written anew for the output, and those that say which messages are errors: both are kept or replaced.
_OUTPUT = ("-c", "--compile", "-o", "--output")
_DEPENDENCIES = ("-MD", "-MMD", "-MP", "-MT", "-MQ", "-MF")
_MESSAGES = ("-Werror", "-pedantic-errors")


@dataclass(frozen=True)
class OnceCompiled:
    """A unit whose object was assembled from gcc's assembly, and that assembly."""

    unit: CompileUnit
    own: PlainAssembly

    @property
    def command(self) -> list[str]:
        """The command that makes the object as the build's own does, without messages and dependency file."""
        flags = [word.text for word in words(self.unit.flags) if word.name not in _DEPENDENCIES]
        return [*self.unit.compiler, *(part for text in flags for part in text), "-w"]

    def keeps_object(self, inode: int) -> bool:
        """True if the unit's object is still the one with this inode, or gone: another one replaces it by a rename."""
        assert self.unit.output is not None
        return not self.unit.output.exists() or self.unit.output.stat().st_ino == inode


def defines(text: bytes, names: Sequence[bytes]) -> bool:
    """True if a C text seems to define a function with one of these names: parentheses and a brace follow it."""
    among, parentheses = b"|".join(map(re.escape, names)), rb"\((?:[^;{}()]|\([^;{}()]*\))*\)"
    return bool(re.search(rb"\b(?:%s)\s*%s(?:[\w\s]|%s)*\{" % (among, parentheses, parentheses), text))


class NotAtOnce(Exception):
    """Raised if a command fails where its source is compiled once. shown: True if its messages have been shown."""

    def __init__(self, shown: bool) -> None:
        super().__init__()
        self.shown = shown


def compile_once(
    command: Sequence[str], directory: Path, names: Sequence[bytes], run: Callable[[Sequence[str]], int]
) -> OnceCompiled | None:
    """Compile a unit to assembly, and this to its object; None for a unit that must be compiled as its command says.

    Messages and the dependency file are those of the command itself, which runs in `directory`, the current folder.
    names: those of which an object with hot functions has one. run: runs a compiler, and returns its exit status.
    Raises: NotAtOnce if it fails; OSError before anything is compiled.
    """
    try:
        unit = read_command(command, directory)
        if not isinstance(unit, CompileUnit) or unit.output is None or unit.is_cxx or not unit.source.is_file():
            return None
        version = gcc_version(unit.compiler)
    except MavcgError:
        return None
    if not version or why_bound(unit) or not defines(unit.source.read_bytes(), names):
        return None
    flags = _flags(unit)
    if flags is None:
        return None
    with scratch_folder("mavcg-") as folder:
        options = assembly_options(folder, clones=True, depends=dependency_file(unit) is None)
        if run([*unit.compiler, *flags, *options]):
            raise NotAtOnce(shown=True)
        try:
            own = _with_inputs(read_assembly(unit, folder), unit)
            own.assemble(own.text, folder / "plain.o")
            unit.output.write_bytes((folder / "plain.o").read_bytes())
        except Exception as error:  # whatever it is, the build wants its object
            raise NotAtOnce(shown=False) from error
    return OnceCompiled(unit, own)


def _with_inputs(own: PlainAssembly, unit: CompileUnit) -> PlainAssembly:
    """Return assembly with the files that gcc read, from the build's own dependency file if that names all of them."""
    depends = dependency_file(unit)
    if depends is None or any(word.name == "-MMD" for word in words(unit.flags)):
        return own
    return replace(own, inputs=files_in_rule(depends, unit.directory))


def _flags(unit: CompileUnit) -> list[str] | None:
    """Return the flags of a unit without its output, and with the names in its dependency file; None for others."""
    kept: list[str] = []
    for word in words(unit.flags):
        if word.name in _OUTPUT:
            continue
        known = word.name in (*_DEPENDENCIES, *_MESSAGES) or word.name.startswith("-Werror=")
        if not known and (word.name in DROPPED or word.name.startswith(DROPPED_STARTS)):
            return None
        kept += word.text
    depends = dependency_file(unit)
    given = {word.name for word in words(unit.flags)}
    if depends is not None and "-MF" not in given:
        kept += ["-MF", str(depends)]
    if depends is not None and not given & {"-MT", "-MQ"}:
        output = next((word.value for word in words(unit.flags) if word.name in ("-o", "--output")), "")
        kept += ["-MQ", output or f"{unit.source.stem}.o"]
    return kept
