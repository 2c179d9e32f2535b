"""Recognises commands that compile other languages than C and C++, of whose code `mavcg launch` makes no versions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from mavcg.errors import MavcgError
from mavcg.program.sources.arguments import expand_response_files, words
from mavcg.program.sources.compile_commands import LANGUAGES, compiler_length, without_launchers

if TYPE_CHECKING:
    from mavcg.program.hot_symbols import HotSymbol

_LANGUAGES = {
    "Fortran": (".f", ".for", ".ftn", ".f77", ".f90", ".f95", ".f03", ".f08", ".f18", ".fpp"),
    "Rust": (".rs",),
    "Ada": (".adb", ".ads", ".ada"),
    "D": (".d", ".di"),
    "CUDA": (".cu",),
    "HIP": (".hip",),
    "OpenCL": (".cl",),
    "Objective-C": (".m", ".mm"),
    "Go": (".go",),
    "Swift": (".swift",),
    "ISPC": (".ispc",),
    "Zig": (".zig",),
    "Pascal": (".pas", ".pp"),
    "Nim": (".nim",),
    "Haskell": (".hs",),
    "COBOL": (".cob", ".cbl"),
    "Modula-2": (".mod",),
}
_OF_SUFFIX = {suffix: language for language, suffixes in _LANGUAGES.items() for suffix in suffixes}
# Values of gcc's and clang's -x by the words that they begin with.
_OF_X = {
    "f77": "Fortran",
    "f95": "Fortran",
    "ada": "Ada",
    "d": "D",
    "go": "Go",
    "cuda": "CUDA",
    "hip": "HIP",
    "cl": "OpenCL",
    "objective-c": "Objective-C",
    "rust": "Rust",
    "modula-2": "Modula-2",
    "ir": "LLVM IR",
    "brig": "BRIG",
}
_COMPILERS = {
    "gfortran": "Fortran",
    "flang": "Fortran",
    "flang-new": "Fortran",
    "ifort": "Fortran",
    "ifx": "Fortran",
    "nagfor": "Fortran",
    "nvfortran": "Fortran",
    "rustc": "Rust",
    "gnat": "Ada",
    "gnatmake": "Ada",
    "gdc": "D",
    "dmd": "D",
    "ldc2": "D",
    "ldmd2": "D",
    "nvcc": "CUDA",
    "hipcc": "HIP",
    "gccgo": "Go",
    "go": "Go",
    "swiftc": "Swift",
    "ispc": "ISPC",
    "fpc": "Pascal",
    "nim": "Nim",
    "ghc": "Haskell",
    "cobc": "COBOL",
    "gm2": "Modula-2",
    "gccrs": "Rust",
}
_GCC_LANGUAGES = ("Fortran", "Ada", "D", "Go", "Modula-2")
_MAKES_NO_CODE = ("-E", "-M", "-MM", "-fsyntax-only", "--version", "-V", "-vV", "-h", "--help", "-dumpmachine", "-###")


@dataclass(frozen=True)
class ForeignCommand:
    """A command that compiles another language.

    Args:
        compiler: its name, without folder.
        source: the first source, relative to the command's folder; the command's name if none is given.
        output: the file that it names or that -c makes; None if that is not known.
    """

    compiler: str
    language: str
    source: str
    output: Path | None


def foreign_command(command: Sequence[str], folder: Path) -> ForeignCommand | None:
    """Return what a command compiles, if it is a source of another language or the compiler is one for it; else None.

    Raises: MavcgError for a response file that cannot be read.
    """
    arguments = without_launchers(expand_response_files(command, folder, "command line"))
    start = compiler_length(arguments)
    read = list(words(arguments[start:]))
    names = {word.name for word in read}
    if not start or names & set(_MAKES_NO_CODE) or any(name.startswith(("--print", "-print")) for name in names):
        return None
    compiler = PurePath(arguments[start - 1]).name
    named = next((word.value for word in read if word.name in ("-x", "--language")), "")
    inputs = [word.value for word in read if not word.name]
    by_suffix = {name: _OF_SUFFIX[PurePath(name).suffix.lower()] for name in inputs if _is_foreign(name)}
    language = _of_x(named) if named else next(iter(by_suffix.values()), "") or _of_compiler(compiler)
    if any(PurePath(name).suffix in LANGUAGES for name in inputs) and not by_suffix and language in _GCC_LANGUAGES:
        return None  # gfortran, gnat and gdc are gcc's driver, which compiles C as gcc does
    if not language or not inputs:
        return None
    source = next(iter(by_suffix), inputs[0])
    output = next((word.value for word in reversed(read) if word.name in ("-o", "--output")), "")
    if not output and names & {"-c", "--compile"}:
        output = f"{PurePath(source).stem}.o"
    elif not output and language == "Rust":
        output = _output_of_rustc(arguments[start:], source)
    return ForeignCommand(compiler, language, source, folder / output if output else None)


def refuse_foreign(foreign: ForeignCommand, hot: "Sequence[HotSymbol] | None", strict: bool) -> None:
    """Raise MavcgError if the code of another language may need versions, or if strict.

    hot: the hot functions that the output defines; None if that is not known.
    """
    if hot is None:
        told = "whether it has hot functions is not known; leave out `mavcg launch`"
    elif hot:
        told = f"{', '.join(symbol.given_name for symbol in hot[:3])} cannot have versions"
    elif strict:
        told = "it has no hot function, but --strict allows only what mavcg could version; leave out `mavcg launch`"
    else:
        return
    raise MavcgError(
        f"{foreign.compiler}: {foreign.source} is {foreign.language}, and versions are made of C and C++: {told}; "
        "LLVM IR of it can be given to `mavcg build --ir`"
    )


def _output_of_rustc(arguments: Sequence[str], source: str) -> str:
    """Return the object or program that rustc writes without -o; "" for other kinds of output, or several.

    Source: The rustc book, "Command-line Arguments": --emit, --crate-type, --crate-name, --out-dir, -C extra-filename.
    """
    values: dict[str, str] = {}
    for word, following in zip(arguments, (*arguments[1:], ""), strict=True):
        name, has_value, value = word.partition("=")
        if name == "-C" or name == "--codegen":
            name, _, value = following.partition("=")
        elif name.startswith("-C"):
            name = name[2:]
        elif not has_value:
            value = following
        values[name] = value
    kinds = values.get("--emit", "link").split(",")
    crate = values.get("--crate-name") or PurePath(source).stem
    stem = PurePath(values.get("--out-dir", ""), crate + values.get("extra-filename", ""))
    if "obj" in kinds:
        return f"{stem}.o"
    return str(stem) if kinds == ["link"] and values.get("--crate-type", "bin") == "bin" else ""


def _is_foreign(name: str) -> bool:
    return PurePath(name).suffix.lower() in _OF_SUFFIX


def _of_x(value: str) -> str:
    stem = value.removesuffix("-cpp-output").removesuffix("-cpp-input").removesuffix("-header")
    return _OF_X.get(stem.removesuffix("++"), "")


def _of_compiler(name: str) -> str:
    """Return the language of a compiler's name, which may have a target before it and a version after it."""
    parts = name.removesuffix(".exe").split("-")
    while len(parts) > 1 and parts[-1].replace(".", "").isdigit():
        parts.pop()
    return next((_COMPILERS[tail] for n in range(len(parts)) if (tail := "-".join(parts[n:])) in _COMPILERS), "")
