"""A small program with every kind of function that profilers name, built in several ways."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

KERNELS = """\
#include "shared.h"
__attribute__((noinline)) static int twice(int x) { return 2 * x + volatile_one; }
__attribute__((noinline)) static int scaled(int x, int by) {
    if (__builtin_expect(by > 1000, 0)) __builtin_abort();
    return x / by + volatile_one;
}
int kernel(int x) { return twice(x) + scaled(x, 7) + scaled(x + 1, 7) + in_header(x); }
"""
CLASSES = """\
#include "shapes.hpp"
namespace {
__attribute__((noinline)) int twice(int x) { return x + x + 1; }
}
int Area::of(int x) const { return grow(x) + grow(long(x)) + side_ + in_class(x) + twice(x); }
"""
SHAPES = """\
template <typename T>
__attribute__((noinline)) T grow(T x) {
    return x * 3 + 1;
}
struct Area {
    int side_ = 2;
    int of(int x) const;
    __attribute__((noinline)) int in_class(int x) const { return x ^ side_; }
};
"""
SHARED = """\
extern volatile int volatile_one;
__attribute__((noinline)) static inline int in_header(int x) {
    return x - volatile_one;
}
"""
MAIN = """\
#include "shapes.hpp"
extern "C" int kernel(int);
extern "C" { volatile int volatile_one = 1; }
int main() { return (kernel(5) + Area{}.of(4) + grow(volatile_one)) & 1; }
"""
GROW_INT, AREA_OF, IN_CLASS = "_Z4growIiET_S0_", "_ZNK4Area2ofEi", "_ZNK4Area8in_classEi"


@dataclass(frozen=True)
class Program:
    """folder: with kernels.c, sub/classes.cpp, main.cpp, shapes.hpp, shared.h, their objects and `app`."""

    folder: Path
    name: str = "app"

    @property
    def binary(self) -> Path:
        return self.folder / self.name


Build = Callable[[Path, Sequence[str]], Program]


def _build(folder: Path, flags: Sequence[str], cc: Sequence[str], cxx: Sequence[str]) -> Program:
    (folder / "sub").mkdir(parents=True)
    files = {"kernels.c": KERNELS, "sub/classes.cpp": CLASSES, "main.cpp": MAIN}
    for name, text in {**files, "shapes.hpp": SHAPES, "shared.h": SHARED}.items():
        (folder / name).write_text(text)
    for name in files:
        compiler = cc if name.endswith(".c") else cxx
        command = [*compiler, "-O2", *flags, "-I.", "-c", name, "-o", Path(name).stem + ".o"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    objects = ["main.o", "kernels.o", "classes.o"]
    # Without -g and in this folder, as set-up links: ziglang makes its C++ library anew for other forms of link.
    made = [str(folder / name) for name in objects]
    linker_flags = [flag for flag in flags if flag.startswith("-Wl,")]
    subprocess.run([*cxx, *linker_flags, *made, "-o", str(folder / "app")], check=True, capture_output=True)
    return Program(folder)


@pytest.fixture(scope="session")
def gcc_build() -> Build:
    if not shutil.which("g++") or not shutil.which("gcc"):
        pytest.skip("needs gcc and g++")
    return lambda folder, flags: _build(folder, flags, ["gcc"], ["g++"])


@pytest.fixture(scope="session")
def zig_build() -> Build:
    zig = [sys.executable, "-m", "ziglang"]
    return lambda folder, flags: _build(folder, flags, [*zig, "cc"], [*zig, "c++"])


@pytest.fixture(scope="session")
def gcc_program(gcc_build: Build, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Built by gcc with -g."""
    return gcc_build(tmp_path_factory.mktemp("gcc") / "p", ["-g"])
