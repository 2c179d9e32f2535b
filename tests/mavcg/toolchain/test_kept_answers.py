"""A compiler is asked about itself once, until it is another file."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import mavcg.toolchain.kept_answers as kept_answers
from mavcg.toolchain.kept_answers import kept_answer


@pytest.fixture
def asked(here: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The commands that ran; programs named gcc, my-g++-12 and ccache are echo, cc is a script."""
    monkeypatch.setenv("MAVCG_CACHE", str(here / "cache"))
    echo = shutil.which("echo")
    assert echo
    for name in ("gcc", "my-g++-12", "ccache"):
        shutil.copy(echo, here / name)
    (here / "clang").symlink_to("ccache")
    (here / "zig").write_text("#!/bin/sh\necho\n")
    (here / "zig").chmod(0o755)
    commands: list[tuple[str, ...]] = []

    def run_tool(command: Sequence[str], action: str) -> str:
        commands.append(tuple(command))
        return " ".join(command[1:])

    monkeypatch.setattr(kept_answers, "run_tool", run_tool)
    return commands


@pytest.mark.parametrize("name", ["gcc", "my-g++-12"])
def test_a_compiler_is_asked_once(asked: list[tuple[str, ...]], here: Path, name: str) -> None:
    command = [str(here / name), "-dumpmachine"]
    assert [kept_answer(command, "asking") for _ in range(3)] == ["-dumpmachine"] * 3
    assert len(asked) == 1
    assert kept_answer([*command, "-m32"], "asking") == "-dumpmachine -m32" and len(asked) == 2
    kept_answer(command, "asking", b"a file that the command names")
    assert len(asked) == 3


def test_messages_are_kept_while_they_hold(asked: list[tuple[str, ...]], here: Path) -> None:
    command = [str(here / "gcc"), "-v", "a b"]
    first = kept_answer(command, "asking", messages=True)
    assert asked == [("/bin/sh", "-c", f"LC_ALL=C {command[0]} -v 'a b' 2>&1 >/dev/null")]
    assert kept_answer(command, "asking", messages=True, holds=lambda text: text == first) == first
    assert len(asked) == 1
    kept_answer(command, "asking", messages=True, holds=lambda text: False)
    kept_answer(command, "asking")
    assert len(asked) == 3


def test_a_compiler_is_asked_again_when_it_or_its_environment_changes(
    asked: list[tuple[str, ...]], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [str(here / "gcc"), "-v"]
    kept_answer(command, "asking")
    shutil.copy(here / "my-g++-12", here / "new")
    (here / "new").replace(here / "gcc")
    kept_answer(command, "asking")
    monkeypatch.setenv("GCC_EXEC_PREFIX", "/elsewhere")
    kept_answer(command, "asking")
    assert len(asked) == 3
    monkeypatch.setenv("MAVCG_CACHE", "off")
    kept_answer(command, "asking")
    kept_answer(command, "asking")
    assert len(asked) == 5


@pytest.mark.parametrize("name", ["ccache", "clang", "zig", "nothing"])
def test_what_starts_other_programs_is_asked_each_time(asked: list[tuple[str, ...]], here: Path, name: str) -> None:
    for _ in range(2):
        kept_answer([str(here / name), "-v"], "asking")
    assert len(asked) == 2
