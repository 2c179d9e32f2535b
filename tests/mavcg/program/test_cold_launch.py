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

import mavcg.program.cold_command as cold_command
import mavcg.program.cold_launch as cold_launch
from mavcg.files.store import cache_root
from mavcg.program.buildfile import BuildFile
from mavcg.program.cold_command import linked_output, plain_command
from mavcg.program.cold_launch import is_cold, is_silent, note_path, read_note, write_note
from mavcg.program.depfile import dependency_file
from mavcg.program.foreign_compilers import foreign_command
from mavcg.program.launching import leave_note
from mavcg.program.lto import lto_of
from mavcg.program.sources.compile_commands import CompileUnit, read_command
from mavcg.program.unversioned_outputs import several_units, why_unversioned

ROOT = Path(__file__).parents[3]
COMPILERS = (
    *("gcc", "aarch64-linux-gnu-g++-12", "/opt/bin/clang", "cc", "gfortran", "ccache", "rustc", "zig"),
    *("zig cc", "/opt/zig c++", "ccache gcc", "ccache zig cc", "ccache -s", "zig ar"),
)
WORDS = """-c -o x.o out.d/y.c.o - a.c b/b.cpp c.s d.f90 e.h -O2 -g -Iinclude -I include -DX=1 -D Y -MD -MMD -MP -MF
    z.d -MT t -E -S -M -MM -MJ -x c++ none -flto -flto=thin -fno-lto -fsyntax-only -Wall -Wp,-MD,k.d -Wl,-s -std=c11
    -mavx2 -mllvm -Xclang -emit-llvm -ffat-lto-objects -include stdio.h -isystem -shared -### --version @args -v
    -march=native -save-temps -target aarch64-linux-gnu -L lib -lm --param y.a libz.so b.o -static -s -pie -rdynamic
    -print-search-dirs -dumpmachine -dumpversion -l -Wl,--no-undefined""".split()


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


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of all names that commands of COMPILERS and WORDS may write."""
    folder = tmp_path_factory.mktemp("outputs")
    for name in ("a.out", *(word for word in WORDS if not word.startswith(("/", "@")))):
        (folder / name).parent.mkdir(exist_ok=True)
        if not (folder / name).is_dir():
            (folder / name).touch()
    return folder


@given(compiler=sampled_from(COMPILERS), words=lists(sampled_from(WORDS), max_size=8))
def test_an_output_that_the_short_way_knows_is_what_the_long_way_asks_about(
    outputs: Path, compiler: str, words: Sequence[str]
) -> None:
    command = [*compiler.split(), *words]
    output = linked_output(command)
    if output is None:
        return
    assert plain_command(command) is None and foreign_command(command, outputs) is None
    assert not isinstance(read_command(command, outputs), CompileUnit) and not several_units(command, outputs)
    asked = [str(entry.output.relative_to(outputs)) for entry in why_unversioned(command, outputs)]
    assert asked == [output] * bool(output)


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("gcc -o conftest -g -O2 -D_GNU_SOURCE conftest.c -lm", "conftest"),
        ("zig cc -mcpu=baseline conftest.c", "a.out"),
        ("gcc -shared -fPIC -DPIC .libs/a.o .libs/b.o -Wl,-soname -Wl,liba.so.0 -O2 -o .libs/liba.so.0.0.0", ""),
        ("c++ -O3 -rdynamic CMakeFiles/a.dir/b.cpp.o -o a libb.a -L/opt/lib -lpthread", ""),
        ("gcc -E conftest.c", ""),
        ("gcc --version", ""),
        ("gcc -print-prog-name=ld", ""),
    ],
)
def test_links_and_questions_of_configure_scripts_take_the_short_way(command: str, output: str) -> None:
    assert linked_output(command.split()) == output


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


def test_a_program_with_a_word_of_a_hot_function_takes_the_long_way(
    noted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["gcc", "-O2", "a.c", "-o", "program"]
    assert not is_silent(command, None)  # there is none
    (noted / "program").write_bytes(b"cool")
    assert is_silent(command, None) and is_silent(command, str(noted / "mavcg.toml"))
    assert is_silent(["gcc", "a.o", "-o", "elsewhere"], None)
    (noted / "program").write_bytes(b"_ZN2nn3dotIfEEvv")
    assert not is_silent(command, None)
    monkeypatch.setenv("CCACHE_DISABLE", "1")
    assert not is_silent(["gcc", "-E", "a.c", "-o", "a.i"], None)


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
    (noted / "program").write_bytes(b"cool")
    assert read_note(str(noted / "mavcg.toml")) is None and not cold()
    assert not is_silent(["gcc", "a.c", "-o", "program"], None)


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
@pytest.mark.parametrize("command", ["gcc -MD -O1 -c a.c", "gcc -O1 -shared a.c -o a.so", "gcc -E a.c -o a.i"])
def test_a_cold_file_imports_nothing_that_takes_time(noted: Path, command: str) -> None:
    (noted / "a.c").write_text("int cool(int x) { return x + 1; }\n")
    script = SHORT.format(root=str(ROOT), command=command.split())
    run = [sys.executable, "-I", "-S", "-c", script]
    ended = subprocess.run(run, cwd=noted, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    assert ended.stdout.split() == [
        "gc",
        "mavcg",
        "mavcg.cli",
        "mavcg.cli.launch",
        "mavcg.program",
        cold_command.__name__,
        cold_launch.__name__,
    ]
    if "-MD" in command:
        assert (noted / "a.d").read_text().endswith(f"\n{noted / 'mavcg.toml'}:\n")
