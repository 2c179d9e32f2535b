"""Names the files of mavcg and of the compilers on which a build's result depends, beside its inputs."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from glob import escape, glob

import mavcg.profiles
import mavcg.runtime
from mavcg.toolchain.zig import zig_program

_PACKAGES = ("mavcg", "llvmlite")


def programs(*commands: Sequence[str]) -> list[str]:
    """Return the files of the programs that begin these commands, and of ziglang's compiler.

    A program that has the name of another one, as ccache's gcc, starts the one in a later folder of PATH: all of them.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    names = [command[0] for command in commands if command]
    found = [path for name in names for folder in folders if (path := shutil.which(name, path=folder))]
    return list(map(os.path.abspath, [*dict.fromkeys(found), zig_program()]))


def files_of_mavcg() -> list[str]:
    """Return the files of the modules that are imported now, of LLVM, and what builds read: facts, the selector's C."""
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] in _PACKAGES]
    imported = [file for module in modules if (file := getattr(module, "__file__", None))]
    libraries = [
        path for file in imported if file.endswith("/ffi.py") for path in glob(f"{escape(file[:-6])}libllvmlite*")
    ]
    facts = [path for folder in mavcg.profiles.__path__ for path in _files_below(folder) if path.endswith(".toml")]
    sources = [path for folder in mavcg.runtime.__path__ for path in _files_below(f"{folder}/csrc")]
    return list(map(os.path.abspath, [*imported, *libraries, *sorted(facts), *sorted(sources)]))


def _files_below(folder: str) -> Iterator[str]:
    for path, _, names in os.walk(folder):
        yield from (f"{path}/{name}" for name in names)
