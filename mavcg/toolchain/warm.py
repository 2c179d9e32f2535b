"""Fill ziglang's cache of support libraries: `python -m mavcg.toolchain.warm TARGET..` links once per target."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.hardware.target import parse_target
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


def warm(name: str) -> None:
    """Compile and link for one target, and discard the result. Raises: MavcgError when that fails."""
    target = None if name == NATIVE else parse_target(name)
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
        if not target or target.system == "linux-musl":  # static programs, for emulators
            flags = [*chosen, "-static"] if target else []
            run_zig("c++", [*flags, str(made), "-o", str(Path(folder, "warm"))], f"linking a program for {name}")


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
