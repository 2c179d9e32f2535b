"""From mavcg.toml to a run under a profiler: what is run, where its profile is kept, when there is nothing to run."""

import sys
from pathlib import Path

import pytest

from mavcg.errors import MavcgError
from mavcg.program.buildfile import ProjectFile, read_project
from mavcg.program.profile_command import (
    ProfileRun,
    nothing_to_profile,
    profiled_board,
    project_run,
    refuse_other_file,
)
from mavcg.program.project_commands import run_command, with_mavcg


def project(folder: Path, text: str) -> ProjectFile:
    (folder / "mavcg.toml").write_text(text)
    return read_project(folder / "mavcg.toml")


def test_every_key_of_the_table_says_what_is_run(tmp_path: Path) -> None:
    text = (
        'profile.command = ["./app", "x"]\nprofile.build = ["make"]\nprofile.output = "p.json"\n'
        'profile.board = "rk3588"\nprofile.recorder = "callgrind"\nprofile.frequency = 99\n'
        'profile.event = "task-clock"\nbuild.threshold = 2\n'
    )
    run = project_run(project(tmp_path, text))
    assert run == ProfileRun(
        ("./app", "x"),
        ("make",),
        tmp_path,
        tmp_path / "p.json",
        "callgrind",
        99,
        "task-clock",
        "rk3588",
        2,
        str(tmp_path / "mavcg.toml"),
    )


def test_defaults_lie_beside_the_file(tmp_path: Path) -> None:
    run = project_run(project(tmp_path, 'profile.command = ["./app"]\n'))
    assert (run.output, run.recorder, run.build) == (tmp_path / "mavcg-profile.json", "perf", ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[model]]\nfile = "a.onnx"', "it names models only"),
        ('[build]\nboard = "host"\n[[model]]\nfile = "a.onnx"', "it names models only"),
        ('[build]\nsources = ["a.c"]\nhot = ["f"]', "build.hot names the functions"),
        ('[build]\nsources = ["a.c"]\nprofile = "perf.txt"', "build.profile is made elsewhere"),
    ],
)
def test_a_file_that_needs_no_profile(tmp_path: Path, text: str, why: str) -> None:
    told = nothing_to_profile(project(tmp_path, text))
    assert told.startswith(f"{tmp_path}/mavcg.toml: nothing to profile: {why}") and "`mavcg build`" in told


@pytest.mark.parametrize(
    "text", ["", "[build]", '[build]\nsources = ["a.c"]', '[build]\nsources = ["a.c"]\n[[model]]\nfile = "a.onnx"']
)
def test_a_file_that_needs_one_and_names_no_command(tmp_path: Path, text: str) -> None:
    with pytest.raises(MavcgError) as told:
        nothing_to_profile(project(tmp_path, text))
    assert str(told.value).startswith(f"{tmp_path}/mavcg.toml: profile.command is missing; add [profile] with command")


def test_what_is_no_profile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    refuse_other_file(path)
    for content in ("", '{\n "format": "mavcg-profile",\n "version": 1'):
        path.write_text(content)
        refuse_other_file(path)
    path.write_text("app 1 [000] 1.0: 60 cycles: 10 gemm+0x4 (/data/app)\n")
    with pytest.raises(
        MavcgError, match=r"kept.json: is not a profile that `mavcg profile` wrote.*profile.output or -o"
    ):
        refuse_other_file(path)


def test_the_host_has_all_its_cpus(monkeypatch: pytest.MonkeyPatch, cores: tuple[str, str]) -> None:
    monkeypatch.setenv("MAVCG_CPU_MAP", f"0={cores[0]},1-4095=generic")
    board = profiled_board("host")
    assert board is not None and board.name == "host"
    assert board.core_of_cpu(0) == cores[0]
    assert [c.core for c in board.clusters][1:] in ([], ["generic"])
    assert profiled_board(None) is None
    with pytest.raises(MavcgError, match="--board nosuch: no such board"):
        profiled_board("nosuch")


def test_commands_run_in_the_folder_with_variables(tmp_path: Path) -> None:
    code = "import os; open('made', 'w').write(os.environ['WORD'])"
    run_command([sys.executable, "-c", code], tmp_path, "mavcg.toml: profile.build", variables={"WORD": "a b"})
    assert (tmp_path / "made").read_text() == "a b"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["./absent", "a b"], "profile.build = ./absent 'a b': cannot be run in .* \\(No such file"),
        (["sh", "-c", "exit 3"], "profile.build = sh -c 'exit 3': ended with exit status 3; see"),
        (["sh", "-c", "kill -9 $$"], "ended with signal 9; see"),
    ],
)
def test_commands_that_fail(tmp_path: Path, words: list[str], message: str) -> None:
    with pytest.raises(MavcgError, match=message):
        run_command(words, tmp_path, "profile.build")


def test_mavcg_is_on_the_path_of_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mavcg").write_text("#!/bin/sh\n")
    (tmp_path / "mavcg").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert with_mavcg({"PATH": "/nowhere", "A": "1"}) == {"PATH": f"/nowhere:{tmp_path}", "A": "1"}
    other = tmp_path / "other"
    other.mkdir()
    (other / "mavcg").symlink_to(tmp_path / "mavcg")
    assert with_mavcg({"PATH": str(other)}) == {"PATH": str(other)}
