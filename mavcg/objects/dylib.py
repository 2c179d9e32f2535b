"""Links Mach-O objects to a dynamic library for macOS, by ziglang's Mach-O linker and its stub of libSystem."""

import re
from collections.abc import Sequence
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.objects import macho
from mavcg.objects.link_options import LinkOptions
from mavcg.toolchain.target import Target
from mavcg.toolchain.zig import run_zig

# Undefined symbols that a C++ library defines, without the leading underscore of Mach-O.
_CXX_RUNTIME = re.compile(r"_Zn[wa]|_Zd[la]|__cxa_(?!atexit)|__gxx_personality|_ZT[ISV]|_ZNK?St|_ZSt")


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
    flags += ["-Wl,-undefined,dynamic_lookup"] if any(_CXX_RUNTIME.match(symbol) for symbol in undefined) else []
    flags += ["-Wl,-s"] if options.strip else []
    run_zig("cc", [*flags, *map(str, objects), *options.inputs, "-o", str(output)], f"linking {output.name}")
