"""Fill ziglang's cache of support libraries: `python -m scripts.warm_toolchain TARGET..` links one for each target.

A target is one of ziglang's, or "tests" for all link forms of the tests (LINKED_BY_TESTS). ziglang builds its C
library, compiler-rt and libc++ for each target, optimisation level, and with or without debug information.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder
from mavcg.objects.library import link_shared
from mavcg.text.terminal import say
from mavcg.toolchain.target import host_target, parse_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

# It throws, so that the C++ runtime is needed, and divides 128-bit integers, so that compiler-rt is needed.
_SOURCE = """
#include <new>
extern "C" __int128 mavcg_warm(__int128 a, __int128 b) { if (b == 0) throw std::bad_alloc(); return a / b; }
int main(int count, char **) { return mavcg_warm(count, 1) == 0; }
"""
_C_SOURCE = "int main(int count, char **words) { return words[count - 1] == 0; }\n"
TESTS = "tests"
HOST = "host"  # this machine, by the target name of mavcg's libraries
NATIVE = "native"  # this machine, by ziglang's default target
_OPTIMISED = ("-O2", "-fno-sanitize=all")
_SMALL = ("-ffunction-sections", "-Wl,--gc-sections", "-s")  # as the program that measures kernels on a board


@dataclass(frozen=True)
class LinkForm:
    """A link for which ziglang builds its support libraries.

    target: ziglang's name, HOST or NATIVE. tool: "c++" or "cc" to link a program with the flags; "shared" to link a
    library as mavcg does, without flags. elsewhere: True if the current folder is not ziglang's installation: relative
    to that folder, it names its sources differently and builds another copy of the C library.
    """

    target: str
    tool: str
    flags: tuple[str, ...] = ()
    elsewhere: bool = False

    @property
    def target_flags(self) -> tuple[str, ...]:
        """Compiler flags for the target. Raises: MavcgError for an unknown target."""
        if self.target == NATIVE:
            return ()
        target = host_target() if self.target == HOST else parse_target(self.target)
        return ("-target", target.zig_name)


# The slowest first, because two are built at a time.
LINKED_BY_TESTS = (
    LinkForm("aarch64-linux-musl", "c++", ("-static", *_OPTIMISED)),
    LinkForm(HOST, "shared"),
    LinkForm("aarch64-linux-musl", "c++", ("-static", *_OPTIMISED), elsewhere=True),
    LinkForm(HOST, "c++", ("-shared", "-g0", "-fno-sanitize=all"), elsewhere=True),  # as link_shared links it
    LinkForm(HOST, "c++", _OPTIMISED, elsewhere=True),
    LinkForm(NATIVE, "c++"),
    LinkForm("aarch64-linux-musl", "cc", ("-static", "-O2", *PLAIN_CODE_FLAGS)),
    LinkForm("aarch64-linux-musl", "cc", ("-static", "-O2", *PLAIN_CODE_FLAGS, *_SMALL), elsewhere=True),
    LinkForm(f"{host_target().arch}-linux-musl", "cc", ("-static", "-O2", *PLAIN_CODE_FLAGS, *_SMALL), elsewhere=True),
    LinkForm("aarch64-macos", "cc", ("-dynamiclib", "-g0", "-fno-sanitize=all")),
    LinkForm("aarch64-macos", "cc", ("-dynamiclib", "-g0", "-fno-sanitize=all"), elsewhere=True),
    LinkForm("aarch64-linux-gnu.2.17", "cc", ("-shared", "-g0", "-s")),
    LinkForm(HOST, "cc", ("-shared", "-g0", "-s")),
    LinkForm("x86_64-linux-musl", "cc", ("-shared", "-g0", "-s")),
    LinkForm("aarch64-linux-gnu.2.17", "cc", _OPTIMISED),
    LinkForm(HOST, "cc", _OPTIMISED),
    LinkForm(HOST, "cc", ("-O2", *PLAIN_CODE_FLAGS)),
    LinkForm("x86_64-linux-gnu.2.17", "cc", _OPTIMISED),
)


def warm(form: LinkForm) -> None:
    """Compile and link, and discard the result. Raises: MavcgError if that fails."""
    with scratch_folder("mavcg-warm-") as folder:
        source = Path(folder, "warm.c" if form.tool == "cc" else "warm.cc")
        source.write_text(_C_SOURCE if form.tool == "cc" else _SOURCE)
        if form.tool != "shared":
            words = [*form.target_flags, *form.flags, str(source), "-o", str(Path(folder, "warm"))]
            run_zig(form.tool, words, f"linking a program for {form.target}", Path(folder) if form.elsewhere else None)
            return
        made = Path(folder, "warm.o")
        words = [*form.target_flags, *PLAIN_CODE_FLAGS, "-O2", "-fPIC", "-c", str(source), "-o", str(made)]
        run_zig("c++", words, f"compiling for {form.target}")
        target = host_target() if form.target == HOST else parse_target(form.target)
        link_shared([made], Path(folder, "libwarm.so"), target)


def forms_of(names: Sequence[str]) -> tuple[LinkForm, ...]:
    """Return the link forms for the command's arguments."""
    forms: list[LinkForm] = []
    for name in names:
        forms += LINKED_BY_TESTS if name == TESTS else [LinkForm(name, "shared")]
    return tuple(forms)


def main(names: list[str]) -> int:
    """Warm each target; return exit status 1 if one failed."""
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(warm, forms_of(names)))
    except MavcgError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
