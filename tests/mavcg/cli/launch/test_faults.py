"""Faults of a function, a file or mavcg itself: other functions keep their versions, and no build breaks."""

import errno
import os
import re
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mavcg.assembly import tuning
from mavcg.objects.elf import notes
from mavcg.passes.asm.tune import Tuned, tune
from mavcg.passes.ir.arithmetic import explicit_fmuladd
from mavcg.program import version_jobs
from tests.conftest import zig_cache
from tests.mavcg.cli.launch.projects import (
    DOT,
    HOT,
    PROFILE,
    config,
    labels,
    launch,
)

TWO_HOT = HOT + HOT.replace("dot(", "warm(").replace("return", "\n  return")


def misreturn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the IR of each version of warm() return a type that is not the function's."""
    explicit = explicit_fmuladd

    def failing(text: str, fused: Collection[str]) -> str:
        made = explicit(text, fused)
        return made.replace("ret i32", "ret i64") if "define hidden i32 @warm." in made else made

    monkeypatch.setattr(version_jobs, "explicit_fmuladd", failing)


def unprintable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the machine passes print an instruction for warm() that there is not."""

    def failing(text: str, *options: object, **more: object) -> Tuned:
        made = tune(text, *options, **more)  # type: ignore[arg-type]
        return replace(made, text=made.text.replace("\tret\n", "\tretreat\n")) if "warm." in text else made

    monkeypatch.setattr(tuning, "tune", failing)


def undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the machine passes fail on warm()."""

    def failing(text: str, *options: object, **more: object) -> Tuned:
        return tune(text[1 // ("warm." not in text) :], *options, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(tuning, "tune", failing)


ONLY_WARM = r"mavcg: hot.o:\n  dot \(generic, .*\)\n  warm left as it was: "


@pytest.mark.parametrize(("flags", "line"), [((), 2), (("-g",), 3)], ids=["the function's line", "with -g the code's"])
def test_a_function_that_cannot_have_versions_leaves_the_others_theirs(
    mavcg: Any, project: Path, cores: Sequence[str], monkeypatch: pytest.MonkeyPatch, flags: Sequence[str], line: int
) -> None:
    (project / "hot.c").write_text(TWO_HOT)
    config(project, 'dot", "warm', cores)
    misreturn(monkeypatch)
    ended = launch(mavcg, "--strict", "gcc", "-O2", *flags, "-c", "hot.c")
    assert ended.status == 0 and {"generic", *cores} <= labels(project / "hot.o", "dot")
    told = rf"{ONLY_WARM}hot\.c:{line}: .* in line \d+ of its IR: ret i64 %\w+"
    assert re.match(told, ended.stderr) and not labels(project / "hot.o", "warm")


@pytest.mark.spread
@pytest.mark.parametrize("verb", ["build", "launch"])
@pytest.mark.parametrize(
    ("fault", "why"),
    [(undone, "by a fault of mavcg.*ZeroDivisionError"), (unprintable, "does not assemble: unrecognized")],
)
def test_a_fault_of_the_machine_passes_leaves_the_other_functions_theirs(
    mavcg: Any,
    here: Path,
    gcc: object,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[pytest.MonkeyPatch], None],
    why: str,
    verb: str,
) -> None:
    (here / "hot.c").write_text(TWO_HOT)
    target = "aarch64-linux-musl"
    config(here, 'dot", "warm', ["cortex-a53"], f'target = "{target}"\n')
    monkeypatch.setenv("MAVCG_CACHE", str(here / "cache"))  # no schedule of an earlier build is taken
    fault(monkeypatch)
    if verb == "build":
        words = ["--source", "hot.c", "--target", target, "--hot", "dot,warm", "--cores", "cortex-a53"]
        ended = mavcg("build", *words, "-o", "hot.o")
        told = " ".join(ended.stdout.split())
    else:
        compiler = [sys.executable, "-m", "ziglang", "cc", "-target", target]
        ended = launch(mavcg, "--strict", *compiler, "-O2", "-c", "hot.c")
        told = ended.stderr
    assert ended.status == 0, ended.stderr
    assert labels(here / "hot.o", "dot") >= {"generic", "cortex-a53"} and not labels(here / "hot.o", "warm")
    assert re.search(rf"hot\.c:2: .*{why}", told), ended


def test_the_compilers_errors_and_warnings_pass_through(mavcg: Any, project: Path, run_program: Any) -> None:
    (project / "bad.c").write_text("int f( {\n")
    for name, *flags in (("bad.c",), ("hot.c", "-Wall", "-DUNUSED=static int x;", "-include", "unused.h")):
        (project / "unused.h").write_text("static int unused_variable;\n")
        command = ["gcc", *flags, "-c", name, "-o", "out.o"]
        plain, launched = run_program(*command), launch(mavcg, *command)
        assert launched.status == plain.status
        assert launched.stderr.startswith(plain.stderr) and plain.stderr
    assert not (project / "bad.o").exists()


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "launch: no compiler is named; usage: mavcg launch"),
        (["--nonsense", "gcc"], 2, "launch --nonsense: is not an option of mavcg launch"),
        (["--max-growth", "much", "gcc"], 2, "launch --max-growth much: is not a percentage of 0 or more"),
        (["--max-growth=-1", "gcc"], 2, "launch --max-growth -1: is not a percentage of 0 or more"),
        (["no-such-compiler", "-c", "hot.c"], 127, "no-such-compiler: cannot be run (No such file or directory)"),
        (["sh", "-c", "exit 3"], 3, ""),
        (["sh", "-c", "kill -9 $$"], 137, ""),
    ],
)
def test_exit_status(mavcg: Any, project: Path, words: list[str], status: int, message: str) -> None:
    ended = launch(mavcg, *words)
    assert ended.status == status and message in ended.stderr and ended.stdout == ""


UNVERSIONABLE = "int dot(int n, ...) { return n; }\n"


def test_what_cannot_be_versioned_keeps_the_plain_object(
    mavcg: Any, project: Path, cores: Sequence[str], run_program: Any
) -> None:
    """A source that gcc takes and clang does not: a nested function."""
    (project / "hot.c").write_text(DOT + " { int twice(int x) { return x + n; } return twice(a[0] * b[0]); }\n")
    plain = run_program("gcc", "-c", "hot.c", "-o", "plain.o")
    assert plain.status == 0

    kept = launch(mavcg, "gcc", "-c", "hot.c", "-o", "hot.o")
    assert kept.status == 0 and kept.stderr.startswith("mavcg: the compiler's object stays: ")
    assert "function definition is not allowed here" in kept.stderr
    assert (project / "hot.o").read_bytes() == (project / "plain.o").read_bytes()

    strict = launch(mavcg, "--strict", "gcc", "-c", "hot.c", "-o", "hot.o")
    assert strict.status == 2 and (project / "hot.o").read_bytes() == (project / "plain.o").read_bytes()


def test_a_refused_function_keeps_the_plain_object(mavcg: Any, project: Path, run_program: Any) -> None:
    (project / "hot.c").write_text(UNVERSIONABLE)
    assert run_program("gcc", "-c", "hot.c", "-o", "plain.o").status == 0
    ended = launch(mavcg, "gcc", "-c", "hot.c", "-o", "hot.o")
    assert ended.status == 0 and "the compiler's object stays: hot.o: dot left as it was: " in ended.stderr
    assert (project / "hot.o").read_bytes() == (project / "plain.o").read_bytes()
    assert launch(mavcg, "--strict", "gcc", "-c", "hot.c", "-o", "hot.o").status == 2


def test_a_function_that_comes_out_equal_keeps_the_plain_object(
    mavcg: Any, project: Path, cores: Sequence[str], run_program: Any
) -> None:
    config(project, "cool", cores)
    assert run_program("gcc", "-c", "cold.c", "-o", "plain.o").status == 0
    ended = launch(mavcg, "--strict", "gcc", "-c", "cold.c")
    assert ended.status == 0
    assert ended.stderr.startswith("mavcg: cold.o: cool (one version for all); growth 0 % (")
    assert ended.stderr.endswith(" s of CPU time); the compiler's own object stays\n")
    assert (project / "cold.o").read_bytes() == (project / "plain.o").read_bytes()
    assert not list(project.glob(".mavcg-*"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "mavcg.toml: not found in "),
        ("[build", "mavcg.toml: not TOML ("),
        ("[build]\nhot = ['dot']\n", "no cores are named"),
        ("[build]\nhot = ['dot']\ncores = ['cortex']\n", "--cores cortex: no such core"),
        ("[build]\nprofile = 'absent.json'\ncores = ['CORE']\n", "absent.json: cannot be read"),
        ("[build]\nhot = ['dot']\ncores = ['CORE']\nmeasurements = 'absent.json'\n", "absent.json: cannot be read"),
    ],
)
def test_a_bad_build_file_breaks_no_build(
    mavcg: Any, project: Path, cores: Sequence[str], text: str | None, message: str
) -> None:
    (project / "mavcg.toml").unlink()
    if text is not None:
        (project / "mavcg.toml").write_text(text.replace("CORE", cores[0]))
    ended = launch(mavcg, "gcc", "-c", "hot.c")
    assert ended.status == 0 and (project / "hot.o").is_file() and not notes(project / "hot.o")
    assert ended.stderr.startswith("mavcg: the compiler's object stays: ") and message in ended.stderr
    assert launch(mavcg, "--strict", "gcc", "-c", "hot.c").status == 2


def test_a_build_for_another_machine_keeps_its_objects(mavcg: Any, project: Path) -> None:
    from mavcg.toolchain.target import host_target

    config(project, "dot", ["cortex-a55" if host_target().arch == "x86_64" else "haswell"])
    ended = launch(mavcg, "gcc", "-c", "hot.c")
    assert ended.status == 0 and not notes(project / "hot.o")


def test_a_fault_of_ours_breaks_no_build(mavcg: Any, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mavcg.program.build_module.make_versions", lambda *_: 1 / 0)
    ended = launch(mavcg, "gcc", "-c", "hot.c")
    assert ended.status == 0 and (project / "hot.o").is_file()
    assert "the compiler's object stays: a fault of mavcg: ZeroDivisionError" in ended.stderr


def test_a_cache_that_cannot_be_written_breaks_no_build(
    mavcg: Any, project: Path, cores: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "blocked").write_text("a file where a folder is wanted")
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", zig_cache())
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "blocked"))
    (project / "perf.txt").write_text(PROFILE)
    (project / "mavcg.toml").write_text(f"[build]\nprofile = 'perf.txt'\nthreshold = 50\ncores = ['{cores[0]}']\n")
    ended = launch(mavcg, "gcc", "-c", "cold.c")
    assert ended.status == 0 and ended.stderr == ""


def test_an_object_that_cannot_be_replaced_is_no_fault_of_ours(
    mavcg: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename of the finished object fails: found by `make inject`."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(project / "hot.o"))

    monkeypatch.setattr("mavcg.program.launching.version_object", full)
    for strict, status in (((), 0), (("--strict",), 2)):
        ended = launch(mavcg, *strict, "gcc", "-c", "hot.c")
        assert ended.status == status and (project / "hot.o").is_file()
        words = f"the compiler's object stays: {project / 'hot.o'}: No space left on device; make room"
        assert words in ended.stderr and "fault" not in ended.stderr
