"""Finds the header folders for a program: its own compiler's, so that it is compiled for its own libraries."""

import functools
import os
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from mavcg.errors import ToolError
from mavcg.toolchain.kept_answers import kept_answer
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import zig_command

_SEARCH_LIST = re.compile(r"#include <\.\.\.> search starts here:\n(.*?)End of search list", re.DOTALL)
_ABSENT = re.compile(r'ignoring nonexistent directory "(.*)"')
# gcc's own folder of intrinsics and limits, which only gcc can read; clang has its own.
_GCC_PRIVATE = re.compile(r"/lib(exec|64|32)?/gcc(-cross)?/[^/]+/[^/]+/include(-fixed)?$")
_CLANG_PRIVATE = re.compile(r"/lib(64)?/clang/[^/]+/include$")


@dataclass(frozen=True)
class Headers:
    """Header folders of a compiler.

    Args:
        folders: system header folders in search order, clang's own folder included.
        defines: -D options that the headers need.
        origin: the compiler that the headers belong to, as text.
        private: own folders of the program's compiler, which clang's own folder replaces.
    """

    folders: tuple[str, ...]
    defines: tuple[str, ...]
    origin: str
    notes: tuple[str, ...] = ()
    private: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """Options for a clang that gets all its folders from the command line."""
        return ("-nostdinc", *(part for folder in self.folders for part in ("-isystem", folder)), *self.defines)


@functools.lru_cache
def machine_of(compiler: tuple[str, ...], options: tuple[str, ...] = ()) -> str:
    """Return the machine that a gcc or clang compiles for, such as "x86_64-linux-gnu"; "" if it cannot be queried."""
    try:
        return kept_answer([*compiler, *options, "-dumpmachine"], "querying the compiler's target").strip()
    except ToolError:
        return ""


def machine_matches(machine: str, target: Target) -> bool:
    """True if a compiler's -dumpmachine output means the same architecture and system as the target."""
    arch = machine.partition("-")[0]
    arch = {"arm64": "aarch64", "amd64": "x86_64"}.get(arch, arch)
    kinds = (("android", "linux-android"), ("musl", "linux-musl"), ("apple", "macos"), ("darwin", "macos"))
    system = next((name for part, name in kinds if part in machine), "linux-gnu" if "linux" in machine else "")
    return (arch, system) == (target.arch, target.system)


def is_zig(compiler: tuple[str, ...]) -> bool:
    """True if the compiler is zig."""
    return PurePath(compiler[0]).name in ("zig", "zig.exe") or "ziglang" in compiler


def find_headers(compiler: tuple[str, ...], options: tuple[str, ...], target: Target, cxx: bool) -> Headers:
    """Find the headers for a unit that `compiler` compiles with the toolchain `options` (--sysroot and the like).

    They are the compiler's own if it compiles for the target; else ziglang's for the target, with a note if that
    changes the C++ standard library.
    """
    if "-nostdinc" in options:
        return Headers((), (), "none (-nostdinc)")
    if not is_zig(compiler):
        if machine_matches(machine_of(compiler, options), target):
            return _headers_of_compiler(compiler, options, cxx)
        headers = _headers_of_zig(target, cxx)
        if cxx and headers.folders:
            return replace(headers, notes=(*headers.notes, _other_library(compiler, target)))
        return headers
    return _headers_of_zig(target, cxx)


def _other_library(compiler: tuple[str, ...], target: Target) -> str:
    return (
        f"{' '.join(compiler)} does not compile for {target.zig_name}: C++ headers are ziglang's libc++; for a program "
        "built with libstdc++, name its cross compiler (such as aarch64-linux-gnu-g++)"
    )


@functools.lru_cache
def clang_headers() -> str:
    """Return the folder of the own headers of ziglang's clang: stddef.h, intrinsics."""
    import ziglang

    return str(Path(ziglang.__file__).parent / "lib" / "include")


@functools.lru_cache
def _headers_of_compiler(compiler: tuple[str, ...], options: tuple[str, ...], cxx: bool) -> Headers:
    language = "c++" if cxx else "c"
    command = [*compiler, *options, "-E", "-x", language, "/dev/null", "-v"]
    folders = _search_list(command, f"querying the header folders of {compiler[0]}")
    if not folders:
        raise ToolError(f"{compiler[0]}: `{shlex.join(command)}` lists no header folders; name another compiler")
    ours = [clang_headers() if _is_private(folder) else folder for folder in folders]
    if clang_headers() not in ours:  # before the C library's, as every compiler does
        at = next((i for i, folder in enumerate(ours) if "c++" not in PurePath(folder).parts), len(ours))
        ours.insert(at, clang_headers())
    private = tuple(folder for folder in folders if _is_private(folder))
    return Headers(tuple(dict.fromkeys(ours)), (), " ".join(compiler), private=private)


def _is_private(folder: str) -> bool:
    resolved = str(PurePath(*_collapse(folder)))
    return bool(_GCC_PRIVATE.search(resolved) or _CLANG_PRIVATE.search(resolved))


def _collapse(folder: str) -> list[str]:
    parts: list[str] = []
    for part in PurePath(folder).parts:
        parts = parts[:-1] if part == ".." and parts else [*parts, part]
    return parts


@functools.lru_cache
def _headers_of_zig(target: Target, cxx: bool) -> Headers:
    tool, language = ("c++", "c++") if cxx else ("cc", "c")
    command = [*zig_command(tool), "-target", target.zig_name, "-v", "-E", "-x", language, "/dev/null"]
    action = f"querying ziglang's headers for {target.zig_name}"
    text = kept_answer(command, action, messages=True, holds=_has_same_folders)
    folders = _parse_list(text)
    line = next((shlex.split(line) for line in text.splitlines() if " -cc1 " in line), [])
    macros = [f"-D{value}" for name, value in zip(line, line[1:], strict=False) if name == "-D" and value != "NDEBUG"]
    if not any("libc" in PurePath(folder).parts for folder in folders):
        return _freestanding(target)
    return Headers(tuple(dict.fromkeys(folders)), tuple(macros), "ziglang")


def _freestanding(target: Target) -> Headers:
    remedy = "name the NDK's clang" if target.system == "linux-android" else "name a compiler that has them"
    note = f"ziglang has no C library headers for {target.zig_name}, only the compiler's own are used; {remedy}"
    return Headers((clang_headers(),), (), "clang only", (note,))


def _search_list(command: list[str], action: str) -> list[str]:
    return _parse_list(kept_answer(command, action, messages=True, holds=_has_same_folders))


def _has_same_folders(text: str) -> bool:
    """True if the folders that a compiler listed still exist, and those that it left out for that still do not."""
    return not any(map(os.path.isdir, _ABSENT.findall(text))) and all(map(os.path.isdir, _parse_list(text)))


def _parse_list(text: str) -> list[str]:
    match = _SEARCH_LIST.search(text)
    lines = [line.strip() for line in match.group(1).splitlines()] if match else []
    return [str(Path(line).absolute()) for line in lines if line and not line.endswith("(framework directory)")]
