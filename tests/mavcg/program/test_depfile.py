"""Objects are made again when mavcg.toml or a profile changes: by make, by ninja, under ccache."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mavcg.objects.elf import function_symbols
from mavcg.program.depfile import add_dependencies, dependency_file
from mavcg.program.sources.compile_commands import CompileUnit, read_command

LAUNCH = f"{sys.executable} -m mavcg.cli launch"
EMPTY_RULES = "\n/c/m.toml:\n\n/c/a\\ b$$\\#.json:\n"
HOT = "int dot(const short *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * a[i]; return s; }\n"


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("gcc -MD -c x.c", "/p/x.d"),
        ("gcc -MMD -c d/x.c -o out/y.o", "/p/out/y.d"),
        ("gcc -MD -MF z.dep -c x.c -o y.o", "/p/z.dep"),
        ("gcc -MD -MFz.dep -MT t -c x.c", "/p/z.dep"),
        ("gcc -Wp,-MMD,out/.x.d -c x.c -o x.o", "/p/out/.x.d"),
        ("gcc -Wp,-MD,x.d -Wp,-DX -c x.c", "/p/x.d"),
        ("gcc -MF z.dep -c x.c", None),
        ("gcc -c x.c", None),
    ],
)
def test_where_the_rules_are_written(line: str, file: str | None) -> None:
    unit = read_command(line.split(), Path("/p"))
    assert isinstance(unit, CompileUnit)
    assert dependency_file(unit) == (Path(file) if file else None)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("x.o: x.c\n", f"x.o: /c/m.toml /c/a\\ b$$\\#.json x.c\n{EMPTY_RULES}"),
        ("x.o y.o: x.c \\\n h.h\n", f"x.o y.o: /c/m.toml /c/a\\ b$$\\#.json x.c \\\n h.h\n{EMPTY_RULES}"),
        (
            "a\\:b.o: x.c h.h\nh.h:\n",
            f"a\\:b.o: /c/m.toml /c/a\\ b$$\\#.json x.c h.h\nh.h:\n{EMPTY_RULES}",
        ),
        ("no rule", "no rule"),
        ("", ""),
    ],
)
def test_files_are_added_to_the_rule_once(tmp_path: Path, text: str, made: str) -> None:
    path = tmp_path / "x.d"
    path.write_text(text)
    for _ in range(2):
        add_dependencies(path, [Path("/c/m.toml"), Path("/c/a b$#.json")])
        assert path.read_text() == made
    add_dependencies(tmp_path / "absent.d", [Path("/c/m.toml")])
    assert not (tmp_path / "absent.d").exists()


@pytest.fixture
def project(here: Path, gcc: object, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CCACHE_DISABLE", raising=False)
    (here / "hot.c").write_text(HOT)
    return here


def configure(folder: Path, core: str, when: int) -> None:
    """Write a mavcg.toml of that age in seconds: ccache trusts no file of this very second."""
    path = folder / "mavcg.toml"
    path.write_text(f'[build]\nhot = ["dot"]\ncores = ["{core}"]\n')
    os.utime(path, (path.stat().st_mtime - when, path.stat().st_mtime - when))


def cores_in(path: Path) -> set[str]:
    names = (name for name, _ in function_symbols(path))
    return {name.partition(".")[2] for name in names if name.startswith("dot.")} - {"slow", "generic"}


MAKEFILE = "hot.o: hot.c\n\t{} gcc -O2 -MMD -MP -c hot.c -o hot.o\n-include hot.d\n"
NINJA = """\
rule cc
 command = {} gcc -O2 -MD -MF hot.d -c hot.c -o hot.o
 depfile = hot.d
 deps = gcc
build hot.o: cc hot.c
"""


@pytest.mark.long
@pytest.mark.parametrize("tool", ["make", pytest.param("ninja", marks=pytest.mark.long)])
def test_a_changed_build_file_makes_the_object_again(
    project: Path, cores: Sequence[str], run_program: Any, tool: str
) -> None:
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed")
    (project / "Makefile").write_text(MAKEFILE.format(LAUNCH))
    (project / "build.ninja").write_text(NINJA.format(LAUNCH))
    arguments = [tool, "hot.o"]
    configure(project, cores[0], 100)
    assert run_program(*arguments).status == 0 and cores_in(project / "hot.o") == {cores[0]}
    before = (project / "hot.o").stat().st_mtime_ns
    assert run_program(*arguments).status == 0 and (project / "hot.o").stat().st_mtime_ns == before
    configure(project, cores[1], -2)
    assert run_program(*arguments).status == 0 and cores_in(project / "hot.o") == {cores[1]}


@pytest.mark.long
@pytest.mark.parametrize("tool", [pytest.param("make", marks=pytest.mark.long), "ninja"])
def test_a_profile_that_is_not_there_stops_no_build(
    project: Path, cores: Sequence[str], run_program: Any, tool: str
) -> None:
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed")
    (project / "Makefile").write_text(MAKEFILE.replace("-MMD -MP", "-MMD").format(LAUNCH))
    (project / "build.ninja").write_text(NINJA.format(LAUNCH))
    (project / "mavcg.toml").write_text(f'profile.command = ["./app"]\nbuild.cores = ["{cores[0]}"]\n')
    for _ in range(2):  # before `mavcg profile` has kept one, and again
        assert run_program(tool, "hot.o").status == 0 and cores_in(project / "hot.o") == set()
    (project / "mavcg-profile.json").write_text("app 1 [000] 1.0: 60 cycles: 10 dot+0x4 (/data/app)\n")
    assert run_program(tool, "hot.o").status == 0 and cores_in(project / "hot.o") == {cores[0]}
    (project / "mavcg-profile.json").unlink()
    assert run_program(tool, "hot.o").status == 0 and cores_in(project / "hot.o") == set()


@pytest.mark.long
@pytest.mark.parametrize("mode", ["DIRECT", "NODIRECT", "DEPEND"])
@pytest.mark.parametrize("order", ["ccache {launch} gcc", "{launch} ccache gcc"])
def test_ccache_serves_no_old_cores(
    project: Path, cores: Sequence[str], run_program: Any, mode: str, order: str
) -> None:
    if not shutil.which("ccache"):
        pytest.skip("ccache is not installed")
    script = project / "mavcg-launch"  # ccache takes one word for the compiler
    script.write_text(f'#!/bin/sh\nexec {LAUNCH} "$@"\n')
    script.chmod(0o755)
    os.utime(script, (script.stat().st_mtime - 100,) * 2)
    command = [*order.format(launch=script).split(), "-O2", "-MD", "-c", "hot.c", "-o", "hot.o"]
    environment = {"CCACHE_DIR": str(project / "cache"), f"CCACHE_{mode}": "1"}
    for number, core in enumerate([cores[0], cores[1], cores[0]]):
        configure(project, core, 100 - 10 * number)
        ended = run_program(*command, **environment)
        assert ended.status == 0 and cores_in(project / "hot.o") == {core}, ended.stderr
    hits = run_program("ccache", "--print-stats", **environment).stdout
    found = dict(line.split() for line in hits.splitlines())
    assert int(found["direct_cache_hit"]) + int(found["preprocessed_cache_hit"]) >= 1
