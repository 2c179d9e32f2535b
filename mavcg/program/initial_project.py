"""Proposes a first mavcg.toml for a folder, for `mavcg init`: tables according to its contents, with comments."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import PurePosixPath

from mavcg.program.buildfile import BuildFile, ModelTable, ProfileTable
from mavcg.program.folder_contents import FolderContents
from mavcg.text.safe_text import toml_string

_CXX = {".cc", ".cp", ".cxx", ".cpp", ".CPP", ".c++", ".C"}
_LISTED = 12  # maximum of sources that are listed one by one; more become patterns
_WIDE = 50  # maximum of characters in a line with a comment after it; longer lines have it above
_PROGRAM = "app"  # name of the program that is built from sources

HEAD = """\
# What `mavcg profile` and `mavcg build` do in this folder when they are given no arguments.
# Paths are relative to this file, commands run beside it. `mavcg profile --help` and `mavcg build --help` say more.
"""
_COMMENTS = {
    ("profile", "build"): "run before the program is profiled",
    ("profile", "command"): "the program and its arguments: some seconds of typical work",
    ("build", "command"): "the program's own build; `mavcg launch` makes versions of its hot functions",
    ("build", "sources"): "what holds the hot functions; patterns will do",
    ("build", "flags"): "for the compiler",
    ("build", "compile_commands"): "how the program's files are compiled",
    ("build", "only_hot"): "of those, the files that hold hot functions",
    ("build", "board"): "`mavcg cores` lists boards; host is this machine",
    ("build", "cores"): "each gets a version; `mavcg cores` lists them",
    ("build", "output"): "the library",
    ("model", "board"): "`mavcg cores` lists boards; host is this machine",
}
# Optional keys, written as comments: table -> key, an example, its effect.
_OPTIONAL = {
    "profile": (
        ("output", '"mavcg-profile.json"', "where the profile is kept"),
        ("recorder", '"callgrind"', "counts instructions, where perf is not available"),
    ),
    "build": (
        ("output", '"libhot.so"', "the library; lib and this folder's name"),
        ("hot", '["gemm", "nn::*"]', "version these instead of what the profile says"),
        ("threshold", "5", "percent of the run that make a function hot"),
        ("max_growth", "10", "percent that versions may add to the code"),
    ),
    "model": (
        ("shapes", '["input=1x3x224x224"]', "of inputs with free dimensions"),
        ("threads", '"auto"', "or a number; 1"),
    ),
}


@dataclass(frozen=True)
class InitialProject:
    """The tables of a new mavcg.toml, with [profile] and [build] either both or neither.

    Args:
        guesses: settings that were guessed and should be checked.
        missing: keys that the user has to fill in.
    """

    profile: ProfileTable | None
    build: BuildFile | None
    models: tuple[ModelTable, ...]
    guesses: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def propose(contents: FolderContents, board: str) -> InitialProject:
    """Propose tables for a folder with these contents; board: name of the board to build for."""
    models = tuple(ModelTable(model, board=board) for model in contents.models)
    has_program = contents.cmake or contents.makefile or contents.compile_commands or contents.sources or contents.mains
    if not has_program:
        if models:
            return InitialProject(None, None, models)
        return InitialProject(ProfileTable(), BuildFile(board=board), (), (), ("profile.command", "build.sources"))
    guesses: list[str] = []
    build, to_profile = _build(contents, board)
    command: tuple[str, ...] = ()
    if to_profile and to_profile[0] in ("cc", "c++"):
        command = (f"./{_PROGRAM}",)
    elif candidates := contents.programs or _guessed_programs(contents):
        command = (f"./{candidates[0]}",)
        if len(candidates) > 1 or not contents.programs:
            alternatives = f" (others: {', '.join(candidates[1:5])})" if len(candidates) > 1 else ""
            guesses.append(f"profile.command: {command[0]}{alternatives}")
    if contents.copies:
        guesses.append(f"build.sources: without {', '.join(contents.copies[:4])}, which define the functions of others")
    if contents.aside:
        guesses.append(f"build.sources: without {', '.join(contents.aside[:4])}")
    missing = () if command else ("profile.command",)
    if not (build.sources or build.command or build.compile_commands):
        missing = (*missing, "build.sources")
    return InitialProject(ProfileTable(command, to_profile), build, models, tuple(guesses), missing)


def _guessed_programs(contents: FolderContents) -> tuple[str, ...]:
    """Return the programs that the build will make, relative to the folder."""
    if not contents.cmake:
        return contents.guessed_programs
    tree = contents.cmake_tree or contents.new_tree
    return tuple(f"{tree}/{program}" for program in contents.guessed_programs)


def _build(contents: FolderContents, board: str) -> tuple[BuildFile, tuple[str, ...]]:
    """Return the [build] table, and the command that builds the program to be profiled."""
    if contents.cmake:
        tree = contents.cmake_tree or contents.new_tree
        table = BuildFile(compile_commands=f"{tree}/compile_commands.json", only_hot=True, board=board)
        if contents.cmake_tree:
            return table, ("cmake", "--build", tree)
        configure = f"cmake -S . -B {tree} -DCMAKE_BUILD_TYPE=Release -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
        return table, ("sh", "-c", f"{configure} && cmake --build {tree}")
    make: tuple[str, ...] = ("make",) if contents.makefile else ()
    if contents.compile_commands:
        return BuildFile(compile_commands=contents.compile_commands, only_hot=True, board=board), make
    if contents.makefile:
        launched = ("make", "-B", "CC=mavcg launch cc", "CXX=mavcg launch c++")
        return BuildFile(command=launched, board=board), make
    sources = contents.sources or contents.mains
    flags = tuple(f"-I{folder}" for folder in contents.include_folders)
    return BuildFile(sources=_patterns(sources, contents.mains), flags=flags, board=board), _compile(contents, flags)


def _compile(contents: FolderContents, flags: Sequence[str]) -> tuple[str, ...]:
    """Return a command that compiles all sources to one program, if exactly one has a main function; else ()."""
    if len(contents.mains) != 1:
        return ()
    files = (*contents.mains, *contents.sources)
    driver = "c++" if any(PurePosixPath(file).suffix in _CXX for file in files) else "cc"
    return (driver, "-O2", "-g", *flags, *files, "-o", _PROGRAM, "-lm")


def _patterns(sources: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return the files; if they are more than _LISTED, a glob pattern for each folder and suffix.

    Files beside others of their suffix, which the pattern would take too, stay listed.
    """
    if len(sources) <= _LISTED:
        return tuple(sources)
    mixed = {_pattern(name) for name in set(others) - set(sources)}
    return tuple(dict.fromkeys(name if (p := _pattern(name)) in mixed else p for name in sources))


def _pattern(name: str) -> str:
    path = PurePosixPath(name)
    return (path.parent / f"*{path.suffix}").as_posix()


def toml_text(file: InitialProject) -> str:
    """Return the file's text, with comments; read_project reads the same tables from it."""
    parts = [HEAD]
    if file.profile is not None and file.build is not None:
        parts.append(_table("profile", file.profile, ("build", "command")))
        parts.append(_table("build", file.build, ("sources",)))
    parts += [_table("model", model, ()) for model in file.models]
    return "\n".join(parts)


def _table(name: str, table: ProfileTable | BuildFile | ModelTable, needed: Sequence[str]) -> str:
    """Return a table's text: its keys; needed keys that are missing, and examples of optional keys, as comments."""
    examples = {"command": '["./app", "argument"]', "sources": '["src/*.c"]', "build": '["make"]'}
    rows = []
    for field in fields(table):
        value, comment = getattr(table, field.name), _COMMENTS.get((name, field.name), "")
        if value not in (None, ()):
            rows.append((f"{field.name} = {_value(value)}", comment))
        elif field.name in needed and (name, field.name) in _COMMENTS and not _is_replaced(table):
            rows.append((f"# {field.name} = {examples[field.name]}", comment))
    rows += [(f"# {key} = {example}", comment) for key, example, comment in _OPTIONAL[name]]
    width = max(len(text) for text, _ in rows if len(text) <= _WIDE)
    lines = [f"[[{name}]]" if name == "model" else f"[{name}]"]
    for text, comment in rows:
        if len(text) > _WIDE and comment:
            lines.append(f"# {comment}")
        lines.append(f"{text:<{width}}  # {comment}" if len(text) <= _WIDE and comment else text)
    return "\n".join([*lines, ""])


def _is_replaced(table: ProfileTable | BuildFile | ModelTable) -> bool:
    """True if a [build] table names its input by another key than `sources`."""
    return isinstance(table, BuildFile) and bool(table.compile_commands or table.command)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(toml_string(str(item)) for item in value)}]"
    return str(value).lower() if isinstance(value, bool) else toml_string(str(value))
