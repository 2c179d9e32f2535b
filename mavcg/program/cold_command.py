"""Reads a compiler's command line for the short way of `mavcg launch` (cold_launch.py), which imports nothing but os.

It knows the options of most commands of a build. A command with another one is None here; the long way reads it
(sources/compile_commands.py, sources/arguments.py).
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

COMPILERS = ("gcc", "g++", "cc", "c++", "clang", "clang++")
ZIG, ZIG_TOOLS = "zig", ("cc", "c++")
LAUNCHERS = ("ccache",)
SOURCES = (".c", ".cc", ".cp", ".cxx", ".cpp", ".c++")
LINKED = (".o", ".a", ".so")
# Options with which no code is made, whatever the inputs are.
NO_CODE = ("-E", "-M", "-MM", "-dumpmachine", "--version")
# Options whose value is the next word, those without one, and what others begin with: those that leave a command one
# that makes machine code of sources and objects, or none.
WITH_VALUE = (
    "-o",
    "-MF",
    "-MT",
    "-MQ",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-include",
    "--param",
    "-target",
)
ALONE = (
    *("-c", "-MD", "-MMD", "-MP", "-pipe", "-pthread", "-ansi", "-pedantic", "-w", "-v", "-P"),
    *("-shared", "-static", "-rdynamic", "-s", "-pie", "-no-pie", "-dumpversion", "-dumpfullversion"),
)
BEGIN = ("-I", "-D", "-U", "-L", "-l", "-W", "-O", "-g", "-std=", "-f", "-m", "--param=", "--target=", "-print-")
NOT = ("-flto", "-fsyntax-only", "-fplugin", "-fmodule", "-Wp,", "-mllvm", "-fpreprocessed", "-fdirectives-only")


class ColdCommand:
    """A command that compiles one C or C++ source to an object.

    source, output, depends: paths of source, object and dependency file (""). direct: False under ccache.
    """

    def __init__(self, source: str, output: str, depends: str, direct: bool = True) -> None:
        self.source = source
        self.output = output
        self.depends = depends
        self.direct = direct


def plain_command(command: "Sequence[str]") -> ColdCommand | None:
    """Return what a command compiles, if it has only options that are known here; else None."""
    read = _read(command)
    if read is None:
        return None
    given, inputs = read
    if "-c" not in given or any(name in given for name in NO_CODE):
        return None
    if len(inputs) != 1 or not inputs[0].endswith(SOURCES):
        return None
    stem = os.path.splitext(os.path.basename(inputs[0]))[0]
    output = given.get("-o", f"{stem}.o")
    depends = ""
    if "-MD" in given or "-MMD" in given:
        depends = given.get("-MF") or (f"{os.path.splitext(output)[0]}.d" if "-o" in given else f"{stem}.d")
    return ColdCommand(inputs[0], output, depends, os.path.basename(command[0]) not in LAUNCHERS)


def linked_output(command: "Sequence[str]") -> str | None:
    """Return the program or library that a command makes of sources at once; "" if it makes no code of sources.

    Returns: None for a command that makes objects, or has an option that is not known here.
    """
    read = _read(command)
    if read is None:
        return None
    given, inputs = read
    if not inputs or any(name in given for name in NO_CODE):
        return ""
    if "-c" in given or not all(name.endswith((*SOURCES, *LINKED)) for name in inputs):
        return None
    return given.get("-o", "a.out") if any(name.endswith(SOURCES) for name in inputs) else ""


def _read(command: "Sequence[str]") -> "tuple[dict[str, str], list[str]] | None":
    """Return options with their values ("" for none), and inputs; None if there is an option that is not known here."""
    start = _compiler_length(command)
    if not start:
        return None
    given: dict[str, str] = {}
    inputs: list[str] = []
    words = iter(command[start:])
    for word in words:
        if word in WITH_VALUE:
            given[word] = next(words, "")
        elif word in ALONE or word in NO_CODE:
            given[word] = ""
        elif word[:1] not in ("-", "@"):
            inputs.append(word)
        elif not word.startswith(BEGIN) or word.startswith(NOT):
            return None
    return given, inputs


def _compiler_length(command: "Sequence[str]") -> int:
    """Return the number of leading words that run a compiler: gcc, ccache gcc, zig cc; 0 for others."""
    at = int(os.path.basename(command[0]) in LAUNCHERS)
    if len(command) <= at:
        return 0
    if os.path.basename(command[at]) == ZIG:
        return at + 2 if command[at + 1 : at + 2] and command[at + 1] in ZIG_TOOLS else 0
    return at + 1 if _is_compiler(command[at]) else 0


def _is_compiler(path: str) -> bool:
    """True for gcc and clang, also with a target before the name and a version after it."""
    parts = os.path.basename(path).split("-")
    while len(parts) > 1 and parts[-1].replace(".", "").isdigit():
        parts.pop()
    return parts[-1] in COMPILERS
