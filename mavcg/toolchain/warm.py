"""Fill ziglang's cache of support libraries: `python -m mavcg.toolchain.warm TARGET..` links for each target.

A target is one of ziglang's, "native", its default, or "host", this machine by the name that libraries are built for.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.hardware.target import host_target, parse_target
from mavcg.objects.library import link_shared
from mavcg.text.terminal import say
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

# Throws, so that the C++ runtime is needed, and divides 128-bit integers, so that compiler-rt is.
_SOURCE = """
#include <new>
extern "C" __int128 mavcg_warm(__int128 a, __int128 b) { if (b == 0) throw std::bad_alloc(); return a / b; }
int main(int count, char **) { return mavcg_warm(count, 1) == 0; }
"""
# This machine, ziglang's default target.
NATIVE = "native"
HOST = "host"
# ziglang keeps libraries apart that are for unoptimised and for optimised programs.
_PROGRAM_FLAGS = ((), ("-O2", "-fno-sanitize=all"))


def warm(name: str) -> None:
    """Compile and link for one target, and discard the result. Raises: MavcgError when that fails."""
    target = None if name == NATIVE else host_target() if name == HOST else parse_target(name)
    chosen = ["-target", target.zig_name] if target else []
    with scratch_folder("mavcg-warm-") as folder:
        source, made = Path(folder, "warm.cc"), Path(folder, "warm.o")
        source.write_text(_SOURCE)
        run_zig(
            "c++",
            [*chosen, *PLAIN_CODE_FLAGS, "-O2", "-fPIC", "-c", str(source), "-o", str(made)],
            f"compiling for {name}",
        )
        if target:
            link_shared([made], Path(folder, "libwarm.so"), target)
        static = target is not None and target.system == "linux-musl"  # for emulators
        if not static and name not in (NATIVE, HOST):
            return
        program = [str(made), *(["-static"] if static else []), "-o", str(Path(folder, "warm"))]
        for flags in _PROGRAM_FLAGS[1:] if name == HOST else _PROGRAM_FLAGS:
            run_zig("c++", [*chosen, *flags, *program], f"linking a program for {name}")
        if static:  # and apart again without debug information, for the tests of the selector
            plain = Path(folder, "plain.c")
            plain.write_text("int main(void) { return 0; }\n")
            options = [*chosen, "-static", "-O2", *PLAIN_CODE_FLAGS]
            run_zig("cc", [*options, str(plain), "-o", str(Path(folder, "plain"))], f"linking C for {name}")


def main(names: list[str]) -> int:
    """Warm each target; return exit status 1 if one failed."""
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(warm, names))
    except MavcgError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
