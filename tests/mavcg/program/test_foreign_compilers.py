"""Commands that compile other languages than C and C++, and what `mavcg launch` says of them."""

from pathlib import Path
from typing import Any

import pytest

from mavcg.program.foreign_compilers import foreign_command

FOREIGN = {
    "gfortran -O2 -c x.f90 -o out.o": ("Fortran", "x.f90", "out.o"),
    "gcc -c x.f90": ("Fortran", "x.f90", "x.o"),
    "gcc -c sub/X.F": ("Fortran", "sub/X.F", "X.o"),
    "aarch64-linux-gnu-gfortran-12 -c x.inc -x f95 x.inc -o y.o": ("Fortran", "x.inc", "y.o"),
    "rustc --crate-type lib -O x.rs": ("Rust", "x.rs", None),
    "rustc x.rs -o lib.rlib": ("Rust", "x.rs", "lib.rlib"),
    "rustc -O my-x.rs": ("Rust", "my-x.rs", "my-x"),
    "rustc --crate-type=lib --emit=dep-info,obj my-x.rs": ("Rust", "my-x.rs", "my-x.o"),
    "rustc --emit obj --crate-name zz -C opt-level=3 -C extra-filename=-1 --out-dir t x.rs": (
        "Rust",
        "x.rs",
        "t/zz-1.o",
    ),
    "rustc -Cextra-filename=-1 --crate-type=bin x.rs": ("Rust", "x.rs", "x-1"),
    "rustc --crate-type=staticlib x.rs": ("Rust", "x.rs", None),
    "rustc --emit=asm x.rs": ("Rust", "x.rs", None),
    "gnatmake -O2 x.adb": ("Ada", "x.adb", None),
    "gcc -c -gnatp x.adb": ("Ada", "x.adb", "x.o"),
    "gnat-12 compile x": ("Ada", "compile", None),
    "gdc-12 -c x.d -o x.o": ("D", "x.d", "x.o"),
    "ldc2 -O -c x.d": ("D", "x.d", "x.o"),
    "nvcc -c x.cu -o x.o": ("CUDA", "x.cu", "x.o"),
    "/usr/local/cuda/bin/nvcc -c x.cpp": ("CUDA", "x.cpp", "x.o"),
    "ccache gfortran -c x.f": ("Fortran", "x.f", "x.o"),
    "clang -x cuda -c x.c": ("CUDA", "x.c", "x.o"),
    "clang -c x.mm": ("Objective-C", "x.mm", "x.o"),
    "swiftc -c x.swift": ("Swift", "x.swift", "x.o"),
}
OTHERS = (
    "gcc -c x.c",
    "gfortran -c x.c",
    "clang++-18 -c x.cpp",
    "gcc -c x.S",
    "gcc a.o b.o -o app",
    "true",
    "ar rcs lib.a x.o",
    "gfortran --version",
    "rustc -vV",
    "rustc --print cfg x.rs",
    "nvcc --version",
    "gfortran -E x.F90",
    "gcc -x c -c x.d",
    "ld -r a.o -o b.o",
    "go",
)


@pytest.mark.parametrize("command", FOREIGN)
def test_a_foreign_command_is_recognised(command: str, tmp_path: Path) -> None:
    language, source, output = FOREIGN[command]
    found = foreign_command(command.split(), tmp_path)
    assert found and (found.language, found.source) == (language, source)
    assert found.output == (tmp_path / output if output else None)


@pytest.mark.parametrize("command", OTHERS)
def test_other_commands_are_not(command: str, tmp_path: Path) -> None:
    assert foreign_command(command.split(), tmp_path) is None


@pytest.fixture
def fake(here: Path, run_program: Any) -> Path:
    """A folder with mavcg.toml, whose programs gfortran and rustc make an object with dot or an archive."""
    (here / "mavcg.toml").write_text('[build]\nhot = ["dot"]\ncores = ["cortex-a55"]\n')
    (here / "hot.c").write_text("int dot(int x) { return x; }\n")
    (here / "cold.c").write_text("int cold(int x) { return x; }\n")
    for name in ("hot", "cold"):
        assert run_program("cc", "-c", f"{name}.c", "-o", f"{name}.object").status == 0
    for name in ("gfortran", "rustc", "gcc", "nvcc"):
        (here / name).write_text('#!/bin/sh\nfor last; do :; done\ncp "$(cat source)" "$last"\n')
        (here / name).chmod(0o755)
    (here / "archive").write_text("!<arch>\n")
    return here


@pytest.mark.parametrize(
    ("made", "strict", "status", "told"),
    [
        ("hot.object", False, 0, "dot cannot have versions; LLVM IR of it can be given to `mavcg build --ir`"),
        ("hot.object", True, 2, "dot cannot have versions"),
        ("cold.object", False, 0, ""),
        ("cold.object", True, 2, "it has no hot function, but --strict allows only what mavcg could version"),
        ("archive", False, 0, "whether it has hot functions is not known"),
        ("archive", True, 2, "whether it has hot functions is not known"),
    ],
)
@pytest.mark.parametrize("command", ["gfortran -c x.f90 -o", "rustc x.rs -o", "gcc -c x.f90 -o", "nvcc -c hot.c -o"])
def test_launch_says_what_it_cannot_version(
    mavcg: Any, fake: Path, command: str, made: str, strict: bool, status: int, told: str
) -> None:
    (fake / "source").write_text(made)
    compiler, *arguments = command.split()
    ended = mavcg("launch", *(["--strict"] if strict else []), f"./{compiler}", *arguments, "x.o")
    assert ended.status == status and (fake / "x.o").read_bytes() == (fake / made).read_bytes()
    assert told in ended.stderr and ended.stderr.count("\n") == bool(told)
