"""Finds the build system, sources, programs and models in a folder, for `mavcg init`; runs no program."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.program.folder_sources import FolderSources, one_library
from mavcg.program.makefile_programs import make_programs
from mavcg.program.sources.compile_commands import LANGUAGES

_DEPTH = 3  # levels of folders that are searched
_FILES = 20_000  # maximum of files that are examined
_TEXT_BYTES = 16 << 20  # maximum that is read of a text file; duktape.c and sqlite3.c have 4 and 9 MB
_SKIPPED = {"node_modules", "__pycache__", "CMakeFiles", "third_party", "venv"}
_SOURCES = set(LANGUAGES) - {".i", ".ii"}
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # in make's order
_MAIN = re.compile(r"^[\w\s]*\bmain\s*\(", re.M)
_CMAKE = re.compile(r"^\s*(add_executable|if|endif)\s*\(\s*([\w.+-]*)", re.M | re.I)


@dataclass(frozen=True)
class FolderContents:
    """The contents of a folder. Paths are relative to it, with / as separator; each tuple is sorted.

    Args:
        cmake: True if a CMakeLists.txt is at its top; if there is a makefile too, only if cmake is installed.
        cmake_tree: a build tree with a compile_commands.json; "" for none.
        new_tree: an unused name for a build tree.
        makefile: the makefile at its top; "" for none.
        compile_commands: path of a compile_commands.json; "" for none.
        sources: C and C++ files without a main function.
        mains: C and C++ files with a main function.
        include_folders: "include" if it exists, and folders of headers that sources include from elsewhere.
        programs: ELF programs, the newest first.
        guessed_programs: programs that CMake will make in its build tree, or that the makefile's default goal links.
        models: model files.
        copies: folders whose sources define the functions of others, and are left out of `sources`.
        aside: folders of examples and tests that are left out of `sources`.
    """

    cmake: bool = False
    cmake_tree: str = ""
    new_tree: str = "build"
    makefile: str = ""
    compile_commands: str = ""
    sources: tuple[str, ...] = ()
    mains: tuple[str, ...] = ()
    include_folders: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    guessed_programs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()


def list_contents(folder: Path, model_suffixes: Sequence[str]) -> FolderContents:
    """List the contents of a folder, three levels deep, without hidden folders.

    Raises: OSError for a folder that cannot be read.
    """
    os.listdir(folder)  # os.walk reports no error
    files = sorted(_files(folder))
    makefile = next((name for name in _MAKEFILES if (folder / name).is_file()), "")
    cmake = (folder / "CMakeLists.txt").is_file() and not (makefile and shutil.which("cmake") is None)
    trees = [name.rpartition("/")[0] for name in files if name.rpartition("/")[2] == "CMakeCache.txt"]
    own = [name for name in files if not any(name.startswith(f"{tree}/") for tree in trees if tree)]
    sources = [name for name in own if Path(name).suffix in _SOURCES]
    mains = [name for name in sources if _MAIN.search(_text(folder / name))]
    programs = [name for name in files if _is_program(folder / name)]
    makes = bool(cmake or makefile)
    commands = [name for name in files if name.rpartition("/")[2] == "compile_commands.json"]
    if makes or commands:
        library = FolderSources(tuple(name for name in sources if name not in mains), tuple(mains))
    else:
        library = one_library(sources, mains, own, lambda name: _text(folder / name))
    public = [name for name in ("include",) if (folder / name).is_dir()]
    return FolderContents(
        cmake=cmake,
        cmake_tree=next((tree for tree in trees if tree and f"{tree}/compile_commands.json" in files), ""),
        new_tree="build-mavcg" if (folder / "build").exists() else "build",
        makefile=makefile,
        compile_commands=min(commands, key=lambda name: (name.count("/"), name), default=""),
        sources=library.sources,
        mains=library.mains,
        include_folders=tuple(dict.fromkeys([*public, *library.include_folders])),
        programs=tuple(sorted(programs, key=lambda name: -(folder / name).stat().st_mtime)),
        guessed_programs=tuple(_cmake_programs(folder, own) if cmake else _make_programs(folder, makefile)),
        models=tuple(name for name in own if _is_model(folder / name, model_suffixes)),
        copies=library.copies,
        aside=library.aside,
    )


def _files(folder: Path) -> Iterator[str]:
    """Yield regular files below the folder whose names can be written to a text file."""
    count = 0
    for parent, folders, names in os.walk(folder):
        relative = Path(parent).relative_to(folder)
        deep = len(relative.parts) >= _DEPTH
        folders[:] = [] if deep else sorted(f for f in folders if not f.startswith(".") and f not in _SKIPPED)
        for name in sorted(names):
            count += 1
            if count > _FILES:
                return
            text = (relative / name).as_posix()
            if text.isprintable() and (folder / text).is_file():
                yield text


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_TEXT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _is_model(path: Path, suffixes: Sequence[str]) -> bool:
    """True for a model file; a prototxt counts only with its weights next to it, because it may be a solver's."""
    suffix = path.suffix.lower()
    return suffix in suffixes and (suffix != ".prototxt" or path.with_suffix(".caffemodel").is_file())


def _is_program(path: Path) -> bool:
    """True for an executable ELF file that has an interpreter or is static, in contrast to libraries."""
    if not os.access(path, os.X_OK) or ".so" in path.name:
        return False
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return head.startswith(b"\x7fELF") and (
        b"\0/lib" in head or b"\0/system/bin/linker" in head or head[16:18] == b"\2\0"
    )


def _cmake_programs(folder: Path, files: Sequence[str]) -> list[str]:
    """Return the programs that CMake files name, those under the fewest conditions first."""
    programs = []
    for name in files:
        parent, _, last = name.rpartition("/")
        conditions = 0
        for command, word in _CMAKE.findall(_text(folder / name)) if last == "CMakeLists.txt" else ():
            if command.lower() == "add_executable":
                programs += [(conditions, "/".join(filter(None, (parent, word))))] if word else []
            else:
                conditions += 1 if command.lower() == "if" else -1
    return [program for _, program in sorted(programs, key=lambda program: program[0])]


def _make_programs(folder: Path, makefile: str) -> tuple[str, ...]:
    return make_programs(_text(folder / makefile)) if makefile else ()
