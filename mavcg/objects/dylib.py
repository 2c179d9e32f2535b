"""Link Mach-O objects to a dynamic library for macOS, by ziglang's own Mach-O linker and its description of
libSystem.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.hardware.target import Target
from mavcg.objects import macho
from mavcg.objects.link_options import LinkOptions
from mavcg.toolchain.zig import run_zig

# As the objects' undefined symbols name what a C++ library has, without the leading underscore of Mach-O.
_CXX_RUNTIME = re.compile(r"_Zn[wa]|_Zd[la]|__cxa_(?!atexit)|__gxx_personality|_ZT[ISV]|_ZNK?St|_ZSt")


def link_dylib(objects: Sequence[Path], made: Path, target: Target, options: LinkOptions) -> None:
    """Link a dylib named @rpath/<file name>, or options.soname, signed ad hoc as arm64 Macs require.

    The C++ library is the system's: its symbols are resolved when the library is loaded, among those of the program.
    Raises: ToolError with the linker's message; MavcgError for options that Mach-O has no use for.
    """
    if options.version_script:
        raise MavcgError(
            f"--version-script {options.version_script}: macOS libraries have no symbol versions; leave it out, and "
            'hide what is not to be exported by __attribute__((visibility("hidden")))'
        )
    if linker := [option for option in options.options if option.startswith("-")]:
        raise MavcgError(f"--link-option {linker[0]}: is for ELF libraries; for macOS give -l, -L or --soname")
    undefined = {name for path in objects if macho.is_macho(path) for name in macho.undefined_symbols(path)}
    name = options.soname or made.name
    flags = ["-target", target.zig_name, "-dynamiclib", "-g0", "-fno-sanitize=all"]
    flags += ["-Xlinker", "-install_name", "-Xlinker", f"@rpath/{name}"]
    flags += ["-Wl,-undefined,dynamic_lookup"] if any(_CXX_RUNTIME.match(symbol) for symbol in undefined) else []
    flags += ["-Wl,-s"] if options.strip else []
    run_zig("cc", [*flags, *map(str, objects), *options.inputs, "-o", str(made)], f"linking {made.name}")
