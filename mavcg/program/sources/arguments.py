"""Splits a gcc or clang command line into options with their values and inputs, and expands response files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import MavcgError

# Options whose value is the next word, unless it is joined to them (GCC manual, "Option Summary"; clang --help).
SEPARATE_OR_JOINED = (
    "-o",
    "-x",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-T",
    "-u",
    "-z",
    "-F",
    "-B",
    "-A",
    "-G",
    "-e",
    "-include",
    "-imacros",
    "-isystem",
    "-idirafter",
    "-iquote",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-isysroot",
    "-imultilib",
    "-iframework",
    "-cxx-isystem",
    "-stdlib++-isystem",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
)
SEPARATE = (
    "-Xclang",
    "-Xpreprocessor",
    "-Xassembler",
    "-Xlinker",
    "-Xanalyzer",
    "-mllvm",
    "-target",
    "-arch",
    "-framework",
    "-aux-info",
    "-wrapper",
    "-include-pch",
    "-ivfsoverlay",
    "-gcc-toolchain",
    "-dumpbase",
    "-dumpdir",
    "-dumpbase-ext",
    "--param",
    "--sysroot",
    "--output",
    "--include",
    "--include-directory",
    "--define-macro",
    "--undefine-macro",
    "--language",
    "--target",
    "-working-directory",
    "-serialize-diagnostics",
    "--serialize-diagnostics",
)
# Longest first, so that -isystem is not taken for -i..., nor -include-pch for -include.
_JOINABLE = tuple(sorted(SEPARATE_OR_JOINED, key=len, reverse=True))
# Options that begin like a joinable one but are separate options.
_WHOLE = frozenset({"-undef", "-ansi", "-shared", "-include-pch"})

MAX_RESPONSE_DEPTH = 20  # maximum nesting of response files
MAX_RESPONSE_BYTES = 16 << 20  # of all response files of a command, each as often as it is named


@dataclass(frozen=True)
class CommandLineWord:
    """An option or input of a command line.

    Args:
        name: such as "-I" or "-O2"; "" for an input.
        value: the option's value, or the input.
        text: its words on the command line.
    """

    name: str
    value: str
    text: tuple[str, ...]


def words(arguments: Sequence[str]) -> Iterator[CommandLineWord]:
    """Yield the options and inputs of a command line without its compiler, in order.

    A value that is missing at the end is "".
    """
    remaining = iter(arguments)
    for argument in remaining:
        if not argument.startswith("-") or argument == "-":
            yield CommandLineWord("", argument, (argument,))
        elif argument in SEPARATE or argument in SEPARATE_OR_JOINED:
            value = next(remaining, "")
            yield CommandLineWord(argument, value, (argument, value))
        else:
            joined = next((o for o in _JOINABLE if argument.startswith(o)), None)
            if joined and argument not in _WHOLE and not argument.startswith("--") and _may_join(joined, argument):
                yield CommandLineWord(joined, argument[len(joined) :], (argument,))
            else:
                yield CommandLineWord(argument, "", (argument,))


def _may_join(option: str, argument: str) -> bool:
    # -e, -u, -z and -A seldom have a joined value, and clang has longer options that begin with them (-emit-llvm,
    # -export-dynamic).
    return option not in {"-e", "-u", "-z", "-A"} or (option == "-u" and argument.startswith("-u_"))


def expand_response_files(arguments: Sequence[str], directory: Path, location: str) -> tuple[str, ...]:
    """Replace each @file by the words in it, as gcc does.

    Args:
        directory: the folder for relative paths of files.
    Raises: MavcgError starting with `location` when a file cannot be read, when files name each other in a cycle, or
        when they have more than MAX_RESPONSE_BYTES together.
    """
    size = 0

    def expand(words_in: Sequence[str], depth: int) -> Iterator[str]:
        nonlocal size
        for word in words_in:
            if not word.startswith("@") or word == "@":
                yield word
                continue
            if "\0" in word:
                raise MavcgError(f"{location}: response file {word!r}: no file has such a name; correct the command")
            if depth >= MAX_RESPONSE_DEPTH:
                raise MavcgError(f"{location}: response file {word}: {depth} files deep; do the files name each other?")
            try:
                text, bytes_read = _read_response(directory / word[1:], size, f"{location}: response file {word}")
            except OSError as error:
                raise MavcgError(
                    f"{location}: response file {word} in {directory}: {error.strerror}; build the program once so "
                    "that its build system writes the file"
                ) from error
            size += bytes_read
            yield from expand(split_response(text), depth + 1)

    return tuple(expand(arguments, 0))


def _read_response(path: Path, before: int, location: str) -> tuple[str, int]:
    """Return a response file's text and size in bytes. before: size of those that were read before it."""
    # Reading a device or pipe might never end.
    if path.exists() and not path.is_file():
        raise MavcgError(f"{location}: is not a file; correct the command")
    size = path.stat().st_size
    if before + size > MAX_RESPONSE_BYTES:
        others = f", and {before} bytes were read before it" if before else ""
        raise MavcgError(f"{location}: is {size} bytes{others}, of {MAX_RESPONSE_BYTES} at most; correct the command")
    return path.read_text(errors="surrogateescape"), size


def split_response(text: str) -> list[str]:
    """Split a response file into words: blanks separate, quotes group, a backslash escapes the next character.

    Source: GCC manual, "Overall Options", @file. Unlike a shell, a backslash also counts inside single quotes,
    and a quote that is never closed ends with the file.
    """
    parts: list[str] = []
    current: list[str] | None = None
    quote = ""
    characters = iter(text)
    for character in characters:
        if character == "\\":
            (current := current if current is not None else []).append(next(characters, ""))
        elif quote:
            if character == quote:
                quote = ""
            else:
                (current := current if current is not None else []).append(character)
        elif character in "'\"":
            quote = character
            current = current if current is not None else []
        elif character.isspace():
            if current is not None:
                parts.append("".join(current))
            current = None
        else:
            (current := current if current is not None else []).append(character)
    if current is not None:
        parts.append("".join(current))
    return parts
