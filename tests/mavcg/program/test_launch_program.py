"""The program of `mavcg launch --program` decides what the short way in Python does, from the same notes."""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis.strategies import lists, sampled_from

from mavcg.cli.launch import launch
from mavcg.program import cold_command, cold_launch
from mavcg.program.buildfile import BuildFile
from mavcg.program.cold_command import plain_command
from mavcg.program.cold_launch import is_cold, is_silent
from mavcg.program.launch_program import header, write_launch_program
from mavcg.program.launching import leave_note
from mavcg.program.sources.compile_commands import without_launchers
from tests.mavcg.program.test_cold_launch import COMPILERS, NOTE_CHANGES, WORDS, change_note

LONG_WAY = 77  # status of what stands for mavcg
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program, and with a gcc that does nothing or what GCC says."""
    folder = tmp_path_factory.mktemp("tools")
    for name, does in (("mavcg", f'echo "$*"; exit {LONG_WAY}'), ("gcc", 'eval "${GCC:-:}"')):
        (folder / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / name).chmod(0o755)
    for name in ("clang", "cc", "c++", "aarch64-linux-gnu-g++-12", "gfortran", "ccache", "rustc", "zig", "gcc-"):
        (folder / name).symlink_to("gcc")
    write_launch_program(folder / "mavcg-launch", [str(folder / "mavcg")])
    return folder


@pytest.fixture
def noted(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an object and a mavcg.toml, for which there is a note."""
    monkeypatch.setenv("MAVCG_CACHE", str(here / "cache"))
    (here / "mavcg.toml").write_text('[build]\nhot = ["dot"]\n')
    (here / "a.o").write_bytes(b"cool")
    (here / "a.c").write_text("cool")
    leave_note(here / "mavcg.toml", BuildFile(hot=("nn::dot<float>",)))
    return here


@pytest.fixture
def run(tools: Path, noted: Path) -> Run:
    """Run the program in the noted folder."""

    def start(*words: str, gcc: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
        variables = {**os.environ, "GCC": gcc, "PATH": f"{tools}:/usr/bin:/bin", **environment}
        return subprocess.run([tools / "mavcg-launch", *words], env=variables, capture_output=True, text=True)

    return start


@pytest.mark.long
def test_the_program_takes_the_short_way_where_python_does(run: Run, noted: Path) -> None:
    for name in ("x.o", "out.d/y.c.o", "b/b.cpp", "b.o", "a.cpp.o", "a.out"):
        (noted / name).parent.mkdir(exist_ok=True)
        (noted / name).write_bytes(b"cool")

    @settings(max_examples=300, deadline=None)
    @given(sampled_from(COMPILERS), sampled_from(("-c a.c", "a.c", "")), lists(sampled_from(WORDS), max_size=6))
    def agree(compiler: str, begin: str, words: Sequence[str]) -> None:
        first, *rest = compiler.split()
        command = [Path(first).name, *rest, *begin.split(), *words, "-w"]  # an option always has a value
        plain = plain_command(command)
        cold = is_cold(plain, None) if plain else is_silent(command, None)
        ended = run(*command)
        assert (ended.returncode, ended.stderr) == ((0, "") if cold else (LONG_WAY, "")), command

    agree()


@pytest.mark.long
@pytest.mark.parametrize("content", ["a.o: a.c", "a\\:b.o a.o: a.c \\\n a.h\na.h:\n", "no rule", "a.o: a.c {config}\n"])
def test_dependency_files_get_what_python_adds(run: Run, noted: Path, content: str) -> None:
    content = content.format(config=noted / "mavcg.toml")
    (noted / "a.d").write_text(content)
    assert run("gcc", "-MD", "-c", "a.c").returncode == 0
    assert (noted / "a.d").read_text() == cold_launch.with_dependencies(content, [str(noted / "mavcg.toml")])
    assert not list(noted.glob("*.part"))


@pytest.mark.long
@pytest.mark.parametrize("change", [*NOTE_CHANGES, "off", "elsewhere"])
def test_a_note_counts_for_its_configuration_and_its_user_alone(run: Run, noted: Path, change: str) -> None:
    options: list[str] = []
    change_note(noted, change)
    if change == "elsewhere":
        (noted / "other.toml").write_text("[build]\n")
        options = ["--config", "other.toml"]
    cache = {"MAVCG_CACHE": "Off"} if change == "off" else {}
    assert run(*options, "gcc", "-c", "a.c", **cache).returncode == LONG_WAY


@pytest.mark.long
def test_hot_files_go_to_mavcg_with_all_options(run: Run, noted: Path) -> None:
    (noted / "a.cpp").write_text("int x;")
    hot = "printf _ZN2nn3dotIfEEvv > a.o"
    assert run("--config=mavcg.toml", "gcc", "-c", "a.c").returncode == 0
    ended = run("--strict", "gcc", "-c", "a.cpp", gcc=hot)  # once compiled, it is not compiled again
    assert (ended.returncode, ended.stdout) == (LONG_WAY, "launch --compiled --strict gcc -c a.cpp\n")
    (noted / "a.c").write_text("void dot(void) {}")
    ended = run("gcc", "-c", "a.c", gcc="echo compiled")
    assert (ended.returncode, ended.stdout) == (LONG_WAY, "launch gcc -c a.c\n")
    ended = run("ccache", "gcc", "-c", "a.c", gcc="echo compiled")  # which is to keep the object of its command
    assert (ended.returncode, ended.stdout) == (LONG_WAY, "compiled\nlaunch --compiled ccache gcc -c a.c\n")
    assert run("--max-growth", "5", "gcc", "-c", "a.cpp").stdout == "launch --max-growth 5 gcc -c a.cpp\n"
    assert run().stdout == "launch\n"


@pytest.mark.long
def test_programs_that_are_compiled_and_linked_at_once_go_to_mavcg_where_they_are_hot(run: Run, noted: Path) -> None:
    link = ("gcc", "a.c", "-o", "program", "-lm")
    hot = "printf _ZN2nn3dotIfEEvv > program"
    assert run(*link, gcc="printf cool > program").returncode == 0
    assert run(*link, gcc=hot).stdout == "launch --compiled gcc a.c -o program -lm\n"
    assert run("gcc", "a.o", "-o", "program", gcc=hot).returncode == 0  # versions of objects are theirs
    assert run(*link, gcc="exit 3").returncode == 3
    assert run("gcc", "-E", "a.c", CCACHE_DISABLE="1").stdout == "launch --compiled gcc -E a.c\n"
    (noted / "mavcg.toml").unlink()
    assert run(*link, gcc="printf cool > program").returncode == LONG_WAY


@pytest.mark.long
def test_the_status_is_the_compilers(run: Run) -> None:
    assert run("gcc", "-c", "a.c", gcc="exit 3").returncode == 3
    assert run("gcc", "-c", "a.c", gcc="kill -9 $$").returncode == 128 + signal.SIGKILL
    ended = run("gcc", "-c", "a.c", gcc="kill -TERM $PPID; while :; do sleep 0.01; done")  # the signal is passed on
    assert ended.returncode == 128 + signal.SIGTERM
    assert run("gcc-99", "-c", "a.c").returncode == LONG_WAY  # is not there: mavcg says so


@pytest.mark.long
def test_a_program_written_by_the_command_makes_versions(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert launch(["--program", "none/mavcg-launch"]) == 2
    assert "launch --program none/mavcg-launch: " in capsys.readouterr().err
    assert launch(["--program", "mavcg-launch"]) == 0
    refused = subprocess.run(["./mavcg-launch", "--nonsense", "gcc"], capture_output=True, text=True)
    assert refused.returncode == 2 and "launch --nonsense: is not an option of mavcg launch" in refused.stderr


def test_both_forms_share_their_words() -> None:
    made = header(["/usr/bin/python3", "-c", 'print("\\n")'])
    assert '#define MAVCG "/usr/bin/python3", "-c", "print(\\"\\\\n\\")"' in made
    for words in (cold_command.COMPILERS, cold_command.SOURCES, cold_command.WITH_VALUE, cold_command.NOT):
        assert ", ".join(f'"{word}"' for word in words) in made


def test_the_program_is_no_compiler() -> None:
    assert without_launchers(["/build/mavcg-launch", "gcc", "-c", "a.c"]) == ("gcc", "-c", "a.c")
