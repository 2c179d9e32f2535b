"""Set-up fills ziglang's cache with a link of each form that the tests make."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mavcg.toolchain.target import host_target
from scripts import warm_toolchain as warm
from scripts.warm_toolchain import HOST, LINKED_BY_TESTS, NATIVE, LinkForm


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been run, without the paths."""
    commands: list[list[str]] = []

    def record(tool: str, arguments: Sequence[str], what: str, cwd: Path | None = None) -> str:
        assert cwd is None or not list(cwd.glob(".venv"))
        commands.append([tool, *(word for word in arguments if not word.startswith("/"))])
        return ""

    monkeypatch.setattr(warm, "run_zig", record)
    monkeypatch.setattr(warm, "link_shared", lambda objects, out, target: commands.append(["shared", target.zig_name]))
    return commands


def programs(commands: list[list[str]]) -> list[list[str]]:
    return [command for command in commands if "-c" not in command and command[0] != "shared"]


def test_every_form_of_the_tests_is_linked(linked: list[list[str]]) -> None:
    assert warm.main(["tests"]) == 0

    assert ["shared", host_target().zig_name] in linked
    assert len(programs(linked)) == sum(form.tool != "shared" for form in LINKED_BY_TESTS)
    for program in programs(linked):  # programs for an emulator have no loader beside them
        musl = any(word.endswith("-linux-musl") for word in program)
        assert ("-static" in program) == (musl and "-shared" not in program)
    assert any("-target" not in program for program in programs(linked))  # ziglang's default


def test_this_machine_has_a_name_or_is_ziglangs_default() -> None:
    assert LinkForm(HOST, "cc").target_flags == ("-target", host_target().zig_name)
    assert LinkForm(NATIVE, "cc").target_flags == ()


def test_a_library_alone_for_other_targets(linked: list[list[str]]) -> None:
    assert warm.main(["aarch64-linux-gnu.2.17"]) == 0
    assert programs(linked) == [] and ["shared", "aarch64-linux-gnu.2.17"] in linked


def test_an_unknown_target_is_an_error(linked: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert warm.main(["z80-linux"]) == 1
    assert "z80-linux" in capsys.readouterr().err
