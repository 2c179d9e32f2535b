"""Reads functions to examine from an assembly file or a binary (object, library, program), as assembly text."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mavcg.assembly.asm_source import AsmSource, read_asm_source
from mavcg.assembly.disassembly import CodeFile
from mavcg.errors import MavcgError
from mavcg.hardware.core import GENERIC, Core
from mavcg.passes.asm.analysis.blocks import Function, functions_of
from mavcg.passes.asm.isa.source import Statement, parse_source


@dataclass(frozen=True)
class AsmInput:
    """The functions to examine. addresses: line of the text -> address of its instruction; empty for assembly files."""

    source: AsmSource
    statements: tuple[Statement, ...]
    functions: tuple[Function, ...]
    addresses: Mapping[int, int] = field(default_factory=dict)


def read_asm_input(path: Path, core: Core, names: Sequence[str] = ()) -> AsmInput:
    """Return the functions with these names, or all functions, of AArch64 assembly or an AArch64 ELF file.

    In a library that mavcg built, a function's name means the version that `core` runs.
    Raises: MavcgError for another kind of file, garbled assembly, an unknown function (names similar ones), and
    stripped symbols.
    """
    with path.open("rb") as file:
        head = file.read(8)
    if head.startswith(b"\x7fELF"):
        code = CodeFile(path)
        symbols = [version_symbol(name, core, tuple(code.symbols), str(path)) for name in names] or _functions_on(
            core, tuple(code.symbols)
        )
        shown = code.disassemble(list(dict.fromkeys(symbols)))
        source, addresses = AsmSource(shown.text, str(path)), shown.addresses
    elif kind := _other_kind(head):
        raise MavcgError(f"{path}: is {kind}; name AArch64 assembly or an ELF object, library or program")
    else:
        source, addresses = read_asm_source(path), {}
    with source.places_in_errors():
        statements = parse_source(source.text, source.file)
        functions = functions_of(statements, source.file)
    if not addresses:
        for name in names:
            if name not in [f.name for f in functions]:
                raise _unknown_name(name, [f.name for f in functions], str(path))
        functions = tuple(f for f in functions if not names or f.name in names)
    return AsmInput(source, statements, functions, addresses)


def version_symbol(name: str, core: Core, symbols: Sequence[str], file: str) -> str:
    """Return the symbol of the code that `core` runs for a function: the function's own if it has no versions.

    A core without its own version runs that of a stand-in, else the generic version.
    Raises: MavcgError for a name that is not a function's, or that several static functions have.
    """
    for label in (core.name, *core.stand_ins, GENERIC):
        # The versions of a static function carry its module's tag: f.1f2e3d4c.cortex-a55.
        pattern = re.compile(rf"{re.escape(name)}(\.[0-9a-f]+)?\.{re.escape(label)}")
        versions = sorted({symbol for symbol in symbols if pattern.fullmatch(symbol)})
        if len(versions) > 1:
            raise MavcgError(f"{file}: {name}: several functions have this name; name one: {', '.join(versions)}")
        if versions:
            return versions[0]
    if name in symbols:
        return name
    raise _unknown_name(name, symbols, file)


def _functions_on(core: Core, symbols: Sequence[str]) -> list[str]:
    """Return all functions without the versions that only other cores run."""
    from mavcg.profiles.folders import files

    labels = {GENERIC, *files("cores")}
    stems = {symbol: symbol for symbol in symbols}
    for symbol in symbols:
        for label in labels:
            if symbol.endswith(f".{label}"):
                stems[symbol] = symbol.removesuffix(f".{label}")
    mine = {stem: version_symbol(stem, core, [s for s in symbols if stems[s] == stem], "") for stem in stems.values()}
    return [symbol for symbol, stem in stems.items() if mine[stem] == symbol]


def _unknown_name(name: str, known: Sequence[str], file: str) -> MavcgError:
    if not known:
        return MavcgError(f"{file}: holds no function; give its label a `.type NAME, %function` or a `.globl NAME`")
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(near)}?" if near else f"it holds {', '.join(sorted(known)[:8])}"
    return MavcgError(f"{file}: no function is named {name}; {hint}")


def _other_kind(head: bytes) -> str:
    """Return the kind of a file by its first bytes, if it is neither ELF nor text."""
    if head.startswith(b"!<arch>"):
        return "an archive (take its members out with `ar x`)"
    if head[:4] in (b"\xcf\xfa\xed\xfe", b"\xfe\xed\xfa\xcf", b"\xca\xfe\xba\xbe", b"\xce\xfa\xed\xfe"):
        return "a Mach-O file"
    if head.startswith(b"MZ"):
        return "a Windows program"
    return "LLVM bitcode" if head[:4] in (b"BC\xc0\xde", b"\xde\xc0\x17\x0b") else ""
