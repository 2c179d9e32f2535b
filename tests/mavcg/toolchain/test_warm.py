"""What fills ziglang's cache before the tests: a link of each kind that they make."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mavcg.hardware.target import host_target
from mavcg.toolchain import warm


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been run, without the paths."""
    commands: list[list[str]] = []

    def record(tool: str, arguments: Sequence[str], what: str, cwd: Path | None = None) -> str:
        commands.append([tool, *(word for word in arguments if not word.startswith("/"))])
        return ""

    monkeypatch.setattr(warm, "run_zig", record)
    monkeypatch.setattr(warm, "link_shared", lambda objects, out, target: commands.append(["shared", target.zig_name]))
    return commands


def programs(commands: list[list[str]]) -> list[list[str]]:
    return [command for command in commands if "-c" not in command and command[0] != "shared"]


def test_programs_for_emulators_are_static_with_and_without_optimisation(linked: list[list[str]]) -> None:
    assert warm.main(["aarch64-linux-musl"]) == 0

    assert ["shared", "aarch64-linux-musl"] in linked
    assert all("-static" in program and "aarch64-linux-musl" in program for program in programs(linked))
    assert ["-O2" in program for program in programs(linked)] == [False, True, True]
    assert [program[0] for program in programs(linked)] == ["c++", "c++", "cc"]


def test_this_machine_by_name_and_as_ziglangs_default(linked: list[list[str]]) -> None:
    assert warm.main(["host"]) == 0
    assert ["shared", host_target().zig_name] in linked
    assert [("-O2" in program, host_target().zig_name in program) for program in programs(linked)] == [(True, True)]

    linked.clear()
    assert warm.main(["native"]) == 0
    assert ["-O2" in program for program in programs(linked)] == [False, True]
    assert not any("-target" in command or command[0] == "shared" for command in linked)


def test_a_library_alone_for_other_targets(linked: list[list[str]]) -> None:
    assert warm.main(["aarch64-linux-gnu.2.17"]) == 0
    assert programs(linked) == [] and ["shared", "aarch64-linux-gnu.2.17"] in linked


def test_an_unknown_target_is_an_error(linked: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert warm.main(["z80-linux"]) == 1
    assert "z80-linux" in capsys.readouterr().err
