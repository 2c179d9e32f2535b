"""Links object files to a shared library, or merges them into one object for a build with its own link step.

For Android the linker gets stubs of its C libraries, so that no NDK is needed. A stub defines names but no code, and
at load the device's own library of the same soname is used. For macOS, Mach-O objects are linked by ziglang's linker
and its stub of libSystem.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.disk_space import with_room
from mavcg.files.whole_file import whole_beside
from mavcg.objects import macho
from mavcg.objects.elf import exported_symbols, undefined_symbols
from mavcg.objects.link_options import LinkOptions
from mavcg.text.safe_text import is_assembly_symbol, printable
from mavcg.toolchain.target import Target, host_target
from mavcg.toolchain.zig import run_tool, run_zig

API_LEVEL = 21  # Android 5.0, the first with 64-bit programs
_BIONIC_TABLE = Path(__file__).with_name("bionic_api21.txt")


@cache
def bionic_names() -> dict[str, frozenset[str]]:
    """Return library (libc.so, libm.so, libdl.so) -> names that it defines since API level 21.

    Source: named in the table's first lines.
    """
    names: dict[str, set[str]] = {}
    library = ""
    for line in _BIONIC_TABLE.read_text().splitlines():
        if line.startswith("["):
            library = line.strip("[]")
        elif not line.startswith("#"):
            names.setdefault(library, set()).update(line.split())
    return {library: frozenset(defined) for library, defined in names.items()}


def check_soname(soname: str) -> None:
    """Raise MavcgError if an output has the name of a library of Android itself, which the loader would use instead."""
    if soname in bionic_names():
        raise MavcgError(f"{soname}: is the name of Android's own library, which would be loaded; name another output")


def write_stubs(imported: Collection[str], target: Target, folder: Path) -> list[Path]:
    """Write stub libraries that define the imported names that bionic has; return their paths.

    A stub without names is not written. A library linked with the stubs needs Android's own libc.so at load. Stubs have
    no code and must not be shipped.
    Raises: ToolError if assembling or linking fails.
    """
    folder.mkdir(exist_ok=True)
    stubs = []
    for library, defined in bionic_names().items():
        if not (names := sorted(defined.intersection(imported))):
            continue
        source, stub = folder / f"{library}.s", folder / library
        source.write_text(
            "".join(f"\t.globl {name}\n\t.type {name}, @function\n{name}:\n" for name in names)
            + '\t.section .note.GNU-stack,"",@progbits\n'
        )
        flags = ["-target", f"{target.arch}-linux-musl", "-shared", "-nostdlib", "-Wl,-soname," + library]
        run_zig("cc", [*flags, str(source), "-o", str(stub)], f"linking a stub of Android's {library}")
        source.unlink()
        stubs.append(stub)
    return stubs


# Undefined symbols that a C++ library defines, without the leading underscore of Mach-O.
_CXX_NAMES = re.compile(r"_Zn[wa]|_Zd[la]|__cxa_(?!atexit)|__gxx_personality|_ZT[ISV]|_ZNK?St|_ZSt")


def link_dylib(objects: Sequence[Path], output: Path, target: Target, options: LinkOptions) -> None:
    """Link a dylib with the install name @rpath/<file name or soname>, signed ad hoc as arm64 Macs require.

    C++ library symbols are resolved at load time, from the system's library in the program.
    Raises: ToolError with the linker's message; MavcgError for options that do not exist for Mach-O.
    """
    if options.version_script:
        raise MavcgError(
            f"--version-script {options.version_script}: macOS libraries have no symbol versions; leave it out, and "
            'hide what is not to be exported by __attribute__((visibility("hidden")))'
        )
    if linker := [option for option in options.options if option.startswith("-")]:
        raise MavcgError(f"--link-option {linker[0]}: is for ELF libraries; for macOS give -l, -L or --soname")
    undefined = {name for path in objects if macho.is_macho(path) for name in macho.undefined_symbols(path)}
    name = options.soname or output.name
    flags = ["-target", target.zig_name, "-dynamiclib", "-g0", "-fno-sanitize=all"]
    flags += ["-Xlinker", "-install_name", "-Xlinker", f"@rpath/{name}"]
    flags += ["-Wl,-undefined,dynamic_lookup"] if any(_CXX_NAMES.match(symbol) for symbol in undefined) else []
    flags += ["-Wl,-s"] if options.strip else []
    run_zig("cc", [*flags, *map(str, objects), *options.inputs, "-o", str(output)], f"linking {output.name}")


# Android has 16 KiB pages since version 15, on x86-64 too; the larger alignment works everywhere.
_LARGE_PAGES = ("-Wl,-z,max-page-size=16384",)
# Helpers that LLVM calls for operations without an instruction; zig's compiler-rt defines them all.
_COMPILER_RT = re.compile(
    r"__(aarch64_(cas|swp|ld)\w+|\w*(ti|tf|xf|hf|sf|df|di|si|bf|sc|dc|xc|tc)\d?|mulo\w+|u?div\w*4)$"
)
_LIBCXX = re.compile(r"_ZNK?St3__1|_ZTVN?St3__1|_ZNSt3__1")
_CXX_RUNTIME = re.compile(r"_Zn[wa]|_Zd[la]|__cxa_|__gxx_personality|_ZT[ISV]|_ZNK?St|_ZSt")
NO_OPTIONS = LinkOptions()
_LIBC_FLAGS = ("-lc", "-lm", "-lpthread", "-ldl")


def link_shared(
    objects: Sequence[Path],
    out: Path,
    target: Target,
    cxx_compiler: tuple[str, ...] | None = None,
    options: LinkOptions = NO_OPTIONS,
) -> None:
    """Link a shared library that exports the external symbols of the objects, or the symbols of a version script.

    Args:
        cxx_compiler: the program's own g++ for the target: the library then needs its libstdc++ at load. None: zig's
            libc++ is linked in and its symbols are hidden.
    Raises: ToolError with the linker's message; MavcgError for unsuitable options.
    """
    if target.system == "macos":
        _write_atomically(out, lambda temporary: link_dylib(objects, temporary, target, options))
        return
    undefined = {name for path in objects for name in undefined_symbols(path)}
    flags = ["-target", target.zig_name, "-shared", "-Wl,-z,relro", "-g0", "-fno-sanitize=all"]
    if target.arch == "aarch64" or target.system == "linux-android":
        flags += _LARGE_PAGES
    libraries = list(_LIBC_FLAGS)
    tool = "cc"
    hide_rest = False
    if target.system == "linux-android":
        check_soname(options.soname or out.name)
        flags, libraries = [*flags, "-nostdlib", "-Wl,--hash-style=both"], []  # DT_GNU_HASH: read since API level 23
    elif any(_CXX_RUNTIME.match(name) for name in undefined):
        own = _libstdcxx(cxx_compiler) if cxx_compiler and not any(_LIBCXX.match(n) for n in undefined) else []
        if own:
            flags, libraries = [*flags, "-nostdlib"], [*own, *libraries]
        else:
            tool = "c++"
            flags.append("-Wl,--gc-sections")
            hide_rest = True
    elif not options.options and not options.libraries and not any(_COMPILER_RT.match(name) for name in undefined):
        flags.append("-nostdlib")
    if options.strip:
        flags.append("-s")
    if options.version_script and hide_rest:
        _check_hides_the_rest(options.version_script)

    def link(temporary: Path) -> None:
        # -Xlinker, because -Wl would divide a name at a comma.
        script = ["-Xlinker", f"--version-script={options.version_script}"] if options.version_script else []
        if hide_rest and not script:  # hides libc++, which other libraries of the program may contain too
            exports = temporary.with_name("exports")
            exports.write_text(_export_script(objects))
            script = ["-Xlinker", f"--version-script={exports}"]
        soname = ["-Xlinker", "-soname", "-Xlinker", options.soname or out.name]
        folders = [f"-L{folder}" for folder in _system_folders(target)] if options.libraries else []
        stubs = write_stubs(undefined, target, temporary.parent / "stubs") if target.system == "linux-android" else []
        # --no-as-needed, because weak references need libdl.so too: it has the functions that keep a library loaded.
        system = ["-Wl,--no-as-needed", *map(str, stubs)] if stubs else []
        inputs = [*soname, *script, *map(str, objects), *options.inputs, *folders, *libraries, *system]
        run_zig(tool, [*flags, *inputs, "-o", str(temporary)], f"linking {out}")

    _write_atomically(out, link)


def _check_hides_the_rest(script: Path) -> None:
    if not re.search(r"local\s*:[^}]*\*\s*;", script.read_text(errors="replace")):
        raise MavcgError(
            f"--version-script {script}: has no `local: *;`, and ziglang's libc++, which is linked in, would be "
            "exported; add it"
        )


def _system_folders(target: Target) -> list[Path]:
    """Return this machine's library folders if it is the target: zig does not search them for an explicit target."""
    if replace(target, libc_version="") != replace(host_target(), libc_version=""):
        return []
    folders = (
        f"/usr/local/lib/{target.arch}-{target.system}",
        "/usr/local/lib",
        f"/usr/lib/{target.arch}-{target.system}",
    )
    return [folder for folder in map(Path, (*folders, "/usr/lib64", "/usr/lib")) if folder.is_dir()]


def _export_script(objects: Sequence[Path]) -> str:
    """Return a linker version script that exports the objects' definitions, and nothing of the libraries linked in."""
    names = sorted({name for path in objects for name in exported_symbols(path) if "@" not in name})
    if unusable := [name for name in names if not is_assembly_symbol(name)]:
        raise MavcgError(f"{printable(unusable[0])!r}: no linker script can name this symbol; rename the function")
    lines = "".join(f'    "{name}";\n' for name in names)
    return "{\n" + (f"  global:\n{lines}" if lines else "") + "  local: *;\n};\n"


def link_relocatable(objects: Sequence[Path], out: Path, target: Target) -> None:
    """Merge objects into one relocatable object, for a build with its own link step."""

    def link(temporary: Path) -> None:
        if target.system == "macos":
            _merge_macho(objects, temporary, target)
        else:
            run_zig("ld.lld", ["-r", *map(str, objects), "-o", str(temporary)], f"linking {out}")

    _write_atomically(out, link)


def _merge_macho(objects: Sequence[Path], output: Path, target: Target) -> None:
    arguments = ["-target", target.zig_name, "-r", *map(str, objects), "-o", str(output)]
    run_zig("cc", arguments, f"linking {output.name}")


def _libstdcxx(compiler: tuple[str, ...]) -> list[str]:
    """Return the paths of a compiler's libstdc++ and libgcc_s; [] if it has no libstdc++."""
    paths = [
        Path(run_tool([*compiler, f"-print-file-name={name}"], f"querying the {name} of {compiler[0]}").strip())
        for name in ("libstdc++.so", "libgcc_s.so.1")
    ]
    return [str(path) for path in paths] if all(path.is_absolute() and path.exists() for path in paths) else []


def _write_atomically(out: Path, make: Callable[[Path], object]) -> None:
    """Call `make` with a temporary path, and move the file to `out`, so that `out` is never half-written."""
    folder = out.resolve().parent
    if not folder.is_dir():
        raise MavcgError(f"-o {out}: the folder {folder} is not there; make it, or name another output")
    try:
        with whole_beside(out) as temporary:
            make(temporary)
    except OSError as error:
        raise MavcgError(
            f"-o {out}: cannot be written ({with_room(error, out)}); name another output, or make room"
        ) from error
