"""A C file with hot functions is compiled by its gcc once, and everything that the build sees is as if it had run."""

import errno
import shlex
import shutil
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mavcg.errors import MavcgError
from mavcg.objects.elf import function_symbols
from mavcg.program import one_compilation
from mavcg.program.one_compilation import defines

LAUNCH = (sys.executable, "-m", "mavcg.cli", "launch")
HOT = """\
int dot(const short *a, const short *b, int n) {
    int s = 0;
    while (n--) s += a[n] * b[n];
    return s;
}
"""
WARNS = HOT + "int warns(void) { int unused; return 1; }\n"
FAILS = HOT + "int fails(void) { return nothing; }\n"
REFUSED = '#include "dot.h"\nint other(void) { return 7; }\n#if 0\n' + HOT + "#endif\n"
BAD_ASSEMBLY = HOT + 'void odd(void) { __asm__("this is none"); }\n'


@pytest.fixture
def build(here: Path, cores: Sequence[str], gcc: object, mavcg: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a compiler bin/gcc that logs its commands, whose cache knows what is hot."""
    monkeypatch.setenv("MAVCG_CACHE", str(here / "cache"))
    (here / "bin").mkdir()
    script = here / "bin/gcc"
    script.write_text(f'#!/bin/sh\necho "$*" >> {shlex.quote(str(here / "log"))}\nexec {shutil.which("gcc")} "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    names = ", ".join(f'"{core}"' for core in cores)
    (here / "mavcg.toml").write_text(f'[build]\nhot = ["dot"]\ncores = [{names}]\n')
    (here / "dot.h").write_text("int dot(const short *, const short *, int);\n")
    (here / "first.c").write_text("int cold(void) { return 3; }\n")
    assert mavcg("launch", "bin/gcc", "-c", "first.c").status == 0
    (here / "log").unlink()
    return here


def compilations(folder: Path, source: str) -> list[str]:
    """Return the commands that compiled a source, without questions about the compiler."""
    lines = (folder / "log").read_text().splitlines()
    return [line for line in lines if source in line.split() and "-dumpmachine" not in line]


def without_cost(text: str) -> str:
    return text.partition("growth")[0]


@pytest.mark.parametrize(
    "flags", ["-O2", "-O2 -g -Wall -MD", "-O2 -MMD -MP -MT out/x.o -MF x.d -Werror=implicit"], ids=["", "-MD", "-MF"]
)
def test_gcc_compiles_once_what_it_would_twice(
    mavcg: Any, build: Path, run_program: Any, monkeypatch: pytest.MonkeyPatch, flags: str
) -> None:
    (build / "x.c").write_text(WARNS.replace("unused;", "unused = 1;") + '#include "dot.h"\n')
    command = ("launch", "--strict", "bin/gcc", *flags.split(), "-c", "x.c")
    once = mavcg(*command)
    assert once.status == 0 and len(compilations(build, "x.c")) == 1, once
    made = {path.name: path.read_bytes() for path in build.glob("x.[od]")}
    assert len(made) == 1 + ("-M" in flags)

    monkeypatch.setenv("MAVCG_CACHE", "off")  # nothing is known of what is hot
    twice = mavcg(*command)
    assert len(compilations(build, "x.c")) == 3
    assert {path.name: path.read_bytes() for path in build.glob("x.[od]")} == made
    # Compiled once, the warnings come as they do from gcc; compiled twice, they come before mavcg is asked.
    assert without_cost(once.stderr) == without_cost(twice.stderr)


@pytest.mark.parametrize("text", [REFUSED, FAILS, WARNS, BAD_ASSEMBLY], ids=["cold", "error", "warning", "assembler"])
def test_status_messages_and_objects_without_versions_are_gccs(build: Path, run_program: Any, text: str) -> None:
    (build / "x.c").write_text(text)
    words = ("gcc", "-O2", "-Wall", "-MD", "-c", "x.c")
    plain = run_program(*words)
    own = {path.name: path.read_bytes() for path in build.glob("x.[od]")}
    for path in build.glob("x.[od]"):
        path.unlink()
    launched = run_program(*LAUNCH, *words)
    made = {path.name: path.read_bytes() for path in build.glob("x.[od]")}

    assert launched.status == plain.status and made.keys() == own.keys()
    messages, _, versions = launched.stderr.partition("mavcg: ")
    if text == BAD_ASSEMBLY:  # the assembler names a file of gcc's own
        assert "no such instruction" in messages and messages.count("Error:") == 1
        return
    assert messages == plain.stderr
    if text == REFUSED:
        assert made["x.o"] == own["x.o"] and not versions and b"mavcg.toml" in made["x.d"]
    if text == WARNS:
        assert "dot (generic" in versions and {"dot", "warns"} <= {name for name, _ in function_symbols(build / "x.o")}


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("gcc_version", BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")),
        ("scratch_folder", OSError(errno.ENOSPC, "No space left on device")),
        ("read_assembly", IndexError("a fault")),
    ],
    ids=["no process", "no folder", "a fault"],
)
def test_there_is_an_object_where_compiling_once_fails(
    mavcg: Any, build: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception
) -> None:
    (build / "x.c").write_text(WARNS)
    monkeypatch.setattr(one_compilation, name, Mock(side_effect=error))

    done = mavcg("launch", "bin/gcc", "-O2", "-Wall", "-c", "x.c")

    assert done.status == 0 and "dot (generic" in done.stderr
    assert {"dot", "warns"} <= {name for name, _ in function_symbols(build / "x.o")}


def test_the_compilers_status_counts_where_it_must_run_again_and_cannot(
    mavcg: Any, build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions fail after gcc has run once, for assembly; for the build's own object it cannot be run any more."""
    (build / "x.c").write_text(HOT)

    def fail(*_: object) -> None:
        (build / "bin/gcc").unlink()
        raise MavcgError("no versions")

    monkeypatch.setattr("mavcg.program.launching._version_object_of", fail)
    assert mavcg("launch", "bin/gcc", "-O2", "-c", "x.c").status == 127


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("int dot(int n) {", True),
        ("static inline float\ndot(float (*f)(int), int n)\n{", True),
        ("void *dot(void) __attribute__((noinline)) {", True),
        ("int dot(a, b) int a; int b; {", False),
        ("int dot(int n);\nint main(void) { return dot(1); }", False),
        ("if (dot(1)) {", False),
        ("int a_dot(int n) {", False),
        ("int dots(int n) {", False),
    ],
)
def test_a_definition_is_told_from_a_call(text: str, found: bool) -> None:
    assert defines(text.encode(), [b"cool", b"dot"]) == found
