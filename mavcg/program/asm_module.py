"""Reads the assembly files of a build: preprocesses them and finds their functions."""

from dataclasses import dataclass

from mavcg.assembly.asm_source import AsmSource, preprocess, read_asm_source
from mavcg.assembly.repetitions import TooLong
from mavcg.errors import MavcgError
from mavcg.passes.asm.analysis.blocks import Function, functions_of
from mavcg.passes.asm.isa.source import Statement, parse_source
from mavcg.program.sources.asm_unit import AsmUnit
from mavcg.toolchain.target import Target


@dataclass(frozen=True)
class AsmModule:
    """A preprocessed assembly file.

    Args:
        statements, functions: empty for a file that is not analysed.
        global_names: its global labels.
        why: the reason why it is not analysed; else "".
    """

    unit: AsmUnit
    text: str
    statements: tuple[Statement, ...] = ()
    functions: tuple[Function, ...] = ()
    global_names: tuple[str, ...] = ()
    why: str = ""

    @property
    def source(self) -> str:
        return self.unit.source.name

    @property
    def function_names(self) -> tuple[str, ...]:
        """Names of the functions that may be hot."""
        return self.global_names or tuple(function.name for function in self.functions)


def read_asm_module(unit: AsmUnit, target: Target) -> AsmModule:
    """Preprocess an assembly file for a target and find its functions.

    Raises: MavcgError with file, line and column if it does not preprocess or, for AArch64, assemble.
    """
    if target.arch != "aarch64" or target.system == "macos":
        source = preprocess(unit.source, unit.flags, target.zig_name)
        kind = "x86 assembly" if target.arch == "x86_64" else "assembly for macOS"
        return AsmModule(unit, source.text, global_names=_global_labels(source), why=f"{kind} is not rescheduled")
    try:
        source = read_asm_source(unit.source, flags=unit.flags, target=target.zig_name)
    except TooLong as error:  # perhaps a long table; it is built without versions
        source = preprocess(unit.source, unit.flags, target.zig_name)
        return AsmModule(unit, source.text, global_names=_global_labels(source), why=str(error))
    try:
        with source.places_in_errors():
            statements = parse_source(source.text, source.file)
            functions = functions_of(statements, source.file)
    except MavcgError as error:  # it assembles, but the passes cannot read it: it is built without versions
        return AsmModule(unit, source.text, global_names=_global_labels(source), why=str(error))
    return AsmModule(unit, source.text, statements, functions)


def _global_labels(source: AsmSource) -> tuple[str, ...]:
    """Return the global labels of assembly for any architecture."""
    lines = [line.split("#")[0].strip() for line in source.text.split("\n")]
    labels = {line.split(":")[0].strip('"') for line in lines if ":" in line}
    words = [line.replace(",", " ").split() for line in lines]
    directives = [word[1:] for word in words if word and word[0] in (".globl", ".global", ".weak")]
    exported = [name.strip('"') for group in directives for name in group]
    return tuple(dict.fromkeys(name for name in exported if name in labels))
