"""The short way of `mavcg launch` decides what the long way would, and imports nothing that takes time."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import lists, sampled_from

import mavcg.program.cold_launch as cold_launch
from mavcg.files.store import cache_root
from mavcg.program.buildfile import BuildFile
from mavcg.program.cold_launch import is_cold, note_path, plain_command, read_note, write_note
from mavcg.program.depfile import dependency_file
from mavcg.program.foreign_compilers import foreign_command
from mavcg.program.launching import leave_note
from mavcg.program.lto import lto_of
from mavcg.program.sources.compile_commands import CompileUnit, read_command

ROOT = Path(__file__).parents[3]
COMPILERS = (
    *("gcc", "aarch64-linux-gnu-g++-12", "/opt/bin/clang", "cc", "gfortran", "ccache", "rustc", "zig"),
    *("zig cc", "/opt/zig c++", "ccache gcc", "ccache zig cc", "ccache -s", "zig ar"),
)
WORDS = """-c -o x.o out.d/y.c.o - a.c b/b.cpp c.s d.f90 e.h -O2 -g -Iinclude -I include -DX=1 -D Y -MD -MMD -MP -MF
    z.d -MT t -E -S -M -MM -MJ -x c++ none -flto -flto=thin -fno-lto -fsyntax-only -Wall -Wp,-MD,k.d -Wl,-s -std=c11
    -mavx2 -mllvm -Xclang -emit-llvm -ffat-lto-objects -include stdio.h -isystem -shared -### --version @args -v
    -march=native -save-temps -target aarch64-linux-gnu -L lib -lm --param""".split()


@given(compiler=sampled_from(COMPILERS), words=lists(sampled_from(WORDS), max_size=12))
def test_a_command_that_the_short_way_knows_compiles_what_the_long_way_says(
    compiler: str, words: Sequence[str]
) -> None:
    command = [*compiler.split(), "-c", "a.c", *words]
    short = plain_command(command)
    if short is None:
        return
    folder = Path("/folder")
    unit = read_command(command, folder)
    assert isinstance(unit, CompileUnit) and foreign_command(unit.arguments, folder) is None
    assert (folder / short.source, folder / short.output) == (unit.source, unit.output)
    assert (folder / short.depends if short.depends else None) == dependency_file(unit)
    assert lto_of(unit.flags) is None
    assert short.direct == (unit.arguments == tuple(command))


@pytest.mark.parametrize(
    "command",
    [
        "gcc -O2 -c a.c",
        "aarch64-linux-gnu-gcc-12 -std=gnu11 -I inc -Wall -fPIC -MD -MT x.o -MF x.d -o x.o -c a.c",
        "c++ -DNDEBUG -isystem /usr/include/x -march=armv8-a -g -pthread -o CMakeFiles/a.dir/b.cpp.o -c /src/b.cpp",
        "/opt/zig/zig cc -target aarch64-linux-gnu.2.17 -O2 -c a.c",
        "ccache clang --target=aarch64-linux-gnu -O2 -c a.c",
    ],
)
def test_the_commands_of_make_and_cmake_take_the_short_way(command: str) -> None:
    assert plain_command(command.split()) is not None


@pytest.mark.parametrize("named", ["", "off", "/cache"])
@pytest.mark.parametrize("xdg", ["", "relative", "/xdg"])
@pytest.mark.parametrize("home", ["", "/home/u"])
def test_notes_are_in_the_users_store(named: str, xdg: str, home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MAVCG_CACHE", named), ("XDG_CACHE_HOME", xdg), ("HOME", home)):
        monkeypatch.setenv(name, value)
    root = cache_root()
    assert os.path.dirname(note_path("mavcg.toml")) == (str(root / "launch") if root else "")


@pytest.fixture
def noted(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an object and a mavcg.toml, for which there is a note."""
    monkeypatch.setenv("MAVCG_CACHE", str(here / "cache"))
    (here / "mavcg.toml").write_text('[build]\nhot = ["dot"]\n')
    (here / "a.o").write_bytes(b"cool")
    leave_note(here / "mavcg.toml", BuildFile(hot=("nn::dot<float>",)))
    return here


def cold(config: Path | None = None) -> bool:
    command = plain_command(["gcc", "-MD", "-c", "a.c"])
    assert command is not None
    return is_cold(command, str(config) if config else None)


def test_an_object_with_a_word_of_a_hot_function_takes_the_long_way(noted: Path) -> None:
    assert cold() and cold(noted / "mavcg.toml")
    (noted / "a.o").write_bytes(b"_ZN2nn3dotIfEEvv")
    assert not cold()
    (noted / "a.o").unlink()
    assert not cold()


NOTE_CHANGES = ("config", "note", "writable", "folder", "link", "profile")


def change_note(noted: Path, change: str) -> None:
    """Make one of NOTE_CHANGES, after which a folder's note may no longer be used."""
    config, note = noted / "mavcg.toml", Path(note_path(str(noted / "mavcg.toml")))
    if change == "config":
        config.write_text('[build]\nhot = ["cool"]\n')
    elif change == "note":
        note.write_bytes(note.read_bytes()[:20])
    elif change == "writable":
        note.chmod(0o666)
    elif change == "folder":
        note.parent.chmod(0o777)
    elif change == "link":
        note.rename(noted / "elsewhere")
        note.symlink_to(noted / "elsewhere")
    elif change == "profile":
        write_note(str(config), str(noted / "gone.json"), [], [b"dot"])
        note.unlink()


@pytest.mark.parametrize("change", NOTE_CHANGES)
def test_a_note_counts_for_its_configuration_and_its_user_alone(noted: Path, change: str) -> None:
    change_note(noted, change)
    assert read_note(str(noted / "mavcg.toml")) is None and not cold()


def test_words_that_are_not_certain_leave_no_note(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(here / "cache"))
    (here / "mavcg.toml").write_text('[build]\nhot = ["*"]\n')
    leave_note(here / "mavcg.toml", BuildFile(hot=("*",)))
    assert not Path(note_path(str(here / "mavcg.toml"))).exists()


SHORT = """
import os, signal, sys
before = set(sys.modules)
sys.path.insert(0, {root!r})
sys.argv = ["mavcg", "launch", *{command!r}]
from mavcg.cli import main
try:
    main()
finally:
    print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_cold_file_imports_nothing_that_takes_time(noted: Path) -> None:
    (noted / "a.c").write_text("int cool(int x) { return x + 1; }\n")
    script = SHORT.format(root=str(ROOT), command=["gcc", "-MD", "-O1", "-c", "a.c"])
    run = [sys.executable, "-I", "-S", "-c", script]
    ended = subprocess.run(run, cwd=noted, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    assert ended.stdout.split() == [
        "gc",
        "mavcg",
        "mavcg.cli",
        "mavcg.cli.launch",
        "mavcg.program",
        cold_launch.__name__,
    ]
    assert (noted / "a.d").read_text().endswith(f"\n{noted / 'mavcg.toml'}:\n")
