"""`mavcg init`: a file that works as it was written, and nothing replaced that somebody else wrote."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mavcg.objects.elf import function_symbols
from tests.mavcg.cli.smooth_program import APP, FILTER

CMAKE = "cmake_minimum_required(VERSION 3.10)\nproject(smoothing C)\nadd_executable(smoothing app.c filter.c)\n"
MAKEFILE = "CFLAGS = -O2 -g\nall: smoothing\nsmoothing: app.o filter.o\n\t$(CC) -o $@ $^\n"


@pytest.fixture
def sources(here: Path) -> Path:
    """A folder with app.c and filter.c."""
    (here / "filter.c").write_text(FILTER)
    (here / "app.c").write_text(APP)
    return here


def versions(binary: Path) -> set[str]:
    return {name for name, _ in function_symbols(binary) if name.startswith("smooth.")}


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("cc"), reason="needs cc")
def test_sources_need_nothing_more_than_three_words(sources: Path, perf: str, known_host: None, shell: Any) -> None:
    done = shell("mavcg init && mavcg profile && mavcg build")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[:2] == ["mavcg: wrote mavcg.toml", "mavcg: next: mavcg profile && mavcg build"]
    assert len(versions(sources / f"lib{sources.name}.so")) >= 2


@pytest.mark.long
@pytest.mark.parametrize("tool", ["cmake", "make"])
def test_projects_need_nothing_more_than_three_words(
    sources: Path, perf: str, known_host: None, shell: Any, tool: str
) -> None:
    if not shutil.which(tool) or not shutil.which("cc"):
        pytest.skip(f"needs {tool} and cc")
    name = "CMakeLists.txt" if tool == "cmake" else "Makefile"
    (sources / name).write_text(CMAKE if tool == "cmake" else MAKEFILE)
    done = shell("mavcg init && mavcg profile && mavcg build")
    assert done.returncode == 0, done.stderr
    built = sources / (f"lib{sources.name}.so" if tool == "cmake" else "smoothing")
    assert len(versions(built)) >= 2


def test_what_is_there_is_not_replaced(mavcg: Any, sources: Path) -> None:
    (sources / "mavcg.toml").write_text("mine")
    ended = mavcg("init", "--board", "rk3588")
    assert ended.status == 2
    assert ended.stderr == "mavcg: mavcg.toml: exists already; edit it, or replace it with --force\n"
    assert (sources / "mavcg.toml").read_text() == "mine"

    assert mavcg("init", "--board", "rk3588", "--force").status == 0
    assert 'board = "rk3588"' in (sources / "mavcg.toml").read_text()


def test_json_has_what_was_written(mavcg: Any, sources: Path, tiny_onnx: Path) -> None:
    (sources / "nets").mkdir()
    shutil.copy(tiny_onnx, sources / "nets" / "tiny.onnx")
    ended = mavcg("init", ".", "--board", "rk3588", "--json")
    assert ended.status == 0 and ended.stderr == ""
    assert json.loads(ended.stdout) == {
        "file": "mavcg.toml",
        "profile": {
            "command": ["./app"],
            "build": ["cc", "-O2", "-g", "app.c", "filter.c", "-o", "app", "-lm"],
        },
        "build": {"sources": ["filter.c"], "board": "rk3588"},
        "models": [{"file": "nets/tiny.onnx", "board": "rk3588"}],
        "guesses": [],
        "missing": [],
    }


@pytest.mark.long
def test_a_model_is_built_by_the_file_that_was_written(
    mavcg: Any, here: Path, tiny_onnx: Path, known_host: None
) -> None:
    shutil.copy(tiny_onnx, here / "tiny.onnx")
    ended = mavcg("init")
    assert ended.status == 0 and ended.stderr == "mavcg: wrote mavcg.toml\nmavcg: next: mavcg build\n"
    assert mavcg("profile").status == 0
    assert mavcg("build", "--strategy", "engine").status == 0 and (here / "libtiny.so").is_file()


def test_what_has_to_be_filled_in_is_said(mavcg: Any, here: Path) -> None:
    ended = mavcg("init", "--board", "rk3588")
    assert ended.status == 0
    assert ended.stderr.splitlines() == [
        "mavcg: wrote mavcg.toml",
        "mavcg: mavcg.toml: fill in profile.command",
        "mavcg: mavcg.toml: fill in build.sources",
    ]
    assert "mavcg.toml: profile.command is missing" in mavcg("profile").stderr
    assert "mavcg.toml: there is nothing to build" in mavcg("build").stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent"], "absent: is not a folder; name a folder, or leave it out for the current one"),
        (["--board", "exynos982"], "--board exynos982: no such board; did you mean exynos9820"),
    ],
)
def test_options_that_do_not_fit_are_refused_and_write_nothing(
    mavcg: Any, here: Path, words: list[str], message: str
) -> None:
    ended = mavcg("init", *words)
    assert ended.status == 2 and message in ended.stderr and list(here.iterdir()) == []
